"""The tables of a summary, shared by text and pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from panestream.inspection.summary import KeyShown, SameBounds, Summary
from panestream.inspection.values import Json, text_of
from panestream.inspection.words import holders, key_shown
from panestream.pages.tables import Column, ShownTable
from panestream.pages.words import behind, many, moment, number, printable, size, span, watermark_text
from panestream.windowing.time import micros_in

MEASURES = ("keys", "windows", "rows", "elements", "bytes")
"""The columns of a key group."""
MOST_SOURCES = 50
MOST_GROUPS = 64


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
        for source in summary.sources[:MOST_SOURCES]
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
            printable(one.label or ""),
            moment(one.start),
            moment(one.end),
            holders(one),
            number(one.rows),
            size(one.bytes),
            moment(one.due),
            moment(one.closes),
        )
        for one in given
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
    rows = tuple((key_shown(one.key), number(one.windows), number(one.rows), size(one.bytes)) for one in given)
    columns = (
        Column(printable(", ".join(name for name, _ in summary.plan.key))),
        Column("windows", numeric=True),
        Column("rows", numeric=True),
        Column("bytes", numeric=True),
    )
    return ShownTable(title, "", columns, rows)


def _groups(summary: Summary) -> ShownTable:
    ranked = sorted(summary.groups, key=lambda one: (-one.bytes, one.group))[:MOST_GROUPS]
    rows: list[tuple[str, ...]] = [
        (str(one.group), number(one.keys), number(one.windows), number(one.rows), number(one.elements), size(one.bytes))
        for one in ranked
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
        (f"of the {one.of}" if one.of != "key" else "of keys", printable(one.name), number(one.count))
        for one in summary.user_state
    )
    return ShownTable("Users' states", "", (Column("whose"), Column("descriptor"), Column("states", numeric=True)), rows)


def _timers(summary: Summary) -> ShownTable:
    rows = tuple((f"{one.kind} time", number(one.count), moment(one.first), moment(one.last)) for one in summary.timers)
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
    Column("results as they stand"),
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


__all__ = ["MEASURES", "tables_of"]
