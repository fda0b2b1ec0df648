"""A point-in-time join: for each question (a key and an instant), aggregates of the rows in some time before it.

With tiles alone, a window ends where the question's pane begins. Tiles are on one axis, by key and pane. A question is a range
of the axis, and ranges of any length are combined as for sliding windows (:mod:`panestream.engine.kernels.ranges`).

With rows, a window ends at the question itself, exclusive, and begins to the microsecond::

    panes           |------|------|------|------|------|
    window             [ head ][    tiles    ][ tail )
    from rows          xxxxx                  xxxxx

Head and tail are ranges of rows, by key and time. Such a window is not a range of one axis. Therefore each axis has a tree, whose
nodes hold the partials of 1, 2, 4, ... neighbours. Each range consists of a few nodes, and the nodes of the three ranges are
merged in time order. So an answer depends only on its own question, never on the other questions of the same call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from panestream.engine.aggregates import Aggregation
from panestream.engine.kernels.columns import Ints, Mask, array_of, one_chunk, take
from panestream.engine.kernels.grouping import encode_keys
from panestream.engine.kernels.ordering import runs, stable_order
from panestream.engine.kernels.panes import EvenGrid, Int64s
from panestream.engine.tiles.format import Tiles, without_keys
from panestream.errors import InvalidPlanError

_QUESTIONS = 1 << 16
"""Number of questions combined at a time; each has some dozens of partials."""


@dataclass(frozen=True, slots=True)
class AsOfRequest:
    """Questions. Their answers exclude rows at exactly the instants ``times``.

    ``valid`` marks the questions with an instant, or is None for all. Questions without an instant have no rows.
    """

    keys: list[pa.Array]
    times: Int64s
    valid: Mask | None = None


@dataclass(frozen=True, slots=True)
class AsOfRows:
    """Rows in an aggregation's form; ``values`` are the columns of :attr:`Aggregation.inputs`."""

    keys: list[pa.Array]
    times: Int64s
    values: list[pa.Array]


@dataclass(frozen=True, slots=True)
class AsOf:
    """The parameters common to all questions.

    Attributes:
        aggregation: the aggregates, with the keys.
        panes: the panes of the tiles.
        lengths: the lengths of the windows.
        until: the end of the tiles, which rows replace in later panes.
        exact_start: whether windows start to the microsecond, rather than at the start of a pane.
    """

    aggregation: Aggregation
    panes: EvenGrid
    lengths: tuple[int, ...]
    until: int = 0
    exact_start: bool = True

    def answers(self, asked: AsOfRequest, tiles: Tiles, rows: AsOfRows | None) -> list[pa.Table]:
        """Return the results in the order of the questions, a table for each length.

        Args:
            asked: the questions.
            tiles: one for each key and pane.
            rows: rows of the panes in which windows begin and end, and all from :attr:`until` on. None for tiles alone.
        """
        several = [part for part in (tiles, rows, asked) if part is not None]
        counts = [len(tiles.starts), *([] if rows is None else [len(rows.times)]), len(asked.times)]
        joined = [pa.concat_arrays(columns) for columns in zip(*(part.keys for part in several), strict=True)]
        codes = np.split(encode_keys(joined, sum(counts)).codes.astype(np.int64), np.cumsum(counts)[:-1])
        bare = without_keys(self.aggregation)
        if rows is None:
            source: _ByTiles | _ByRows = _ByTiles(self, bare, _Axis.of_tiles(self, tiles, codes[0]))
        else:
            source = _ByRows.of(self, bare, tiles, codes[0], rows, codes[1])
        which, at = _distinct(asked, codes[-1])
        there = [self._answered(source, bare, codes[-1][at], asked.times[at], length) for length in self.lengths]
        nothing = _of_nothing(bare)
        return [_spread(table, which, nothing) for table in there]

    def _answered(self, source: _ByTiles | _ByRows, bare: Aggregation, codes: Ints, times: Int64s, length: int) -> pa.Table:
        """Return the results of distinct questions; the column ``#`` is false for questions without rows."""
        parts = []
        for begin in range(0, len(codes), _QUESTIONS):
            some = slice(begin, begin + _QUESTIONS)
            which, results = source.results(codes[some], times[some], length)
            places = np.full(len(codes[some]), -1)
            places[which] = np.arange(len(which))
            columns = [
                take(one_chunk(column), places.clip(0), places >= 0) if len(which) else pa.nulls(len(places), column.type)
                for column in results.columns
            ]
            parts.append(pa.Table.from_arrays([*columns, pa.array(places >= 0)], names=[*results.schema.names, "#"]))
        if not parts:
            empty = bare.output_schema.append(pa.field("#", pa.bool_()))
            return empty.empty_table()
        return pa.concat_tables(parts)


class _Axis:
    """Partials (number of rows and columns) by key and place in time, which is a pane or time, with their positions."""

    def __init__(self, codes: Ints, places: Int64s, partials: list[pa.Array]) -> None:
        self.codes, self.places, self.partials = codes, places, partials
        # Places by rank: keys times microseconds would exceed int64.
        self._known = np.unique(places)
        self._at = codes * (len(self._known) + 1) + np.searchsorted(self._known, places)

    @classmethod
    def of_tiles(cls, asked: AsOf, tiles: Tiles, codes: Ints) -> _Axis:
        panes = asked.panes
        numbers = panes.panes_of(tiles.starts)
        other = np.flatnonzero((panes.starts_of(numbers) != tiles.starts) | (panes.starts_of(numbers + 1) != tiles.ends))
        if len(other):
            start, end = (pa.scalar(int(edge[other[0]]), pa.timestamp("us", "UTC")) for edge in (tiles.starts, tiles.ends))
            raise InvalidPlanError(f"a tile goes from {start} to {end}, which is not a pane of the tiles in its column 'tile'")
        order = stable_order(codes, numbers)
        return cls(codes[order], numbers[order], tiles.take(order).partials)

    def find(self, codes: Ints, places: Int64s) -> Ints:
        """Return, for each key and place, the key's first partial that is not before it."""
        wanted = codes * (len(self._known) + 1) + np.searchsorted(self._known, places)
        found: Ints = np.searchsorted(self._at, wanted)
        return found


class _ByTiles:
    """Answers from tiles alone."""

    def __init__(self, asked: AsOf, bare: Aggregation, axis: _Axis) -> None:
        self._asked, self._bare, self._axis = asked, bare, axis
        columns = [array_of(np.arange(len(axis.codes)), pa.int64()), *axis.partials]
        self._table = pa.Table.from_arrays(columns, schema=bare.partial_schema)

    def results(self, codes: Ints, times: Int64s, length: int) -> tuple[Ints, pa.Table]:
        panes = self._asked.panes
        until = panes.panes_of(times)
        # Panes have equal length, and a window is a whole number of them.
        first, end = self._axis.find(codes, until - length // panes.period), self._axis.find(codes, until)
        return self._bare.windows(self._table, first, end)


class _ByRows:
    """Answers from tiles, and from rows at the windows' beginnings and ends."""

    def __init__(self, asked: AsOf, bare: Aggregation, tiles: _Tree, rows: _Tree) -> None:
        self._asked, self._bare, self._tiles, self._rows = asked, bare, tiles, rows

    @classmethod
    def of(cls, asked: AsOf, bare: Aggregation, tiles: Tiles, tile_codes: Ints, rows: AsOfRows, row_codes: Ints) -> _ByRows:
        panes = asked.panes
        order = stable_order(row_codes, rows.times)
        at, codes, times = pa.array(order), row_codes[order], rows.times[order]
        values = [value.take(at) for value in rows.values]
        new = runs(codes) | runs(times)
        fine = bare.partials([], np.cumsum(new), values, times if bare.needs_timestamps else None)
        instants = _Axis(codes[new], times[new], [one_chunk(column) for column in fine.columns[1:]])
        whole = _Axis.of_tiles(asked, tiles, tile_codes)
        later = np.flatnonzero(instants.places >= asked.until)
        if len(later):
            # Panes that do not have a tile yet.
            numbers = panes.panes_of(instants.places[later])
            new = runs(instants.codes[later]) | runs(numbers)
            columns = [array_of(np.cumsum(new), pa.int64()), *(part.take(pa.array(later)) for part in instants.partials)]
            merged = bare.merge([pa.Table.from_arrays(columns, schema=bare.partial_schema)])
            both = [
                pa.concat_arrays([old, one_chunk(young)]) for old, young in zip(whole.partials, merged.columns[1:], strict=True)
            ]
            codes = np.concatenate([whole.codes, instants.codes[later][new]])
            numbers = np.concatenate([whole.places, numbers[new]])
            order = stable_order(codes, numbers)
            whole = _Axis(codes[order], numbers[order], [part.take(pa.array(order)) for part in both])
        return cls(asked, bare, _Tree(bare, whole), _Tree(bare, instants))

    def results(self, codes: Ints, times: Int64s, length: int) -> tuple[Ints, pa.Table]:
        panes = self._asked.panes
        begins = times - length
        last, first = panes.panes_of(times), panes.panes_of(begins)
        if self._asked.exact_start:
            first = first + (panes.starts_of(first) < begins)
        else:
            begins = panes.starts_of(first)
        # A window within one pane has neither whole panes nor a tail: all of it is its head.
        heads = np.minimum(np.where(first > last, times, panes.starts_of(first)), times)
        tails = np.maximum(panes.starts_of(last), heads)
        tiles, rows = self._tiles.axis, self._rows.axis
        pieces = [
            self._rows.cover(rows.find(codes, begins), rows.find(codes, heads)),
            self._tiles.cover(tiles.find(codes, first), tiles.find(codes, np.maximum(first, last))),
            self._rows.cover(rows.find(codes, tails), rows.find(codes, times)),
        ]
        owners = np.concatenate([piece.owners for piece in pieces])
        order = stable_order(owners)
        owners, at = owners[order], pa.array(order)
        columns = [pa.concat_arrays(list(parts)).take(at) for parts in zip(*(piece.partials for piece in pieces), strict=True)]
        table = pa.Table.from_arrays([array_of(owners, pa.int64()), *columns], schema=self._bare.partial_schema)
        every = np.arange(len(codes))
        return self._bare.windows(table, every, every + 1)


@dataclass(frozen=True, slots=True)
class _Pieces:
    """Tree nodes that make up ranges; ``owners`` is the range of each node, in order within a range."""

    owners: Ints
    partials: list[pa.Array]


class _Tree:
    """Partials of 1, 2, 4, ... neighbours on an axis."""

    def __init__(self, bare: Aggregation, axis: _Axis) -> None:
        self.axis = axis
        self._bare = bare
        self._levels = [axis.partials]

    def cover(self, start: Ints, end: Ints) -> _Pieces:
        """Return the nodes of each range ``[start, end)``, at most two of each size."""
        owners, level = np.arange(len(start)), 0
        left, right = start.copy(), np.maximum(start, end)
        found: list[tuple[int, Ints, Ints, Ints]] = []
        # Nodes on the left are ordered by size; those on the right follow in reverse order.
        while bool((left < right).any()):
            odd = np.flatnonzero((left < right) & (left & 1 == 1))
            found.append((level, owners[odd], np.full(len(odd), level), left[odd]))
            left[odd] += 1
            odd = np.flatnonzero((left < right) & (right & 1 == 1))
            right[odd] -= 1
            found.append((level, owners[odd], np.full(len(odd), 1000 - level), right[odd]))
            left, right, level = left >> 1, right >> 1, level + 1
        if not found:
            none = np.zeros(0, np.int64)
            return _Pieces(none, [column.slice(0, 0) for column in self.axis.partials])
        partials = [
            pa.concat_arrays(list(parts)) for parts in zip(*(self._taken(of, places) for of, _, _, places in found), strict=True)
        ]
        owner, rank = (np.concatenate([one[place] for one in found]) for place in (1, 2))
        order = stable_order(owner, rank)
        return _Pieces(owner[order], [column.take(pa.array(order)) for column in partials])

    def _taken(self, level: int, places: Ints) -> list[pa.Array]:
        at = pa.array(places)
        return [column.take(at) for column in self._level(level)]

    def _level(self, level: int) -> list[pa.Array]:
        while len(self._levels) <= level:
            below = self._levels[-1]
            pairs = array_of(np.arange(len(below[0])) >> 1, pa.int64())
            merged = self._bare.merge([pa.Table.from_arrays([pairs, *below], schema=self._bare.partial_schema)])
            self._levels.append([one_chunk(column) for column in merged.columns[1:]])
        return self._levels[level]


def _distinct(asked: AsOfRequest, codes: Ints) -> tuple[Ints, Ints]:
    """Return the distinct question of each question (-1 without an instant), and the distinct ones by key and time."""
    places = np.arange(len(codes)) if asked.valid is None else np.flatnonzero(asked.valid)
    order = places[stable_order(codes[places], asked.times[places])]
    new = runs(codes[order]) | runs(asked.times[order])
    which = np.full(len(codes), -1)
    which[order] = np.cumsum(new) - 1
    return which, order[new]


def _spread(table: pa.Table, which: Ints, nothing: Sequence[pa.Array]) -> pa.Table:
    """Spread the results of distinct questions to all; questions without rows get ``nothing``."""
    *columns, found = table.columns
    there = which >= 0
    if len(found):
        there &= found.to_numpy()[which]
    # The result of no rows follows the other results.
    at = pa.array(np.where(there, which, len(found)))
    arrays = [pa.concat_arrays([one_chunk(column), none]).take(at) for column, none in zip(columns, nothing, strict=True)]
    return pa.Table.from_arrays(arrays, names=table.schema.names[:-1])


def _of_nothing(bare: Aggregation) -> list[pa.Array]:
    """Return the results of no rows, one of each: 0 for counts, mostly null for others."""
    none = np.zeros(1, np.int64)
    made = []
    for result in bare.results:
        partials = [bare.partial_aggregates[number] for number in result.partials]
        if any(partial.is_users for partial in partials):
            # User code may rely on a row in every group.
            made.append(pa.nulls(1, result.type))
        else:
            made.append(result.finish([partial.finalize(partial.nothing(1), none) for partial in partials], none))
    return made
