"""Convert a state's summary to the input of :mod:`panestream.tracing.of_state`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from panestream.engine.kernels.python_values import RowType
from panestream.engine.plan import WindowPlan
from panestream.inspection.summary import Summary
from panestream.inspection.values import Json, micros_in
from panestream.tracing.of_state import KnownRow, KnownState, KnownWindow
from panestream.tracing.why import ANY
from panestream.windowing.time import MIN_TIMESTAMP
from panestream.windowing.windows import GlobalWindow, TimeWindow, Window

_ISO = re.compile(r"\d{4,}-\d\d-\d\dT[\d:.]+Z?$")


def known_of(plan: WindowPlan, summary: Summary, where: str, key: Any = ANY) -> KnownState:
    """Return the known part of the state in a summary with lists.

    ``where`` describes the state for people. ``key`` is the requested key as the user gave it; without it keys are as in JSON.
    """
    given: Mapping[str, Sequence[Mapping[str, Json]]] = summary.listed or {"windows": (), "elements": ()}
    slowest = next((one for one in summary.sources if one.name and not one.idle), None) if summary.source_count > 1 else None
    return KnownState(
        plan=plan,
        where=where,
        windows=tuple(_window(row, key) for row in given["windows"]),
        rows=tuple(_row(plan, row, key) for row in sorted(given["elements"], key=lambda row: row["place"])),
        window_count=summary.windows,
        row_count=summary.elements,
        watermark=MIN_TIMESTAMP if summary.watermark is None else summary.watermark,
        clock=summary.clock,
        closed=MIN_TIMESTAMP if summary.closed is None else summary.closed,
        slowest=None if slowest is None else (slowest.name, slowest.watermark),
        late_dropped=summary.late_dropped,
    )


def _window(row: Mapping[str, Json], key: Any) -> KnownWindow:
    return KnownWindow(
        key=_key(row, key),
        window=_bounds(row["window_start"], row["window_end"]),
        label=row["window"],
        rows=row["rows"],
        results=row["results"],
        contents=row["contents"],
        firings=row["firings"],
        last_firing=row["last_firing"],
        due=_time(row["due"]),
        closes=_time(row["closes"]),
    )


def _row(plan: WindowPlan, row: Mapping[str, Json], key: Any) -> KnownRow:
    windows = tuple(_bounds(each["start"], each["end"]) for each in row["windows"])
    time = _time(row["time"])
    if time is None and isinstance(row.get("element"), Mapping):
        # Stored without its time if no evictor needs it. The row usually has the time in a column.
        told = row["element"].get(plan.event_time)
        time = _time(told) if isinstance(told, str) and _ISO.match(told) else None
    return KnownRow(_key(row, key), time, _element(row), windows)


def _element(row: Mapping[str, Json]) -> Any:
    element = row.get("element")
    if not isinstance(element, Mapping):
        return row.get("value") if element is None else element
    return RowType(pa.schema([(name, pa.string()) for name in element])).make(tuple(element.values()))


def _key(row: Mapping[str, Json], key: Any) -> Any:
    if key is not ANY or "key" not in row:
        return None if key is ANY else key
    values = tuple(row["key"].values())
    return values[0] if len(values) == 1 else values


def _bounds(start: str | None, end: str | None) -> Window:
    if start is None or end is None:
        return GlobalWindow()
    return TimeWindow(micros_in(start), micros_in(end))


def _time(text: str | None) -> int | None:
    return None if text is None else micros_in(text)


__all__ = ["known_of"]
