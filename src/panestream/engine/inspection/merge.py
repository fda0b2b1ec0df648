"""Merge the parts that key groups report to a summary."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from panestream.engine.explain import explain_plan
from panestream.engine.inspection.reduce import DAY, LISTED, NEVER, SECOND, WIDTHS, Part, StateFilter
from panestream.engine.inspection.summary import (
    BinCounts,
    Counts,
    GroupShown,
    Json,
    KeyShown,
    PlanShown,
    SameBounds,
    SourceTimes,
    StateShown,
    Summary,
    TimersShown,
)
from panestream.engine.plan import WindowPlan, stable_repr
from panestream.windowing.time import MAX_TIMESTAMP, MIN_TIMESTAMP

SHOWN = 48
"""Maximum number of bins shown."""


def add_histograms(parts: Iterable[BinCounts]) -> BinCounts:
    """Add up histograms, using the widest of their bins."""
    given = list(parts)
    width, found = max((part.width for part in given), default=1), dict[int, Counts]()
    for part in given:
        for number, counts in part.at(width).counts.items():
            found[number] = tuple(a + b for a, b in zip(found[number], counts, strict=True)) if number in found else counts
    return BinCounts(width, found)


def bins_to_show(given: BinCounts, most: int = SHOWN) -> BinCounts:
    """Return bins for display: at most ``most`` from first to last, and as wide as the smallest gap between counts.

    >>> hour = 3_600_000_000
    >>> bins_to_show(BinCounts(1, {2 * hour: (1,), 4 * hour: (1,)})).width // hour
    2
    >>> bins_to_show(BinCounts(1, {hour: (1,), 3 * hour: (1,)})).width // hour  # no bin of two hours begins at one o'clock
    1
    """
    if not given.counts:
        return given
    places = sorted(given.counts)
    gaps = [(b - a) * given.width for a, b in pairwise(places)]
    apart = min(gaps, default=_even(places[0] * given.width))
    if (places[-1] - places[0]) * given.width // apart < most and not any(place * given.width % apart for place in places):
        return given.at(apart)
    wide = max((width for width in WIDTHS if width <= apart), default=given.width)
    for width in WIDTHS:
        spread = places[-1] * given.width // width - places[0] * given.width // width + 1
        if width >= max(given.width, wide) and (spread <= most or width == WIDTHS[-1]):
            return given.at(width)
    return given


def _even(time: int) -> int:
    """Return the widest bin, from a second to a day, that can begin at a time, or a second if none can."""
    return max((width for width in WIDTHS if SECOND <= width <= DAY and time % width == 0), default=SECOND)


@dataclass(frozen=True, slots=True)
class StateOrigin:
    """The place and time at which a state was read, as in :class:`Summary`."""

    path: str
    batch_id: int | None
    planned: int | None
    taken: int


def merge_parts(plan: WindowPlan, parts: Sequence[Part], state_filter: StateFilter, origin: StateOrigin) -> Summary:
    """Merge the parts of all key groups, in any order."""
    parts = sorted(parts, key=lambda part: part["group"])
    time = _furthest([part["time"] for part in parts])
    dropped = [part["time"]["late_dropped"] for part in parts if part["time"]["late_dropped"] is not None]
    known = all(part["rows_known"] for part in parts)
    labels = {label: place for place, label in enumerate(plan.labels)}
    filtered = bool(state_filter.keys or state_filter.labels or state_filter.instants)
    whole = Summary(
        path=origin.path,
        batch_id=origin.batch_id,
        planned=origin.planned,
        taken=origin.taken,
        plan=plan_shown(plan),
        filters=state_filter.texts,
        watermark=_instant(time.get("watermark")),
        newest=time.get("newest"),
        clock=_instant(time.get("clock")) if plan.operator.capabilities.uses_processing_time else None,
        sources=tuple(SourceTimes(*source) for source in time.get("sources", [])),
        source_count=time.get("source_count", 0),
        windows=_sum(parts, "windows"),
        keys=_sum(parts, "keys"),
        rows=_sum(parts, "rows"),
        bytes=_sum(parts, "bytes"),
        due=_sum(parts, "due"),
        timeless=_sum(parts, "timeless"),
        elements=_sum(parts, "elements"),
        late_dropped=sum(dropped) if dropped else None,
        ends=bins_to_show(add_histograms(BinCounts(width, _counts(bins)) for width, bins in (part["ends"] for part in parts))),
        oldest=_bounds(parts, "oldest", state_filter.most, lambda each: _order(each, labels)),
        next=_bounds(parts, "next", state_filter.most, lambda each: (each.due or 0, *_order(each, labels))),
        most_rows=_keys(parts, "most_rows", state_filter.most, lambda key: key.rows or 0),
        most_bytes=_keys(parts, "most_bytes", state_filter.most, lambda key: key.bytes),
        groups=_groups(parts, filtered=filtered),
        user_state=_states(parts),
        timers=_timers(parts),
        closed=_instant(time.get("closed")),
        listed=_listed(parts, state_filter) if filtered or state_filter.lists else None,
    )
    return whole if known else _without_rows(whole)


def plan_shown(plan: WindowPlan) -> PlanShown:
    """Return the query in the form that summaries show."""
    return PlanShown(
        windows=stable_repr(plan.assigner),
        operator=plan.operator.name,
        key=tuple((field.name, str(field.type)) for field in plan.key_schema),
        results=tuple(plan.operator.result_schema.names),
        labels=plan.labels,
        groups=plan.groups,
        lateness=plan.allowed_lateness,
        words=explain_plan(plan, streaming=True, chosen=plan.groups),
        by_processing_time=plan.operator.capabilities.uses_processing_time,
        split=plan.split is not None,
    )


def _furthest(times: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the time reached.

    Event time is equal in all key groups, unless only one has the key whose watermark it is. Only groups that were called advance
    their clock.
    """
    given = list(times)
    if not given:
        return {}
    clocks = [each["clock"] for each in given if each["clock"] is not None]
    event_time = {name: max(each[name] for each in given) for name in ("watermark", "closed")}
    return {**given[0], **event_time, "clock": max(clocks, default=None)}


def _groups(parts: Sequence[Part], *, filtered: bool) -> tuple[GroupShown, ...]:
    names = ("group", "keys", "windows", "rows", "elements", "bytes")
    return tuple(
        GroupShown(*(part[name] for name in names))
        for part in parts
        if not filtered or any(part[name] for name in ("windows", "elements", "user_state", "timers"))
    )


def _without_rows(whole: Summary) -> Summary:
    """Remove row counts, for an operator that does not count the rows of its windows."""
    lists: dict[str, Any] = {
        name: tuple(replace(each, rows=None) for each in getattr(whole, name))
        for name in ("oldest", "next", "most_rows", "most_bytes", "groups")
    }
    return replace(whole, rows=None, **{**lists, "most_rows": ()})


def _keys(parts: Sequence[Part], name: str, most: int, by: Callable[[KeyShown], int]) -> tuple[KeyShown, ...]:
    found: dict[str, KeyShown] = {}
    for part in parts:
        for key, *counts in part[name]:
            text, entry = json.dumps(key), KeyShown(key, *counts)
            old = found.get(text)
            # If a query splits values, a key is in several key groups.
            found[text] = (
                entry
                if old is None
                else KeyShown(key, old.windows + entry.windows, (old.rows or 0) + (entry.rows or 0), old.bytes + entry.bytes)
            )
    ranked = sorted(((-by(key), text) for text, key in found.items()))
    return tuple(found[text] for _, text in ranked[:most])


def _bounds(
    parts: Sequence[Part], name: str, most: int, order: Callable[[SameBounds], tuple[int, ...]]
) -> tuple[SameBounds, ...]:
    found: dict[tuple[int, ...], SameBounds] = {}
    for part in parts:
        for given in part[name]:
            entry = SameBounds(**given)
            place = order(entry)
            found[place] = _both(found[place], entry) if place in found else entry
    return tuple(found[place] for place in sorted(found)[:most])


def _order(bounds: SameBounds, labels: Mapping[str, int]) -> tuple[int, ...]:
    start, end = (NEVER if time is None else time for time in (bounds.start, bounds.end))
    return start, end, -1 if bounds.label is None else labels[bounds.label]


def _both(a: SameBounds, b: SameBounds) -> SameBounds:
    keys, rows, size = a.keys + b.keys, (a.rows or 0) + (b.rows or 0), a.bytes + b.bytes
    return replace(a, keys=keys, key=None, rows=rows, bytes=size, due=_least(a.due, b.due), closes=_least(a.closes, b.closes))


def _states(parts: Sequence[Part]) -> tuple[StateShown, ...]:
    found: dict[tuple[str, str], int] = {}
    for part in parts:
        for of, name, count in part["user_state"]:
            found[of, name] = found.get((of, name), 0) + count
    return tuple(StateShown(of, name, count) for (of, name), count in sorted(found.items()))


def _timers(parts: Sequence[Part]) -> tuple[TimersShown, ...]:
    found: dict[str, TimersShown] = {}
    for part in parts:
        for kind, count, first, last in part["timers"]:
            entry, old = TimersShown(kind, count, _instant(first), _instant(last)), found.get(kind)
            if old is not None:
                entry = TimersShown(kind, old.count + count, _least(old.first, entry.first), _most(old.last, entry.last))
            found[kind] = entry
    return tuple(found[kind] for kind in sorted(found))


def _listed(parts: Sequence[Part], state_filter: StateFilter) -> dict[str, tuple[Mapping[str, Json], ...]]:
    found = {}
    for name in LISTED:
        rows = [(place, row) for part in parts for place, row in part["listed"][name]]
        rows.sort(key=lambda each: [(value is None, value or 0) for value in each[0]])
        found[name] = tuple(row for _, row in rows[: state_filter.most])
    return found


def _counts(bins: Iterable[Sequence[int]]) -> dict[int, tuple[int, ...]]:
    return {number: tuple(counts) for number, *counts in bins}


def _sum(parts: Sequence[Part], name: str) -> int:
    return sum(part[name] for part in parts)


def _instant(time: int | None) -> int | None:
    return None if time in (None, MIN_TIMESTAMP, MAX_TIMESTAMP) else time


def _least(a: int | None, b: int | None) -> int | None:
    return min((time for time in (a, b) if time is not None), default=None)


def _most(a: int | None, b: int | None) -> int | None:
    return max((time for time in (a, b) if time is not None), default=None)
