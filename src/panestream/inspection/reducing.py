"""Reduction of one key group: its state tables become counts, bins and the first rows of each list.

All work is done on whole columns, and the size of the result does not depend on the size of the state. Lists are sorted such
that the first entries overall are always among the first entries of some key group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panestream.engine.kernels.columns import Ints, plain
from panestream.engine.kernels.grouping import Keys, encode_keys
from panestream.engine.plan import WindowPlan
from panestream.engine.runtime.watermarks import WatermarkTracker
from panestream.engine.storage.state_tables import StateTables, StateViews
from panestream.inspection.asked import StateFilter
from panestream.inspection.bins import counted
from panestream.inspection.values import Json, json_of, row_of
from panestream.windowing.time import MAX_TIMESTAMP, MIN_TIMESTAMP

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


def reduced(plan: WindowPlan, saved: StateTables, group: int, asked: StateFilter) -> Part:
    """Reduce the state of one key group to the part that a filter selects."""
    if asked.keys:
        saved = replace(saved, tables=asked.of_tables(saved.tables, plan.key_schema))
    views: StateViews = plan.operator.views(plan, saved, group)
    if asked.by_window:
        views = StateViews(
            asked.of_view(views.windows),
            _elements_of(views.elements, asked),
            asked.of_view(views.user_state),
            asked.of_view(views.timers),
        )
    part: Part = {
        "group": group,
        "bytes": sum(table.nbytes for table in saved.tables.values()),
        "time": time_told(plan, saved.header),
        "elements": views.elements.num_rows,
        "user_state": _states(views.user_state),
        "timers": _timers(views.timers),
        **_windows(plan, views.windows, asked),
    }
    if asked.listing:
        shown = zip(LISTED, (views.windows, views.elements, views.user_state, views.timers), strict=True)
        part["listed"] = {name: _first(view, LISTED[name], asked.most) for name, view in shown}
    return part


def time_told(plan: WindowPlan, header: Mapping[str, Any]) -> Json:
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


def _windows(plan: WindowPlan, windows: pa.Table, asked: StateFilter) -> Part:
    count = windows.num_rows
    start, end = _times(windows, "window_start", NEVER), _times(windows, "window_end", NEVER)
    due, closes = _times(windows, "due", NEVER), _times(windows, "closes", NEVER)
    totals = _Totals(_counts(windows, "rows"), _counts(windows, "bytes"), due, closes)
    keys, timed = _keys(windows), end != NEVER
    ends = counted(end[timed], [np.ones(int(timed.sum()), np.int64), totals.rows[timed]])
    most = asked.most * (SPLIT_KEYS if plan.split is not None else 1)
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
        "oldest": _by_bounds(windows, bounds, (start, end, label), np.arange(count), totals, asked.most),
        "next": _by_bounds(windows, firing, (due, start, end, label), waiting, totals, asked.most),
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


def _by_bounds(windows: pa.Table, bounds: Keys, order: Sequence[Ints], asked: Ints, totals: _Totals, most: int) -> list[Json]:
    """Combine windows with equal bounds and return the first of them in an order."""
    if not len(asked):
        return []
    first = _first_rows(bounds)
    codes = np.unique(bounds.codes[asked])
    taken = codes[np.lexsort(tuple(column[first[codes]] for column in reversed(order)))[:most]]
    ones = np.ones(windows.num_rows, np.int64)
    keys, rows, size = (_added(bounds, column) for column in (ones, totals.rows, totals.size))
    due, closes = (_earliest(bounds, column) for column in (totals.due, totals.closes))
    labels, starts, ends = (windows.column(name) for name in ("window", "window_start", "window_end"))
    return [
        {
            "label": labels[row].as_py(),
            "start": _instant(starts[row]),
            "end": _instant(ends[row]),
            "keys": int(keys[code]),
            "key": _key(windows, row) if keys[code] == 1 else None,
            "rows": int(rows[code]),
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


def _elements_of(elements: pa.Table, asked: StateFilter) -> pa.Table:
    """Return the elements held by at least one selected window."""
    for instant in asked.instants:
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


__all__ = ["LISTED", "NEVER", "Part", "reduced", "time_told"]
