"""Reduce one key group: its state tables become counts, histograms and the first rows of each list.

All work is done on whole columns, and the size of the result does not depend on the size of the state. Lists are sorted such
that the first entries overall are always among the first entries of some key group.

The bins of histograms have round bounds: whole seconds, minutes, hours, days. Each width divides the next one, and all bins are
aligned to 1970. So each key group can choose its own width, and their counts still add up.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panestream.engine.inspection.summary import BinCounts, Json
from panestream.engine.kernels.columns import Ints, key_fields, plain
from panestream.engine.kernels.grouping import Keys, encode_keys
from panestream.engine.plan import WindowPlan
from panestream.engine.runtime.watermarks import WatermarkTracker
from panestream.engine.storage.state_tables import StateTables, StateViews
from panestream.windowing.time import MAX_TIMESTAMP, MIN_TIMESTAMP, iso


@dataclass(frozen=True, slots=True)
class StateFilter:
    """A filter for reading state.

    Attributes:
        keys: the required value of some key columns, by position, as arrays of length one. Empty for all keys.
        labels: the required kinds of windows, empty for all.
        instants: times that windows must contain, in engine units.
        most: maximum length of each list.
        texts: the filters as the user wrote them, by name.
        lists: whether to list windows, elements and timers even without a filter.
    """

    keys: Mapping[int, pa.Array] = field(default_factory=dict)
    labels: tuple[str, ...] = ()
    instants: tuple[int, ...] = ()
    most: int = 10
    texts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    lists: bool = False

    @property
    def listing(self) -> bool:
        """True if the windows, elements and timers themselves are listed, up to ``most`` of each."""
        return bool(self.keys) or self.by_window or self.lists

    @property
    def by_window(self) -> bool:
        """True if the filter selects only some windows."""
        return bool(self.labels or self.instants)

    def of_tables(self, tables: Mapping[str, pa.Table], keys: pa.Schema) -> dict[str, pa.Table]:
        """Return the rows of state tables that belong to the selected keys."""
        found = dict(tables)
        names = [each.name for each in key_fields(keys)]
        for place, wanted in self.keys.items():
            for name, table in found.items():
                found[name] = table.filter(_equal(table.column(names[place]), wanted))
        return found

    def of_view(self, view: pa.Table) -> pa.Table:
        """Return the rows of a view of windows, states or timers that belong to the selected windows."""
        if self.labels and "window" in view.column_names:
            view = view.filter(pc.is_in(view.column("window"), pa.array(self.labels, pa.string())))
        for instant in self.instants:
            at = pa.scalar(instant, pa.int64()).cast(view.schema.field("window_start").type)
            holds = pc.and_(pc.less_equal(view.column("window_start"), at), pc.greater(view.column("window_end"), at))
            view = view.filter(holds)
        return view


def _equal(column: pa.ChunkedArray, wanted: pa.Array) -> pa.ChunkedArray:
    if wanted.null_count:
        return pc.is_null(column)
    # NaN is a valid key.
    nan = pa.types.is_floating(wanted.type) and wanted[0].as_py() != wanted[0].as_py()
    return pc.fill_null(pc.is_nan(column) if nan else pc.equal(column, wanted[0]), False)


_UNITS = {"s": 1_000_000, "ms": 1_000, "us": 1}


def json_of(value: Any) -> Json:
    """Return a ``pyarrow.Scalar`` as JSON.

    Times and dates are ISO 8601 (times with a Z if the column has a zone). Decimals, durations, infinities and NaN become text,
    and bytes become base64.
    """
    if not value.is_valid:
        return None
    kind, types = value.type, pa.types
    if types.is_timestamp(kind) and kind.unit in _UNITS:
        text = iso(value.value * _UNITS[kind.unit])
        return text if text is None or kind.tz is not None else text.removesuffix("Z")
    if types.is_floating(kind):
        number = float(value.as_py())
        return number if math.isfinite(number) else str(number)
    if types.is_struct(kind):
        return {field.name: json_of(value[place]) for place, field in enumerate(kind)}
    if types.is_map(kind):
        return [[json_of(entry[0]), json_of(entry[1])] for entry in value.values] if value.values is not None else []
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return [json_of(each) for each in value.values]
    found = value.as_py()
    if isinstance(found, bytes):
        return base64.b64encode(found).decode()
    return found if isinstance(found, (bool, int, str)) else str(found)


def row_of(table: pa.Table, row: int) -> dict[str, Json]:
    """Return a row of a table as JSON."""
    return {name: json_of(table.column(name)[row]) for name in table.column_names}


_MS, SECOND = 1_000, 1_000_000
MINUTE, _H = 60 * SECOND, 3_600 * SECOND
DAY = 24 * _H
WIDTHS: tuple[int, ...] = (
    *(1, 10, 100, _MS, 10 * _MS, 100 * _MS),
    *(SECOND, 5 * SECOND, 10 * SECOND, 30 * SECOND),
    *(MINUTE, 5 * MINUTE, 10 * MINUTE, 30 * MINUTE),
    *(_H, 3 * _H, 6 * _H, 12 * _H),
    *(DAY * 10**power for power in range(9)),
)
"""Widths in microseconds; each divides the next."""
KEPT = 2_000
"""Maximum number of bins stored for one key group."""


def histogram(times: Ints, columns: Sequence[Ints], most: int = KEPT) -> BinCounts:
    """Add up columns over time (microseconds, in any order), in the narrowest bins of which at most ``most`` are not empty."""
    bins, of = np.unique(times, return_inverse=True)
    sums = [_sums(of, column, len(bins)) for column in columns]
    width = 1
    for width in WIDTHS:
        wider, of = np.unique(np.floor_divide(bins, width), return_inverse=True)
        if len(wider) <= most or width == WIDTHS[-1]:
            sums = [_sums(of, column, len(wider)) for column in sums]
            break
    counts = zip(*(column.tolist() for column in sums), strict=True)
    return BinCounts(width, dict(zip(wider.tolist(), counts, strict=True)))


def _sums(of: Ints, values: Ints, count: int) -> Ints:
    sums = np.zeros(count, np.int64)
    np.add.at(sums, of.reshape(-1), values)
    return sums


NEVER = MAX_TIMESTAMP
LISTED: Mapping[str, tuple[str, ...]] = {
    "windows": ("window_start", "window_end", "window"),
    "elements": ("time", "place"),
    "user_state": ("of", "name", "window_start", "window_end"),
    "timers": ("time", "window_start", "window_end"),
}
"""The views whose rows are listed, and the columns that sort them."""
Part = dict[str, Any]
"""The reduced key group as JSON."""
SPLIT_KEYS = 100
"""Factor by which each key group lists more keys if a key can be in several key groups."""


def reduce_group(plan: WindowPlan, saved: StateTables, group: int, state_filter: StateFilter) -> Part:
    """Reduce the state of one key group to the part that a filter selects."""
    if state_filter.keys:
        saved = replace(saved, tables=state_filter.of_tables(saved.tables, plan.key_schema))
    views: StateViews = plan.operator.views(plan, saved, group)
    if state_filter.by_window:
        views = StateViews(
            state_filter.of_view(views.windows),
            _elements_of(views.elements, state_filter),
            state_filter.of_view(views.user_state),
            state_filter.of_view(views.timers),
        )
    part: Part = {
        "group": group,
        "bytes": sum(table.nbytes for table in saved.tables.values()),
        "time": time_of_header(plan, saved.header),
        "elements": views.elements.num_rows,
        "user_state": _states(views.user_state),
        "timers": _timers(views.timers),
        **_windows(plan, views.windows, state_filter),
    }
    if plan.watermark.of_keys is not None and len(state_filter.keys) == len(plan.key_schema):
        part["time"] |= dict(zip(("watermark", "closed"), plan.operator.reached(plan, saved), strict=True))
    if state_filter.listing:
        shown = zip(LISTED, (views.windows, views.elements, views.user_state, views.timers), strict=True)
        part["listed"] = {name: _first(view, LISTED[name], state_filter.most) for name, view in shown}
    return part


def time_of_header(plan: WindowPlan, header: Mapping[str, Any]) -> Json:
    """Return the time reached, from the header of a key group."""
    tracker = WatermarkTracker.from_json(plan.watermark, header["watermarks"])
    sources = [list(source) for source in tracker.by_partition()]
    newest = [known.max_timestamp for known in tracker.partitions.values() if known.max_timestamp != MIN_TIMESTAMP]
    dropped = header.get("counters", {}).get("total", {}).get("late_dropped")
    return {
        "watermark": tracker.watermark,
        "newest": max(newest, default=None),
        "clock": header.get("clock"),
        "closed": header["closed"],
        "sources": sources,
        "source_count": len(tracker.partitions),
        "idle": sum(idle for *_, idle in sources),
        "late_dropped": dropped,
    }


@dataclass(frozen=True, slots=True)
class _Totals:
    """The rows, bytes, next firing time and closing time of each window."""

    rows: Ints
    size: Ints
    due: Ints
    closes: Ints


def _windows(plan: WindowPlan, windows: pa.Table, state_filter: StateFilter) -> Part:
    count = windows.num_rows
    start, end = _times(windows, "window_start", NEVER), _times(windows, "window_end", NEVER)
    due, closes = _times(windows, "due", NEVER), _times(windows, "closes", NEVER)
    totals = _Totals(_counts(windows, "rows"), _counts(windows, "bytes"), due, closes)
    keys, timed = _keys(windows), end != NEVER
    ends = histogram(end[timed], [np.ones(int(timed.sum()), np.int64), totals.rows[timed]])
    most = state_filter.most * (SPLIT_KEYS if plan.split is not None else 1)
    label = label_places(plan, windows.column("window"))
    bounds = encode_keys([pa.array(label), pa.array(start), pa.array(end)], count)
    firing = encode_keys([pa.array(due), pa.array(bounds.codes)], count)
    waiting = np.flatnonzero(due != NEVER)
    return {
        "windows": count,
        "keys": keys.count,
        "rows": int(totals.rows.sum()),
        "rows_known": bool(count == 0 or windows.column("rows").null_count < count),
        "due": len(waiting),
        "timeless": int(count - timed.sum()),
        "ends": [ends.width, [[number, *counts] for number, counts in ends.counts.items()]],
        "most_rows": _largest(windows, keys, totals.rows, totals, most),
        "most_bytes": _largest(windows, keys, totals.size, totals, most),
        "oldest": _by_bounds(windows, bounds, (start, end, label), np.arange(count), totals, state_filter.most),
        "next": _by_bounds(windows, firing, (due, start, end, label), waiting, totals, state_filter.most),
    }


def label_places(plan: WindowPlan, labels: pa.ChunkedArray) -> Ints:
    """Return the index of each window's kind in the plan, or -1 if there is one kind without a name."""
    places = pc.index_in(labels, value_set=pa.array(plan.labels, pa.string()))
    return np.array(plain(places).fill_null(-1).to_numpy(zero_copy_only=False), np.int64)


def _largest(windows: pa.Table, keys: Keys, by: Ints, totals: _Totals, most: int) -> list[Json]:
    """Return the largest keys by a column, each with its number of windows, rows and bytes."""
    if not keys.count:
        return []
    sums = _added(keys, by)
    # Avoid a full sort, because there may be millions.
    some = np.argpartition(-sums, min(most, len(sums)) - 1)[:most] if len(sums) > most else np.arange(len(sums))
    chosen = some[np.lexsort((some, -sums[some]))]
    first = _first_rows(keys)
    per_key = [_added(keys, column) for column in (np.ones(windows.num_rows, np.int64), totals.rows, totals.size)]
    return [[_key(windows, int(first[code])), *(int(sums[code]) for sums in per_key)] for code in chosen]


def _by_bounds(windows: pa.Table, bounds: Keys, order: Sequence[Ints], rows: Ints, totals: _Totals, most: int) -> list[Json]:
    """Combine windows with equal bounds and return the first of them in an order."""
    if not len(rows):
        return []
    first = _first_rows(bounds)
    codes = np.unique(bounds.codes[rows])
    taken = codes[np.lexsort(tuple(column[first[codes]] for column in reversed(order)))[:most]]
    ones = np.ones(windows.num_rows, np.int64)
    keys, counts, size = (_added(bounds, column) for column in (ones, totals.rows, totals.size))
    due, closes = (_earliest(bounds, column) for column in (totals.due, totals.closes))
    labels, starts, ends = (windows.column(name) for name in ("window", "window_start", "window_end"))
    return [
        {
            "label": labels[row].as_py(),
            "start": _instant(starts[row]),
            "end": _instant(ends[row]),
            "keys": int(keys[code]),
            "key": _key(windows, row) if keys[code] == 1 else None,
            "rows": int(counts[code]),
            "bytes": int(size[code]),
            "due": _or_none(due[code]),
            "closes": _or_none(closes[code]),
        }
        for code, row in ((int(code), int(first[code])) for code in taken)
    ]


def _states(states: pa.Table) -> list[Json]:
    """Count users' states by owner and name."""
    found = states.group_by(["of", "name"]).aggregate([([], "count_all")])
    return [[row["of"], row["name"], row["count_all"]] for row in found.to_pylist()]


def _timers(timers: pa.Table) -> list[Json]:
    """Return the count, the first and the last of each kind of timers."""
    time = pa.array(_times(timers, "time", NEVER))
    found = pa.table({"kind": timers.column("kind"), "time": time}).group_by("kind")
    sums = found.aggregate([([], "count_all"), ("time", "min"), ("time", "max")])
    return [[row["kind"], row["count_all"], row["time_min"], row["time_max"]] for row in sums.to_pylist()]


def _elements_of(elements: pa.Table, state_filter: StateFilter) -> pa.Table:
    """Return the elements held by at least one selected window."""
    for instant in state_filter.instants:
        bounds = plain(elements.column("windows"))
        flat = bounds.flatten()
        start, end = (plain(flat.field(place)).cast(pa.int64()) for place in range(2))
        holds = np.asarray(start.fill_null(MIN_TIMESTAMP)) <= instant
        holds &= np.asarray(end.fill_null(NEVER)) > instant
        wanted = np.zeros(len(elements), np.bool_)
        wanted[np.asarray(bounds.value_parent_indices())[holds]] = True
        elements = elements.filter(pa.array(wanted))
    return elements


def _first(table: pa.Table, order: Sequence[str], most: int) -> list[Json]:
    """Return the first rows of a view, each with the values that sort it among rows of other key groups."""
    if not table.num_rows:
        return []
    rows = pc.select_k_unstable(table, min(most, table.num_rows), [(name, "ascending") for name in order])
    chosen = table.take(rows)
    places = [[_place(chosen.column(name)[row]) for name in order] for row in range(chosen.num_rows)]
    return [[place, row_of(chosen, row)] for row, place in enumerate(places)]


def _place(value: Any) -> Any:
    return value.value if value.is_valid and pa.types.is_timestamp(value.type) else value.as_py()


def _keys(windows: pa.Table) -> Keys:
    if "key" not in windows.column_names:
        return encode_keys([], windows.num_rows)
    return encode_keys(plain(windows.column("key")).flatten(), windows.num_rows)


def _key(windows: pa.Table, row: int) -> Json:
    return json_of(windows.column("key")[row]) if "key" in windows.column_names else None


def _first_rows(keys: Keys) -> Ints:
    """Return the first row of each code."""
    first = np.zeros(keys.count, np.int64)
    first[keys.codes[::-1]] = np.arange(len(keys.codes))[::-1]
    return first


def _added(keys: Keys, values: Ints) -> Ints:
    sums = np.zeros(keys.count, np.int64)
    np.add.at(sums, keys.codes, values)
    return sums


def _earliest(keys: Keys, times: Ints) -> Ints:
    found = np.full(keys.count, NEVER)
    np.minimum.at(found, keys.codes, times)
    return found


def _times(table: pa.Table, name: str, none: int) -> Ints:
    column = plain(table.column(name)).cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
    return np.array(column.fill_null(none).to_numpy(zero_copy_only=False), np.int64)


def _counts(table: pa.Table, name: str) -> Ints:
    return np.array(plain(table.column(name)).fill_null(0).to_numpy(zero_copy_only=False), np.int64)


def _instant(value: Any) -> int | None:
    return int(value.value) if value.is_valid else None


def _or_none(time: int) -> int | None:
    return None if time == NEVER else int(time)
