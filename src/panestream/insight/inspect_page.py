"""A summary as tables, as one self-contained page without scripts, and as a part of a notebook.

The SVG pictures of the page contain real text and take the colours of the page, so they fit light and dark pages. They need
matplotlib, which panestream[insight] installs. Pages without it lack pictures.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from html import escape
from typing import Any

from panestream.engine.explain import listed
from panestream.engine.inspection.reduce import DAY, WIDTHS
from panestream.engine.inspection.summary import Json, KeyShown, SameBounds, Summary
from panestream.insight.drawing import BAR, MARK, both, clock, ticks_up
from panestream.insight.page import Column, ShownTable, facts, page, part, picture, printable_lines, table
from panestream.tracing.texts import behind, many, moment, number, printable, size, span, watermark_text
from panestream.windowing.time import micros_in


def text_of(value: Json) -> str:
    """Return a JSON value for people: unambiguous text as it is, and everything else as JSON.

    >>> text_of("ann"), text_of(None), text_of("null"), text_of(""), text_of({"a": 1.5})
    ('ann', 'null', '"null"', '""', '{"a": 1.5}')
    """
    clear = isinstance(value, str) and value == value.strip() and value not in ("", "null")
    return str(value) if clear else json.dumps(value, ensure_ascii=False)


def key_text(key: Mapping[str, Json] | None) -> str:
    """Return a key for people.

    >>> key_text({"user": "ann"}), key_text({"user": "ann", "shop": None})
    ('ann', 'user=ann shop=null')
    """
    if not key:
        return "all rows"
    if len(key) == 1:
        return text_of(next(iter(key.values())))
    return " ".join(f"{name}={text_of(value)}" for name, value in key.items())


def key_shown(key: Json) -> str:
    """Return the text of a key."""
    return printable(key_text(key))


def holders(bounds: SameBounds) -> str:
    """Return the key of the windows, or the number of their keys."""
    return (
        key_shown(bounds.key)
        if bounds.keys == 1 and bounds.key is not None
        else many(bounds.keys, "key")
        if bounds.key is None
        else ""
    )


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
        lines.append(("found", f"this key has no state; write a key as column=value (key columns: {names})"))
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
        lines.append(("", "the values of a key are in several key groups, and its windows count in each of them"))
    if summary.elements:
        lines.append(("kept", f"{many(summary.elements, 'element')} for functions and evictors"))
    if summary.late_dropped is not None:
        lines.append(("late rows", f"{number(summary.late_dropped)} dropped"))
    lines.append(("state", size(summary.bytes)))
    return lines


MEASURES = ("keys", "windows", "rows", "elements", "bytes")
"""The columns of a key group."""
MAX_SOURCES = 50
MAX_GROUPS = 64


def tables_of(summary: Summary) -> list[ShownTable]:
    """Return all tables that are not empty."""
    found = [
        *_listed(summary),
        _sources(summary),
        *([] if summary.listed is not None else _oldest_and_next(summary)),
        *([] if summary.listed is not None and summary.keys < 2 else _largest(summary)),
        _groups(summary),
        _states(summary),
        _timers(summary),
    ]
    return [_tidied(table) for table in found if table is not None and table.rows]


def _tidied(table: ShownTable) -> ShownTable:
    """Remove columns without text, and seconds if all are zero."""
    columns = list(zip(*table.rows, strict=True))
    times = [text for column, texts in zip(table.columns, columns, strict=True) if column.time for text in texts]
    if all(text.endswith(":00") or len(text) < 19 for text in times):
        columns = [
            tuple(text[:-3] if len(text) >= 19 else text for text in texts) if column.time else texts
            for column, texts in zip(table.columns, columns, strict=True)
        ]
    kept = [place for place, texts in enumerate(columns) if any(texts)]
    rows = tuple(zip(*(columns[place] for place in kept), strict=True))
    return ShownTable(table.title, table.note, tuple(table.columns[place] for place in kept), rows)


def _sources(summary: Summary) -> ShownTable | None:
    if summary.source_count < 2 and not any(source.name for source in summary.sources):
        return None
    rows = tuple(
        (
            printable(source.name) or "(all)",
            moment(source.newest),
            watermark_text(source.watermark),
            span(behind(summary.newest, source.watermark)),
            span(behind(summary.taken, source.watermark)),
            "idle" if source.idle else "",
        )
        for source in summary.sources[:MAX_SOURCES]
    )
    columns = (
        Column("source partition"),
        Column("newest event", wide_only=True, time=True),
        Column("watermark", time=True),
        Column("behind newest", numeric=True),
        Column("behind clock", numeric=True, wide_only=True),
        Column(""),
    )
    of = f", {len(rows)} of {number(summary.source_count)}" if len(rows) < summary.source_count else ""
    return ShownTable("Source partitions", f"the furthest behind first{of}", columns, rows)


def _oldest_and_next(summary: Summary) -> list[ShownTable]:
    if summary.oldest == summary.next:
        return [_windows("Oldest windows", "which fire next too, if no row comes; UTC", summary.oldest)]
    return [
        _windows("Oldest windows", "by start; UTC", summary.oldest),
        _windows("Windows that fire next", "if no row comes; UTC", summary.next),
    ]


def _windows(title: str, note: str, given: Sequence[SameBounds]) -> ShownTable:
    rows = tuple(
        (
            printable(each.label or ""),
            moment(each.start),
            moment(each.end),
            holders(each),
            number(each.rows),
            size(each.bytes),
            moment(each.due),
            moment(each.closes),
        )
        for each in given
    )
    columns = (
        Column("window"),
        Column("from", time=True),
        Column("to", time=True),
        Column("of"),
        Column("rows", numeric=True),
        Column("bytes", numeric=True, wide_only=True),
        Column("due", time=True),
        Column("goes", wide_only=True, time=True),
    )
    return ShownTable(title, note, columns, rows)


def _largest(summary: Summary) -> list[ShownTable]:
    if not summary.plan.key:
        return []
    if summary.rows is None:
        return [_keys("Keys with most bytes", summary.most_bytes, summary)]
    if summary.most_rows == summary.most_bytes:
        return [_keys("Keys with most rows and bytes", summary.most_rows, summary)]
    return [
        _keys("Keys with most rows", summary.most_rows, summary),
        _keys("Keys with most bytes", summary.most_bytes, summary),
    ]


def _keys(title: str, given: Sequence[KeyShown], summary: Summary) -> ShownTable:
    rows = tuple((key_shown(each.key), number(each.windows), number(each.rows), size(each.bytes)) for each in given)
    columns = (
        Column(printable(", ".join(name for name, _ in summary.plan.key))),
        Column("windows", numeric=True),
        Column("rows", numeric=True),
        Column("bytes", numeric=True),
    )
    return ShownTable(title, "", columns, rows)


def _groups(summary: Summary) -> ShownTable:
    ranked = sorted(summary.groups, key=lambda each: (-each.bytes, each.group))[:MAX_GROUPS]
    rows: list[tuple[str, ...]] = [
        (str(each.group), number(each.keys), number(each.windows), number(each.rows), number(each.elements), size(each.bytes))
        for each in ranked
    ]
    if rows:
        rows.append(("largest / mean", *("" if skew is None else f"{skew:.2f}" for skew in map(summary.skew, MEASURES))))
    columns = (
        Column("key group"),
        Column("keys", numeric=True),
        Column("windows", numeric=True),
        Column("rows", numeric=True),
        Column("elements", numeric=True, wide_only=True),
        Column("bytes", numeric=True),
    )
    some = f", {len(ranked)} of {number(len(summary.groups))}" if len(ranked) < len(summary.groups) else ""
    return ShownTable("Key groups", f"the largest first{some}", columns, tuple(rows))


def _states(summary: Summary) -> ShownTable:
    rows = tuple(
        (f"of the {each.of}" if each.of != "key" else "of keys", printable(each.name), number(each.count))
        for each in summary.user_state
    )
    return ShownTable("Users' states", "", (Column("whose"), Column("descriptor"), Column("states", numeric=True)), rows)


def _timers(summary: Summary) -> ShownTable:
    rows = tuple((f"{timer.kind} time", number(timer.count), moment(timer.first), moment(timer.last)) for timer in summary.timers)
    columns = (Column("timers of"), Column("count", numeric=True), Column("first", time=True), Column("last", time=True))
    return ShownTable("Timers", "UTC", columns, rows)


# -- what a filter lists -------------------------------------------------------------------------------------------------


def _listed(summary: Summary) -> list[ShownTable]:
    if summary.listed is None:
        return []
    given = summary.listed
    windows = tuple(_window_row(row) for row in given["windows"])
    states = tuple(
        (row["of"], printable(row["name"]), *_bounds(row), printable(text_of(row["value"]))) for row in given["user_state"]
    )
    elements = tuple(
        (number(row["place"]), _time(row["time"]), printable(text_of(row.get("element") or row["value"])))
        for row in given["elements"]
    )
    bounds = (Column("from", time=True), Column("to", time=True))
    return [
        ShownTable("Windows", _of(windows, summary.windows, "window"), _WINDOWS, windows),
        ShownTable("States", "", (Column("of"), Column("descriptor"), *bounds, Column("value")), states),
        ShownTable(
            "Elements",
            _of(elements, summary.elements, "element"),
            (Column("place", numeric=True), Column("time", time=True), Column("value")),
            elements,
        ),
    ]


_WINDOWS = (
    Column("key"),
    Column("window"),
    Column("from", time=True),
    Column("to", time=True),
    Column("rows", numeric=True),
    Column("results so far"),
    Column("firings"),
    Column("due", time=True),
    Column("goes", wide_only=True, time=True),
    Column("bytes", numeric=True, wide_only=True),
)


def _of(shown: Sequence[object], all_of_them: int, what: str) -> str:
    return f"{len(shown)} of {many(all_of_them, what)}; UTC" if len(shown) < all_of_them else "UTC"


def _window_row(row: Mapping[str, Json]) -> tuple[str, ...]:
    results, fired = row["results"], row["firings"]
    contents = row["contents"] if not results else " ".join(f"{name}={text_of(value)}" for name, value in results.items())
    last = f" ({row['last_firing']})" if row["last_firing"] else ""
    return (
        key_shown(row["key"]) if "key" in row else "",
        printable(row["window"] or ""),
        *_bounds(row),
        number(row["rows"]),
        printable(contents or "-"),
        "?" if fired is None else f"{fired:,}{last}",
        _time(row["due"]),
        _time(row["closes"]),
        size(row["bytes"] or 0),
    )


def _bounds(row: Mapping[str, Json]) -> tuple[str, str]:
    return _time(row["window_start"]), _time(row["window_end"])


def _time(text: str | None) -> str:
    """Format a time as :func:`moment` does."""
    return "-" if text is None else moment(micros_in(text))


MAX_SOURCES_DRAWN = 12
MAX_GROUPS_DRAWN = 128


def draw_windows(summary: Summary) -> tuple[str, str] | None:
    """Return the open windows by end with the time reached, wide and narrow. None without windows or without matplotlib."""
    return both(partial(_draw_windows, summary=summary), 2.6, "windows") if summary.ends.counts else None


def draw_lateness(summary: Summary) -> tuple[str, str] | None:
    """Draw how far each source partition is behind the newest event."""
    shown = min(len(summary.sources), MAX_SOURCES_DRAWN)
    known = any(source.watermark is not None for source in summary.sources)
    return both(partial(_draw_lateness, summary=summary), 0.55 + 0.3 * shown, "lateness") if known else None


def draw_skew(summary: Summary) -> tuple[str, str] | None:
    """Draw the bytes of each key group, the largest first, and their mean."""
    return both(partial(_draw_skew, summary=summary), 2.2, "skew") if any(group.bytes for group in summary.groups) else None


# -- windows over time -------------------------------------------------------------------------------------------------------


def _draw_windows(axes: Any, wide: bool, *, summary: Summary) -> None:
    ends = summary.ends
    places = sorted(ends.counts)
    first, last = places[0], places[-1] + 1
    axes.bar([place - first for place in places], [ends.counts[place][0] for place in places], width=0.9, align="edge", color=BAR)
    _draw_reached(axes, summary, first, last)
    ticks_up(axes, max(counts[0] for counts in ends.counts.values()), number)
    axes.set_xlim(-0.02 * (last - first), last - first)
    axes.set_ylabel("open windows")
    _time_ticks(axes, ends.width, first, last, 8 if wide else 3)


def _draw_reached(axes: Any, summary: Summary, first: int, last: int) -> None:
    """Draw the time reached as a line, or write it if it is outside the bars."""
    reached = summary.watermark if summary.clock is None else summary.clock
    if reached is None:
        return
    at = reached / summary.ends.width - first
    look = {"va": "bottom", "color": MARK, "fontsize": 9}
    if not -0.02 * (last - first) <= at <= last - first:
        when = f"{watermark_text(reached)}, {'before' if at < 0 else 'after'} all of these"
        axes.text(1, 1.01, f"time has come to {when}".replace("\n", " "), transform=axes.transAxes, ha="right", **look)
        return
    axes.axvline(at, color=MARK, linewidth=1.6)
    left = at < (last - first) / 2
    word = "time has come to here"
    axes.text(at, 1.01, word, transform=axes.get_xaxis_transform(), ha="left" if left else "right", **look)


def _time_ticks(axes: Any, width: int, first: int, last: int, most: int) -> None:
    """Set ticks at round times. (matplotlib's own dates end with the year 9999.)"""
    length = (last - first) * width
    step = next((each for each in WIDTHS if each >= width and length // each <= most), WIDTHS[-1])
    times = range(-(-first * width // step) * step, last * width + 1, step)
    one_day = first * width // DAY == (last * width - 1) // DAY
    axes.set_xticks([time / width - first for time in times], [clock(time, step, day=not one_day) for time in times])
    day = f"{clock(first * width, DAY)}, " if one_day else ""
    axes.set_xlabel(f"{day}end of the window, UTC; {span(width)} a bar")


# -- source partitions -------------------------------------------------------------------------------------------------------


def _draw_lateness(axes: Any, wide: bool, *, summary: Summary) -> None:
    shown = summary.sources[:MAX_SOURCES_DRAWN]
    far = [behind(summary.newest, source.watermark) for source in shown]
    lengths = [max(each or 0, 0) / 1e6 for each in far]
    places = range(len(shown))
    bars = axes.barh(places, lengths, height=0.62, color=BAR)
    for bar, source in zip(bars, shown, strict=True):
        bar.set_alpha(0.35 if source.idle else 1)
    longest = max(lengths, default=0) or 1
    for place, (source, each) in enumerate(zip(shown, far, strict=True)):
        told = "no rows yet" if each is None else span(each)
        axes.text(lengths[place] + longest * 0.01, place, f"{told}{', idle' if source.idle else ''}", va="center", fontsize=9)
    names = [printable(source.name, 24 if wide else 14) or "all rows" for source in shown]
    axes.set_yticks(list(places), names)
    axes.tick_params(axis="y", length=0)
    axes.invert_yaxis()
    axes.set_xlim(0, longest * (1.15 if wide else 1.45))
    axes.set_xticks([])
    axes.spines["bottom"].set_visible(False)
    axes.set_xlabel("behind the newest event")


# -- key groups --------------------------------------------------------------------------------------------------------------


def _draw_skew(axes: Any, wide: bool, *, summary: Summary) -> None:
    ranked = sorted(summary.groups, key=lambda group: (-group.bytes, group.group))[:MAX_GROUPS_DRAWN]
    heights = [group.bytes for group in ranked]
    mean = sum(group.bytes for group in summary.groups) / len(summary.groups)
    axes.bar(range(len(ranked)), heights, width=0.82, color=BAR)
    axes.axhline(mean, color=MARK, linewidth=1.4)
    largest = summary.skew("bytes") or 1
    word = f"mean {size(round(mean))}; the largest has {largest:.2f} times as much"
    axes.text(1, 1.01, word, transform=axes.transAxes, ha="right", va="bottom", color=MARK, fontsize=9)
    every = max(1, -(-len(ranked) // (24 if wide else 10)))
    axes.set_xticks(range(0, len(ranked), every), [str(group.group) for group in ranked[::every]])
    around = max(0, ((10 if wide else 5) - len(ranked)) / 2)
    axes.set_xlim(-0.6 - around, len(ranked) - 0.4 + around)
    axes.tick_params(axis="x", length=0)
    ticks_up(axes, max(heights), lambda count: size(count).replace(".0 ", " "))
    axes.set_xlabel("key group, the largest first")
    axes.set_ylabel("bytes")


def render_page(summary: Summary) -> str:
    """Return the page as HTML."""
    title = printable(summary.path) + ("" if summary.batch_id is None else f", micro-batch {summary.batch_id}")
    return page(title, _body(summary))


def render_notebook(summary: Summary) -> str:
    """Return HTML for a notebook, in the notebook's own colours."""
    return part(_body(summary))


def _body(summary: Summary) -> str:
    shown = {table.title: table for table in tables_of(summary)}
    parts = [f"<h1>{escape(printable(summary.path, 400))}</h1>", facts(head(summary))]
    parts += [table(shown.pop(title)) for title in ("Windows", "States", "Elements") if title in shown]
    parts += picture("Open windows by their end", draw_windows(summary), "no window is open")
    if summary.sources:
        parts += picture(
            "Source partitions, and how far behind they are", draw_lateness(summary), "no source partition had rows yet"
        )
        parts += [table(shown.pop(title), titled=False) for title in ("Source partitions",) if title in shown]
    parts += [table(shown.pop(title)) for title in list(shown) if title not in ("Key groups", "Users' states", "Timers")]
    parts += picture("Key groups", draw_skew(summary), "nothing is kept in any key group")
    parts += [table(each, titled=title != "Key groups") for title, each in shown.items()]
    parts.append(f"<details><summary>The plan</summary><pre>{escape(printable_lines(summary.plan.words))}</pre></details>")
    parts.append(f"<p>Looked at {moment(summary.taken)} UTC. All times are in UTC.</p>")
    return "\n".join(parts)
