"""The texts of a summary."""

from __future__ import annotations

from panestream.engine.explain import listed
from panestream.inspection.summary import SameBounds, Summary
from panestream.inspection.values import Json, key_text
from panestream.pages.words import behind, many, moment, number, printable, size, span, watermark_text


def key_shown(key: Json) -> str:
    """Return the text of a key."""
    return printable(key_text(key))


def holders(one: SameBounds) -> str:
    """Return the key of the windows, or the number of their keys."""
    return key_shown(one.key) if one.keys == 1 and one.key is not None else many(one.keys, "key") if one.key is None else ""


def head(summary: Summary) -> list[tuple[str, str]]:
    """Return the titles and texts at the top of a summary."""
    plan, taken = summary.plan, summary.taken
    planned = "" if summary.planned is None else f", planned {moment(summary.planned)} UTC, {span(taken - summary.planned)} ago"
    key = ", ".join(f"{printable(name)} ({kind})" for name, kind in plan.key) or "none"
    lines = [
        ("micro-batch", f"{'none: made of history' if summary.batch_id is None else summary.batch_id}{planned}"),
        ("windows", printable(plan.windows, 400)),
        ("operator", f"{plan.operator}, {many(plan.groups, 'key group')}"),
        ("key", key),
    ]
    if plan.results:
        lines.append(("results", printable(", ".join(plan.results), 400)))
    if plan.lateness:
        lines.append(("lateness", f"windows take rows for {span(plan.lateness)} after their end"))
    lines += [(f"only {name}", printable(", ".join(given), 400)) for name, given in summary.filters.items()]
    if "key" in summary.filters and not any((summary.windows, summary.elements, summary.user_state, summary.timers)):
        # A misspelled name of the only key column looks like a value.
        names = printable(listed([name for name, _ in plan.key]))
        lines.append(("found", f"nothing of such a key; a key is asked for as column=value (key columns: {names})"))
    return [*lines, *_times(summary), *_counts(summary)]


def _times(summary: Summary) -> list[tuple[str, str]]:
    lines = []
    if summary.clock is not None:
        ago = span(summary.taken - summary.clock)
        lines.append(("clock", f"windows follow the clock, which had come to {moment(summary.clock)} UTC, {ago} ago"))
    if summary.sources or summary.watermark is not None:
        far = f"{span(behind(summary.newest, summary.watermark))} behind the newest event"
        late = f"{span(behind(summary.taken, summary.watermark))} behind the clock"
        told = "none yet" if summary.watermark is None else f"{watermark_text(summary.watermark)} UTC, {far}, {late}"
        lines.append(("watermark", told))
    return lines


def _counts(summary: Summary) -> list[tuple[str, str]]:
    rows = "" if summary.rows is None else f", {many(summary.rows, 'row')} in them"
    known = "" if not summary.plan.key else f" of {many(summary.keys, 'key')}"
    fire = f"; {number(summary.due)} will fire if no row comes" if summary.windows else ""
    endless = f", {number(summary.timeless)} without end" if summary.timeless else ""
    lines = [("open", f"{many(summary.windows, 'window')}{known}{rows}{endless}{fire}")]
    if summary.plan.split:
        lines.append(("", "the values of a key lie in several key groups: its windows count in each of them"))
    if summary.elements:
        lines.append(("kept", f"{many(summary.elements, 'element')} for functions and evictors"))
    if summary.late_dropped is not None:
        lines.append(("late rows", f"{number(summary.late_dropped)} dropped so far"))
    lines.append(("state", size(summary.bytes)))
    return lines


__all__ = ["head", "holders", "key_shown", "span", "watermark_text"]
