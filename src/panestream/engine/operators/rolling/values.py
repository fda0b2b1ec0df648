"""The values of keys at steps of time, for many keys and steps at once.

The partials of the keys form one line, key after key in the order of panes. No window begins or ends between two *cuts*, so all
panes between two cuts are one place on the line. Each window of a key and step is then a range of places::

    key                a     a     a     a   |  b     b
    panes           all time 3-5   6    7-9  |  3-5   6         cuts 3, 6, 7, 10
    place              0     1     2     3   |  4     5
    (a, step 10): the last 4 panes [2, 4), ever [0, 4)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from panestream.engine.aggregates import Aggregation
from panestream.engine.kernels.columns import Ints, Mask, plain
from panestream.engine.kernels.grouping import encode_keys
from panestream.engine.kernels.ordering import runs, stable_order
from panestream.engine.operators.columnar import integers_of, on_a_line

Windows = Sequence[int | None]
"""The lengths of windows in panes; None is all time."""


def cuts_of(windows: Windows, steps: Ints, low: int) -> Ints:
    """Return the panes, ascending, at which windows of these steps begin or end, and ``low``, the first of all."""
    begins = [steps - length for length in windows if length is not None]
    return np.unique(np.maximum(np.concatenate([steps, *begins, [low]]), low))


def without_keys(aggregation: Aggregation) -> Aggregation:
    """Return the same aggregates without key columns."""
    schema = pa.schema(list(aggregation.partial_schema)[len(aggregation.key_schema) :])
    return replace(aggregation, key_schema=pa.schema([]), partial_schema=schema)


def no_rows(aggregation: Aggregation) -> pa.Table:
    """Return the results of no rows, e.g. a count of 0 and a sum of null; raise InvalidPlanError if user code would make them."""
    bare = without_keys(aggregation)
    columns = [column for partial in bare.partial_aggregates for column in partial.nothing(1)]
    zero = pa.array(np.zeros(1, np.int64))
    partials = pa.Table.from_arrays([zero, zero, *columns], schema=bare.partial_schema)
    return bare.over_places(partials, np.zeros(1, np.int64), np.ones(1, np.int64))


@dataclass(frozen=True, slots=True)
class KeyedPanes:
    """The partials of some keys on a line.

    Attributes:
        bare: the aggregation, without keys.
        table: the partials of each place.
        positions: a number for key and cut of each place, which grows along the line.
    """

    bare: Aggregation
    cuts: Ints
    table: pa.Table
    positions: Ints

    @classmethod
    def of(
        cls, aggregation: Aggregation, panes: Sequence[pa.Table], all_time: Sequence[pa.Table], keys: list[pa.Array], cuts: Ints
    ) -> KeyedPanes:
        """Return the partials of distinct ``keys`` before the last of ``cuts``, in order of arrival.

        ``all_time`` are partials of panes before the first cut, whose ``pane`` does not count.
        """
        width, parts = len(aggregation.key_schema), [*all_time, *panes]
        before = sum(part.num_rows for part in all_time)
        table = pa.concat_tables([aggregation.partial_schema.empty_table(), *parts])
        # The first of rows with equal times counts. Partials of all time arrived before late panes, so these follow them.
        at = np.maximum(integers_of(table, "pane"), cuts[0] - 1)
        at[:before] = cuts[0] - 1
        known = _codes_among(table, keys, width)
        kept = np.flatnonzero((known >= 0) & (at < cuts[-1]))
        if aggregation.keeps_order:
            kept = kept[stable_order(at[kept])]
        codes, cut = known[kept], np.searchsorted(cuts, at[kept], "right")
        order = stable_order(codes, cut)
        positions = codes[order] * (len(cuts) + 1) + cut[order]
        new = runs(positions)
        bare = without_keys(aggregation)
        columns = table.columns[width + 1 :]
        line = on_a_line(bare, columns, kept[order], np.cumsum(new) - 1)
        return cls(bare, cuts, line, positions[new])

    def values(self, windows: Windows, codes: Ints, steps: Ints, nothing: pa.Table) -> tuple[list[pa.Array], Mask]:
        """Return the results of each window for pairs of key and step, and which pairs have rows in a window.

        The pairs are ascending and the steps are cuts; ``nothing`` are the results of no rows.
        """
        stride, has_rows, columns = len(self.cuts) + 1, np.zeros(len(codes), np.bool_), list[pa.Array]()
        end = self._places(codes * stride + np.searchsorted(self.cuts, steps) + 1)
        for length in windows:
            # Cut 0 has all panes before the first one.
            cut = 0 if length is None else np.searchsorted(self.cuts, steps - length) + 1
            start = self._places(codes * stride + cut)
            some = start < end
            found = self.bare.over_places(self.table, start[some], end[some])
            has_rows |= some
            rows = np.full(len(codes), found.num_rows, np.int64)
            rows[some] = np.arange(found.num_rows)
            columns += [plain(column) for column in pa.concat_tables([found, nothing]).take(pa.array(rows)).columns]
        return columns, has_rows

    def _places(self, positions: Ints) -> Ints:
        found: Ints = np.searchsorted(self.positions, positions)
        return found


def _codes_among(table: pa.Table, keys: list[pa.Array], width: int) -> Ints:
    """Return the place of each row's key among distinct ``keys``, or -1."""
    if not width:
        return np.zeros(table.num_rows, np.int64)
    both = [pa.chunked_array([*column.chunks, key]) for column, key in zip(table.columns[:width], keys, strict=True)]
    coded = encode_keys([plain(column) for column in both], table.num_rows + len(keys[0]))
    codes = np.asarray(coded.codes, np.int64)
    places = np.full(coded.count, -1, np.int64)
    places[codes[table.num_rows :]] = np.arange(len(keys[0]))
    found: Ints = places[codes[: table.num_rows]]
    return found


def differs_from_before(columns: Sequence[pa.Array], count: int) -> Mask:
    """Return which of ``count`` rows differ from the row before. Nulls are equal, and so are NaNs."""
    found = np.zeros(count, np.bool_)
    for column in columns:
        if pa.types.is_nested(column.type):
            # Arrow cannot encode lists. Equal values have equal texts.
            texts = [repr(value) for value in column.to_pylist()]
            column = pa.array(texts, pa.string())  # noqa: PLW2901 - the same values
        codes = np.asarray(encode_keys([column], count).codes, np.int64)
        found[1:] |= codes[1:] != codes[:-1]
    return found
