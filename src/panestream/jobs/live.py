"""What one sees of a running job: one live line, and a summary at the end."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.live import Live
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from panestream.inspection.words import watermark_text
from panestream.jobs.schema import CONTROL, visible
from panestream.spark.progress.micro_batch import BatchProgress

if TYPE_CHECKING:
    from typing_extensions import Self

PLAIN_EVERY = 5.0
"""Seconds between two lines where the output is no terminal."""


@dataclass(slots=True)
class Totals:
    """What all micro-batches of this run did together.

    Attributes:
        started: the clock at the start, in seconds.
        batches, rows, late, invalid: counts.
        firings: of all keys and windows, as the page of a run counts them.
        open_windows, watermark, newest: as the last micro-batch left them; instants in microseconds since the epoch.
        busy_ms: the time inside micro-batches.
        has_windows: whether there are any: an interval join has none.
    """

    started: float
    batches: int = 0
    rows: int = 0
    late: int = 0
    invalid: int = 0
    firings: int = 0
    open_windows: int = 0
    watermark: int | None = None
    newest: int | None = None
    busy_ms: int = 0
    batch_id: int | None = None
    rows_per_second: float = 0.0
    has_windows: bool = True

    def add(self, progress: BatchProgress) -> None:
        """Counts one micro-batch in."""
        self.batches += 1
        self.batch_id = progress.batch_id
        self.rows += progress.rows
        self.late += progress.late_rows
        self.invalid += progress.invalid_rows
        self.firings += progress.firings
        self.open_windows = progress.open_windows or 0
        self.watermark = progress.watermark
        if progress.max_event_time is not None:
            self.newest = max(progress.max_event_time, self.newest or progress.max_event_time)
        self.busy_ms += progress.duration_ms
        self.rows_per_second = progress.rows_per_second

    @property
    def lag(self) -> str:
        """How far the watermark is behind the newest event."""
        if self.watermark is None or self.newest is None or abs(self.watermark) > 2**62:
            return "-"
        return short_duration((self.newest - self.watermark) / 1e6)


def short_duration(seconds: float) -> str:
    """A duration for people.

    >>> short_duration(0.4), short_duration(75), short_duration(900), short_duration(4000)
    ('0.4 s', '1 min 15 s', '15 min', '1 h 06 min')
    """
    seconds = round(seconds, 1) if seconds < 10 else round(seconds)
    if seconds < 10:
        return f"{seconds:.1f} s".replace(".0 s", " s")
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{seconds // 60:.0f} min {seconds % 60:02.0f} s".replace(" 00 s", "")
    return f"{seconds // 3600:.0f} h {seconds % 3600 // 60:02.0f} min"


def status_line(totals: Totals, width: int = 120) -> Text:
    """The live line: what runs, how fast, where event time is, what came late, what is open and what fired.

    Args:
        totals: how things stand.
        width: of the terminal, in characters; a narrow one gets a line without dates.
    """
    narrow = width < 105
    if totals.batch_id is None:
        return Text(f"waiting for the first micro-batch ({short_duration(time.monotonic() - totals.started)})", style="dim")
    watermark = watermark_text(totals.watermark)
    parts: list[tuple[str, str, str]] = [
        ("batch", f"{totals.batch_id}", ""),
        ("", f"{totals.rows_per_second:,.0f} rows/s", "bold"),
        ("wm" if narrow else "watermark", watermark.split()[-1] if narrow else watermark, "cyan"),
        ("lag", totals.lag, ""),
        ("late", f"{totals.late:,}", "yellow" if totals.late else ""),
        ("invalid", f"{totals.invalid:,}", "red" if totals.invalid else ""),
    ]
    if totals.has_windows:
        parts += [("open", f"{totals.open_windows:,}", ""), ("firings", f"{totals.firings:,}", "green")]
    line = Text(no_wrap=True, overflow="ellipsis")
    for position, (label, value, style) in enumerate(parts):
        if label == "invalid" and not totals.invalid:
            continue
        line.append("  " if position else "")
        if label:
            line.append(f"{label} ", style="dim")
        line.append(value, style=style)
    return line


class PlainConsole(Console):
    """A console that shows control characters by their numbers: text of users and of data moves no cursor and sets no title."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Return the segments of something that is printed, however deep it lies in a table."""
        for segment in super().render(renderable, options):
            if segment.control is None and CONTROL.search(segment.text):
                yield Segment(visible(segment.text), segment.style)
            else:
                yield segment


class PipeConsole(PlainConsole):
    """A console whose output may be closed by whoever reads it, as ``head`` does: then it is silent, and :attr:`closed` is set.

    Rich's own raises SystemExit in whatever thread printed: in one that Spark calls, which waits for an answer for ever.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.closed = threading.Event()

    def on_broken_pipe(self) -> None:
        """Called by rich when nobody reads what was printed."""
        self.quiet = True
        self.closed.set()
        discard_output()


def discard_output() -> None:
    """What is still to be written to standard output goes nowhere: Python would complain of it when it ends."""
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


class Display:
    """The live line of a running job, and the lines above it. Callable: hand it to a query as ``on_progress``.

    On a terminal the line is redrawn; elsewhere (a log, a pipe, a terminal that cannot go back in a line, TERM=dumb) it is
    printed every few seconds.

    Args:
        console: where to.
        after_batch: called after each micro-batch; what it returns is printed above the live line.
        has_windows: whether windows are to be told of.
    """

    def __init__(
        self,
        console: Console,
        after_batch: Callable[[BatchProgress], Iterable[RenderableType]] | None = None,
        *,
        has_windows: bool = True,
    ) -> None:
        self.console = console
        self.totals = Totals(time.monotonic(), has_windows=has_windows)
        self._after_batch = after_batch
        self._live: Live | None = None
        self._printed = self.totals.started

    def __enter__(self) -> Self:
        if self.console.is_terminal and not self.console.is_dumb_terminal:
            self._live = Live(self._line(), console=self.console, refresh_per_second=4, transient=True)
            self._live.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def __call__(self, progress: BatchProgress) -> None:
        self.totals.add(progress)
        if self._after_batch is not None:
            for each in self._after_batch(progress):
                self.console.print(each)
        self.refresh()

    def _line(self) -> Text:
        return status_line(self.totals, self.console.width)

    def refresh(self) -> None:
        """Shows how things stand; call it now and then while waiting."""
        if self._live is not None:
            self._live.update(self._line())
            return
        now = time.monotonic()
        if self.totals.batch_id is not None and now - self._printed >= PLAIN_EVERY:
            self._printed = now
            self.console.print(status_line(self.totals), soft_wrap=True)


def summary(totals: Totals, outputs: Iterable[tuple[str, str]], *, title: str) -> Table:
    """The table at the end.

    Args:
        totals: what the run did.
        outputs: the name and place of each output.
        title: of the table.
    """
    seconds = time.monotonic() - totals.started
    table = Table(title=title, title_justify="left", title_style="bold", show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    if totals.batches:
        busy = totals.busy_ms / 1000
        rate = f", {totals.rows / busy:,.0f} rows/s while they ran" if busy else ""
        table.add_row("rows", f"{totals.rows:,} in {totals.batches:,} micro-batches{rate}")
        table.add_row("late rows", f"{totals.late:,}")
        table.add_row("rows without a time", f"{totals.invalid:,}")
        if totals.has_windows:
            table.add_row("firings", f"{totals.firings:,}")
            table.add_row("open windows", f"{totals.open_windows:,}")
        table.add_row("watermark", f"{watermark_text(totals.watermark)} UTC, {totals.lag} behind the newest event")
    table.add_row("time", short_duration(seconds))
    for name, where in outputs:
        table.add_row(name, where)
    return table
