"""The JSON form of a summary, which has a version number. Its schema is docs/reference/inspecting.schema.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from panestream.engine.inspection.summary import Json, KeyShown, PlanShown, SameBounds, SourceTimes, Summary
from panestream.insight.inspect_page import MEASURES
from panestream.tracing.texts import behind
from panestream.windowing.time import iso

DOCUMENT_FORMAT = 1
"""The version. It is raised when a field is removed or changes its meaning, but not when a field is added."""


def render_json(summary: Summary) -> dict[str, Json]:
    """Return the summary as JSON, with times in ISO 8601 (UTC) and durations in seconds."""
    ends = summary.ends
    return {
        "format": DOCUMENT_FORMAT,
        "path": summary.path,
        "batch_id": summary.batch_id,
        "planned": iso(summary.planned),
        "taken": iso(summary.taken),
        "filters": {name: list(given) for name, given in summary.filters.items()},
        "plan": _plan(summary.plan),
        "time": {
            "watermark": iso(summary.watermark),
            "newest": iso(summary.newest),
            "clock": iso(summary.clock),
            "behind_newest": _seconds(summary.newest, summary.watermark),
            "behind_clock": _seconds(summary.taken, summary.watermark),
        },
        "source_count": summary.source_count,
        "sources": [_source(summary, source) for source in summary.sources],
        "totals": {
            name: getattr(summary, name)
            for name in ("windows", "keys", "rows", "bytes", "due", "timeless", "elements", "late_dropped")
        },
        "by_end": {
            "width": ends.width / 1e6,
            "bins": [
                {
                    "from": iso(place * ends.width),
                    "to": iso((place + 1) * ends.width),
                    "windows": windows,
                    "rows": None if summary.rows is None else rows,
                }
                for place, (windows, rows) in sorted(ends.counts.items())
            ],
        },
        "oldest": [_bounds(each) for each in summary.oldest],
        "next": [_bounds(each) for each in summary.next],
        "most_rows": [_key(each) for each in summary.most_rows],
        "most_bytes": [_key(each) for each in summary.most_bytes],
        "key_groups": [asdict(group) for group in summary.groups],
        "skew": {name: summary.skew(name) for name in MEASURES},
        "user_state": [asdict(each) for each in summary.user_state],
        "timers": [
            {"kind": each.kind, "count": each.count, "first": iso(each.first), "last": iso(each.last)} for each in summary.timers
        ],
        "listed": None if summary.listed is None else {name: list(rows) for name, rows in summary.listed.items()},
    }


def _plan(plan: PlanShown) -> Mapping[str, Json]:
    return {
        "windows": plan.windows,
        "operator": plan.operator,
        "key": [{"name": name, "type": kind} for name, kind in plan.key],
        "results": list(plan.results),
        "labels": list(plan.labels),
        "key_groups": plan.groups,
        "allowed_lateness": plan.lateness / 1e6,
        "by_processing_time": plan.by_processing_time,
        "split": plan.split,
        "words": plan.words,
    }


def _source(summary: Summary, source: SourceTimes) -> Mapping[str, Json]:
    return {
        "name": source.name,
        "newest": iso(source.newest),
        "watermark": iso(source.watermark),
        "behind_newest": _seconds(summary.newest, source.watermark),
        "behind_clock": _seconds(summary.taken, source.watermark),
        "idle": source.idle,
    }


def _bounds(bounds: SameBounds) -> Mapping[str, Any]:
    return {**asdict(bounds), **{name: iso(getattr(bounds, name)) for name in ("start", "end", "due", "closes")}}


def _key(key_counts: KeyShown) -> Mapping[str, Any]:
    return asdict(key_counts)


def _seconds(later: int | None, earlier: int | None) -> float | None:
    found = behind(later, earlier)
    return None if found is None else found / 1e6
