"""The rows of many windows that fire together, and the user functions that get them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice, pairwise
from typing import Any, Literal, NamedTuple, NoReturn

import numpy as np
import pyarrow as pa

from panestream.engine.kernels.columns import one_chunk
from panestream.engine.kernels.exact_values import cast_exactly
from panestream.engine.kernels.frames import frame_of
from panestream.engine.kernels.panes import Int64s
from panestream.engine.kernels.python_values import Place, RowType, arrow_column, has_maps, python_values, result_columns
from panestream.errors import InvalidPlanError, PanestreamError
from panestream.windowing.failures import at_window
from panestream.windowing.functions import ProcessWindowFunction, WindowFunction, WindowFunctionError, no_state, results_of
from panestream.windowing.windows import TimeWindow

_INSTANT = pa.timestamp("us", tz="UTC")
_IN_CACHE = 8_192
"""Number of window rows converted to Python objects at a time."""
_AT_ONCE = 4_096
"""Number of a user function's results converted to columns at a time."""


@dataclass(slots=True)
class WindowedRows:
    """Rows by key and window; each row is stored once, however many windows contain it.

    Attributes:
        order: places in ``rows``, window by window, each window in order of arrival.
        begins: the place in ``order`` where each window begins, with the length of ``order`` at the end.
    """

    rows: pa.Table
    order: Int64s
    begins: Int64s
    keys: pa.Table
    starts: Int64s
    ends: Int64s

    def bounds(self) -> Iterator[tuple[Any, TimeWindow]]:
        """Return key and window of each; the key is a value if there is one column, and a tuple if there are several."""
        columns = [python_values(column) for column in self.keys.columns]
        keys = columns[0] if len(columns) == 1 else list(zip(*columns, strict=True)) if columns else [()] * len(self.starts)
        return zip(keys, map(TimeWindow, self.starts.tolist(), self.ends.tolist()), strict=True)

    def place(self, number: int) -> str:
        """Return key and bounds of a window in words, for errors."""
        return at_window(*next(islice(self.bounds(), number, None)))

    def pieces(self) -> Iterator[tuple[int, int]]:
        """Return the start and end of each window in ``order``."""
        return pairwise(self.begins.tolist())


@dataclass(slots=True)
class Results:
    """Results of a function: ``of`` has the window of each row, and ``sent`` the side outputs by tag with their windows."""

    of: Int64s
    rows: pa.Table
    sent: Mapping[str, Sequence[tuple[int, Any]]] = field(default_factory=dict)


class Now(NamedTuple):
    """The times at which windows fire, in engine units."""

    watermark: int
    processing_time: int


class OverRows(ABC):
    """A function over the rows of windows, in one of the forms that users may write."""

    @property
    @abstractmethod
    def described(self) -> str:
        """The description of its calls in ``explain()``."""

    @property
    def sees_time(self) -> bool:
        """True if it may query the current time."""
        return False

    @abstractmethod
    def results(self, windows: WindowedRows, schema: pa.Schema, now: Now) -> Results:
        """Call the function and return results with the columns ``schema``, which follow keys and window.

        Raises WindowFunctionError if the function raises, and InvalidPlanError if its return value does not fit.
        """


@dataclass(frozen=True, slots=True)
class PerWindow(OverRows):
    """A window function that gets rows as Python objects."""

    function: WindowFunction

    @property
    def described(self) -> str:
        return "a call for each key and window, with a list of rows"

    def results(self, windows: WindowedRows, schema: pa.Schema, now: Now) -> Results:
        return called(windows, schema, self.function, self.function.apply)


def called(
    windows: WindowedRows,
    schema: pa.Schema,
    function: object,
    call: Callable[[Any, TimeWindow, Sequence[Any]], Any],
) -> Results:
    """Return a user function's results for each window and its rows as Python objects; ``function`` is for errors."""
    values: list[Any] = []
    counts = []
    for (key, window), inputs in zip(windows.bounds(), _elements(windows), strict=True):
        before = len(values)
        try:
            values.extend(results_of(function, call(key, window, inputs)))
        except Exception as error:
            raise _named(error, key, window, len(inputs)) from error
        counts.append(len(values) - before)
    of = np.repeat(np.arange(len(counts)), counts)
    columns = result_columns(values, schema, lambda at: windows.place(of[at]))
    return Results(of, pa.Table.from_arrays(columns, schema=schema))


def _elements(windows: WindowedRows) -> Iterator[list[Any]]:
    """Yield the rows of each window as Python objects; overlapping windows share the objects."""
    row_type = RowType(windows.rows.schema)
    if len(windows.order) > windows.rows.num_rows:
        elements, order = row_type.rows(windows.rows), windows.order.tolist()
        for begin, end in windows.pieces():
            yield [elements[place] for place in order[begin:end]]
        return
    # Windows do not overlap here. Converting a few rows at a time, which fit the cache, takes two thirds of the time.
    for rows, begins in _runs(windows):
        elements = row_type.rows(rows)
        for begin, end in pairwise(begins.tolist()):
            yield elements[begin:end]


@dataclass(frozen=True, slots=True)
class TablePerWindow(OverRows):
    """A function of key, window and an Arrow table (or a pandas frame) that returns the same kind, or rows."""

    function: Callable[[Any, TimeWindow, Any], Any]
    kind: Literal["arrow", "pandas"] = "arrow"

    @property
    def described(self) -> str:
        return f"a call for each key and window, with {'an Arrow table' if self.kind == 'arrow' else 'a pandas frame'}"

    def results(self, windows: WindowedRows, schema: pa.Schema, now: Now) -> Results:
        collected = Collected(schema, windows.place)
        given = _frames(windows) if self.kind == "pandas" else _tables(windows)
        for (key, window), rows in zip(windows.bounds(), given, strict=True):
            try:
                returned = _listed(self.function(key, window, rows))
            except Exception as error:
                raise _named(error, key, window, len(rows)) from error
            collected.add(returned)
        table, counts = collected.table()
        return Results(np.repeat(np.arange(len(counts)), counts), table)


def _tables(windows: WindowedRows) -> Iterator[pa.Table]:
    sorted_rows = windows.rows.take(pa.array(windows.order)).combine_chunks()
    for begin, end in windows.pieces():
        yield sorted_rows.slice(begin, end - begin)


def _frames(windows: WindowedRows) -> Iterator[Any]:
    """Yield the rows of each window as a separate pandas frame.

    Frames are sliced from a frame of many windows, in a quarter of the time that conversion from Arrow takes. Their types must
    depend only on the window's own rows. Nulls change types (integers become nullable, booleans objects), so windows with such
    nulls are converted one by one.
    """
    for table, begins in _runs(windows):
        alone = np.zeros(len(begins) - 1, np.bool_)
        columns = []
        for column in map(one_chunk, table.columns):
            if pa.types.is_nested(column.type) or pa.types.is_dictionary(column.type):
                alone[:] = True
                break
            if column.null_count and (pa.types.is_integer(column.type) or pa.types.is_boolean(column.type)):
                nulls = np.append(0, np.cumsum(column.is_null().to_numpy(zero_copy_only=False)))
                alone |= nulls[begins[1:]] > nulls[begins[:-1]]
                column = column.fill_null(False if pa.types.is_boolean(column.type) else 0)  # noqa: PLW2901
            columns.append(column)
        pieces = list(pairwise(begins.tolist()))
        frame: Any = None if alone.all() else frame_of(pa.Table.from_arrays(columns, names=table.column_names))
        for (begin, end), by_itself in zip(pieces, alone.tolist(), strict=True):
            if by_itself:
                yield frame_of(table.slice(begin, end - begin))
                continue
            piece = frame.iloc[begin:end].copy()
            piece.index = frame.index[: end - begin]
            yield piece


def _runs(windows: WindowedRows) -> Iterator[tuple[pa.Table, Int64s]]:
    """Yield the rows of a few windows at a time, window by window, with the start of each window and finally the row count."""
    whole = windows.begins
    cuts = np.searchsorted(whole, np.arange(_IN_CACHE, whole[-1], _IN_CACHE))
    for first, last in pairwise(np.unique([0, *cuts, len(whole) - 1]).tolist()):
        start = whole[first]
        rows = windows.rows.take(pa.array(windows.order[start : whole[last]])).combine_chunks()
        yield rows, whole[first : last + 1] - start


class Collected:
    """Combines a function's results for consecutive windows into one table with the declared columns.

    Frames and Arrow tables with the same columns are converted together: for one-row tables, separate conversion takes longer
    than the function. ``place`` returns a window's key and bounds in words, for errors.

    >>> collected = Collected(pa.schema([("n", pa.int64())]))
    >>> for returned in (pa.table({"n": [1, 2]}), None, [(3,)]):
    ...     collected.add(returned)
    >>> table, counts = collected.table()
    >>> table.column("n").to_pylist(), counts
    ([1, 2, 3], [2, 0, 1])
    """

    def __init__(self, schema: pa.Schema, place: Place = lambda _: "") -> None:
        self._schema = schema
        self._place = place
        self._kind: str = ""
        self._run: list[Any] = []
        self._done: list[pa.Table] = [schema.empty_table()]
        self.counts: list[int] = []

    def add(self, returned: Any) -> None:
        """Add the function's result for the next window: a table, a record batch, a frame, rows, or None.

        Raises InvalidPlanError, possibly only in a later call, for other kinds of results and for results that do not fit.
        """
        returned, kind = _with_kind(returned)
        if kind != self._kind or len(self._run) == _AT_ONCE:
            self._flush()
            self._kind = kind
        self._run.append(returned)
        self.counts.append(0 if returned is None else len(returned))

    def table(self) -> tuple[pa.Table, list[int]]:
        """Return the columns of all results, and the number of rows of each window."""
        self._flush()
        return pa.concat_tables(self._done), self.counts

    def _flush(self) -> None:
        run, self._run = self._run, []
        if not run or self._kind == "none":
            return
        make = _MAKERS[self._kind]
        try:
            self._done += make(run, self._schema, "")
        except InvalidPlanError:
            # Results are judged one by one, as the row operator does. The first that does not fit raises again, with its place.
            for number, returned in enumerate(run, len(self.counts) - len(run)):
                self._done += make([returned], self._schema, self._place(number))


def _with_kind(returned: Any) -> tuple[Any, str]:
    """Return a function's result (a record batch as a table) and its kind: none, tables, frames, rows or other."""
    if isinstance(returned, pa.RecordBatch):
        returned = pa.Table.from_batches([returned])
    if returned is None:
        return returned, "none"
    if isinstance(returned, pa.Table):
        return returned, "tables"
    if hasattr(returned, "iloc") and hasattr(returned, "columns") and hasattr(returned, "dtypes"):
        return returned, "frames"
    return (returned, "rows") if isinstance(returned, list) else ([returned], "other")


def _listed(returned: Any) -> Any:
    """Return the result, with the items of a generator as a list."""
    return list(returned) if isinstance(returned, Iterator) else returned


def _from_rows(lists: Sequence[list[Any]], schema: pa.Schema, place: str) -> list[pa.Table]:
    rows = [row for rows in lists for row in rows]
    return [pa.Table.from_arrays(result_columns(rows, schema, lambda _: place), schema=schema)]


def _from_others(returned: Sequence[Any], schema: pa.Schema, place: str) -> list[pa.Table]:
    kind = type(returned[0][0]).__name__
    raise InvalidPlanError(
        f"the function returned a value of type {kind}{place}, which does not fit the columns {', '.join(schema.names)}: "
        "return a pyarrow.Table, a pandas frame, a list of rows, or None"
    )


def _from_tables(tables: Sequence[pa.Table], schema: pa.Schema, place: str) -> list[pa.Table]:
    """Return tables with the declared columns; those with equal columns are cast together."""
    found: list[pa.Table] = []
    for _, alike in groupby(tables, key=lambda table: table.schema):
        found.append(fitted(pa.concat_tables(alike), schema, place))
    return found


def _from_frames(frames: Sequence[Any], schema: pa.Schema, place: str) -> list[pa.Table]:
    """Return frames with the declared columns; they are combined if NumPy can join their values without changing a type."""
    filled = [frame for frame in frames if len(frame)]
    # Empty frames must have the declared columns too.
    empty = [fitted(frame, schema, place) for frame in frames if not len(frame)][:1]
    if not filled or not len(schema):
        return [*empty, *(fitted(frame, schema, place) for frame in filled)]
    try:
        columns = {field.name: _joined([frame[field.name] for frame in filled], field) for field in schema}
    except (KeyError, AttributeError, TypeError, ValueError, pa.ArrowException):
        return [fitted(frame, schema, place) for frame in frames]
    return [*empty, fitted(pa.table(columns), schema, place)]


_MAKERS: dict[str, Callable[[Sequence[Any], pa.Schema, str], list[pa.Table]]] = {
    "tables": _from_tables,
    "frames": _from_frames,
    "rows": _from_rows,
    "other": _from_others,
}


def _joined(parts: Sequence[Any], wanted: pa.Field) -> pa.Array:
    """Series of one plain type as one column.

    Raises:
        TypeError: they are of several types, or of pandas' own.
    """
    if has_maps(wanted.type):
        return arrow_column([value for part in parts for value in _objects(part)], wanted)
    plain = parts[0].dtype
    if not isinstance(plain, np.dtype) or any(part.dtype != plain for part in parts):
        raise TypeError("only one by one")
    return pa.array(np.concatenate([part.to_numpy() for part in parts]), from_pandas=True)


def _objects(series: Any) -> list[Any]:
    """Return the values of a series as Python objects, and None for what pandas calls missing."""
    return [None if is_missing else value for value, is_missing in zip(series, series.isna(), strict=True)]


def fitted(returned: Any, schema: pa.Schema, place: str) -> pa.Table:
    """Return a table or frame with only the declared columns.

    Raises InvalidPlanError, with key and window from ``place``, for missing or duplicate columns and for values that do not fit
    without loss.
    """
    columns: list[pa.Array] = []
    is_table = isinstance(returned, pa.Table)
    names = list(map(str, returned.column_names if is_table else returned.columns))
    for wanted in schema:
        if names.count(wanted.name) != 1:
            found = f"{names.count(wanted.name)} columns" if wanted.name in names else "no column"
            raise InvalidPlanError(
                f"the function returned {found} {wanted.name!r}{place}, but {', '.join(names) or 'nothing'}: "
                f"it must return each of {', '.join(schema.names)} once"
            )
        at = names.index(wanted.name)
        try:
            columns.append(cast_exactly(_column(returned, at, wanted, place), wanted.type))
        except InvalidPlanError:
            raise
        except (pa.ArrowException, AttributeError, OverflowError, TypeError, ValueError) as error:
            raise InvalidPlanError(
                f"the returned column {wanted.name!r} does not fit its type {wanted.type}{place} ({error}): "
                "change the schema, or return other values"
            ) from error
    return pa.Table.from_arrays(columns, schema=schema)


def _column(returned: Any, at: int, wanted: pa.Field, place: str) -> pa.Array:
    """Return a column of a table or frame; one of a frame that is to hold maps with the type, which Arrow would not guess."""
    if isinstance(returned, pa.Table):
        return one_chunk(returned.column(at))
    series = returned.iloc[:, at]
    if has_maps(wanted.type):
        return arrow_column(_objects(series), wanted, lambda _: place)
    given = pa.array(series, from_pandas=True)
    return one_chunk(given) if isinstance(given, pa.ChunkedArray) else given


def _named(error: Exception, key: Any, window: TimeWindow, rows: int) -> Exception:
    if isinstance(error, PanestreamError):
        return error
    held = f"holds {rows} element{'s' if rows != 1 else ''}"
    return WindowFunctionError.of("the window function", key, window, held, rows, error)


@dataclass(frozen=True, slots=True)
class TableOfRows(WindowFunction):
    """A function over tables for the row operator: builds a table of each window's rows."""

    per_window: TablePerWindow
    rows: pa.Schema
    results: pa.Schema

    def apply(self, key: Any, window: Any, inputs: Sequence[Any]) -> list[tuple[Any, ...]]:
        given: Any = pa.Table.from_arrays(RowType(self.rows).columns(inputs), schema=self.rows)
        rows = frame_of(given) if self.per_window.kind == "pandas" else given
        collected = Collected(self.results, lambda _: at_window(key, window))
        collected.add(_listed(self.per_window.function(key, window, rows)))
        return RowType(self.results).rows(collected.table()[0])  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class AllWindows(OverRows):
    """A function of one Arrow table with all firing windows: key columns, window_start, window_end, then the rows."""

    function: Callable[[pa.Table], Any]

    @property
    def described(self) -> str:
        return "one call for all windows that fire in a key group, with an Arrow table"

    def results(self, windows: WindowedRows, schema: pa.Schema, now: Now) -> Results:
        raise NotImplementedError("its results have keys and windows of their own")

    def table(self, windows: WindowedRows) -> pa.Table:
        """Return the function's input. A row column with the name of a key or bound is omitted."""
        lengths = np.diff(windows.begins)
        of = pa.array(np.repeat(np.arange(len(lengths)), lengths))
        columns = dict(zip(windows.keys.column_names, windows.keys.take(of).columns, strict=True))
        for name, bounds in (("window_start", windows.starts), ("window_end", windows.ends)):
            columns[name] = pa.array(np.repeat(bounds, lengths)).cast(_INSTANT)
        rows = windows.rows.take(pa.array(windows.order))
        columns |= {name: column for name, column in zip(rows.column_names, rows.columns, strict=True) if name not in columns}
        return pa.table(columns)

    def main(self, windows: WindowedRows, schema: pa.Schema) -> pa.Table:
        """Return main-output rows; raise WindowFunctionError if the function raises, InvalidPlanError if its rows do not fit."""
        try:
            returned = self.function(self.table(windows))
        except Exception as error:
            first = TimeWindow(int(windows.starts.min()), int(windows.ends.max()))
            raise _named(error, "all keys", first, len(windows.order)) from error
        collected = Collected(schema)
        collected.add(_listed(returned))
        return collected.table()[0]


def grouped(
    rows: pa.Table, which: Iterable[Int64s], order: Int64s, keys: pa.Table, bounds: tuple[Int64s, Int64s]
) -> WindowedRows:
    """Group sorted rows into windows.

    ``order`` has places in ``rows``, sorted by the arrays ``which`` that are constant within a key and window. ``bounds`` has the
    window bounds of each place.
    """
    changes = np.zeros(len(order), np.bool_)
    changes[:1] = True
    for numbers in which:
        changes[1:] |= numbers[1:] != numbers[:-1]
    begins = np.flatnonzero(changes)
    starts, ends = bounds
    return WindowedRows(
        rows, order, np.append(begins, len(order)), keys.take(pa.array(order[begins])), starts[begins], ends[begins]
    )


class StatelessContext:
    """Context of a stateless process function for all firing windows; ``sent`` has side outputs by tag, with window places."""

    __slots__ = ("_now", "_place", "current", "sent")

    current: TimeWindow

    def __init__(self, now: Now) -> None:
        self._now = now
        self._place = -1
        self.sent: dict[str, list[tuple[int, Any]]] = {}

    def next(self, window: TimeWindow) -> StatelessContext:
        """Move to the next window."""
        self.current = window
        self._place += 1
        return self

    def window(self) -> TimeWindow:
        return self.current

    def current_watermark(self) -> int:
        return self._now.watermark

    def current_processing_time(self) -> int:
        return self._now.processing_time

    def window_state(self) -> NoReturn:
        raise no_state("window_state()")

    def global_state(self) -> NoReturn:
        raise no_state("global_state()")

    def output(self, tag: str, value: Any) -> None:
        self.sent.setdefault(tag, []).append((self._place, value))


@dataclass(frozen=True, slots=True)
class PerWindowWithContext(OverRows):
    """A stateless process function that gets rows as Python objects."""

    function: ProcessWindowFunction

    @property
    def described(self) -> str:
        return "a call for each key and window, with a context and a list of rows, without state (stateless=True)"

    @property
    def sees_time(self) -> bool:
        return True

    def results(self, windows: WindowedRows, schema: pa.Schema, now: Now) -> Results:
        context, process = StatelessContext(now), self.function.process

        def call(key: Any, window: TimeWindow, rows: Sequence[Any]) -> Any:
            return process(key, context.next(window), rows)

        results = called(windows, schema, self.function, call)
        results.sent = context.sent
        return results
