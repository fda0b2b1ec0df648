"""A summary as text for a terminal or a file."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from panestream.engine.inspection.summary import Summary
from panestream.insight.inspect_page import head, tables_of
from panestream.insight.page import ShownTable
from panestream.tracing.texts import many, moment, printable, span, watermark_text

NARROW = 100
"""The line width below which some columns are left out."""


def render_text(summary: Summary, console: Console) -> Iterator[RenderableType]:
    """Yield the parts of the output from top to bottom, fitted to the width and encoding of the console."""
    narrow = console.width < NARROW
    yield Text(printable(summary.path, 400), style="bold")
    lines = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    lines.add_column(style="dim", no_wrap=True)
    lines.add_column(overflow="fold")
    for title, text in head(summary):
        lines.add_row(title, Text(text))
    yield lines
    bars = _bars(summary, console)
    if bars is not None:
        yield from (Text(""), Text("Open windows by their end (UTC)", style="bold"), bars)
    for shown in tables_of(summary):
        heading = Text(shown.title, style="bold")
        yield from (
            Text(""),
            heading.append(f", {shown.note}" if shown.note else "", style="not bold dim"),
            _table(shown, narrow),
        )


def _table(shown: ShownTable, narrow: bool) -> Table:
    kept = [place for place, column in enumerate(shown.columns) if not (narrow and column.wide_only)]
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for place in kept:
        column = shown.columns[place]
        table.add_column(
            Text(column.title), justify="right" if column.numeric else "left", overflow="fold", no_wrap=column.numeric
        )
    for row in shown.rows:
        table.add_row(*(Text(row[place]) for place in kept))
    return table


def _bars(summary: Summary, console: Console) -> Table | None:
    ends = summary.ends
    if not ends.counts:
        return None
    whole = "█" if (console.encoding or "").lower().startswith("utf") else "#"
    room = max(10, console.width - 48)
    most = max(windows for windows, _ in ends.counts.values())
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for justify in ("left", "right", "left"):
        table.add_column(justify=justify, no_wrap=True)
    reached = summary.watermark if summary.clock is None else summary.clock
    passed = True
    for place in range(min(ends.counts), max(ends.counts) + 1):
        if place not in ends.counts and place - 1 not in ends.counts:
            continue  # a gap becomes one empty line
        windows, _ = ends.counts.get(place, (0, 0))
        first = place * ends.width
        if passed and reached is not None and first > reached:
            passed = False
            if place != min(ends.counts):
                table.add_row(Text(watermark_text(reached), style="cyan"), "", Text("time has come to here", style="cyan"))
        bar = whole * max(1, round(windows / most * room)) if windows else ""
        table.add_row(Text(moment(first)), many(windows, "window") if windows else "", Text(bar, style="green"))
    table.add_row(Text(f"({span(ends.width)} a line)", style="dim"), "", "")
    return table
