"""The terminal output: a live line of a running job, a summary at its end, and JSON that is safe to show."""

from __future__ import annotations

import json
import os
import re
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

from panestream.jobs.schema import CONTROL, visible
from panestream.spark.progress.micro_batch import BatchProgress
from panestream.tracing.texts import span, watermark_text

if TYPE_CHECKING:
    from typing_extensions import Self

PLAIN_EVERY = 5.0
"""Seconds between two lines if the output is not a terminal."""


@dataclass(slots=True)
class Totals:
    """The totals of all micro-batches of this run.

    ``started`` is the monotonic clock at the start, in seconds; ``busy_ms`` is the time inside micro-batches. ``firings`` counts
    all keys and windows, as on the report page. ``open_windows``, ``watermark`` and ``newest`` are the values after
    the last micro-batch, instants in microseconds since the epoch. An interval join does not have windows.
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
        """The delay of the watermark relative to the newest event."""
        if self.watermark is None or self.newest is None or abs(self.watermark) > 2**62:
            return "-"
        return span(self.newest - self.watermark)


def status_line(totals: Totals, width: int = 120) -> Text:
    """Return the live line; below a width of 105 characters it omits the dates."""
    narrow = width < 105
    if totals.batch_id is None:
        return Text(
            f"waiting for the first micro-batch ({span(round((time.monotonic() - totals.started) * 1_000_000))})", style="dim"
        )
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
    """A console that escapes control characters: text of users and data cannot move the cursor or set a title."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control is None and CONTROL.search(segment.text):
                yield Segment(visible(segment.text), segment.style)
            else:
                yield segment

    def titled(self, title: str, text: str, style: str = "dim") -> None:
        """Print a text after a title with a style."""
        self.print(Text(title, style=style).append(text, style="default"), soft_wrap=True)


class PipeConsole(PlainConsole):
    """A console that becomes silent and sets :attr:`closed` if the reader closes the pipe, as ``head`` does.

    Rich raises SystemExit in the printing thread instead. In a callback thread, Spark would wait forever for an answer.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.closed = threading.Event()

    def on_broken_pipe(self) -> None:
        self.quiet = True
        self.closed.set()
        discard_output()


def discard_output() -> None:
    """Redirect standard output to the null device; Python would complain at exit about unwritten output."""
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


class Display:
    """The live line of a running job, with the results of ``after_batch`` above it; pass it to a query as ``on_progress``.

    Terminals redraw the line. Other outputs (a log, a pipe, TERM=dumb) get a new line every few seconds.
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
        """Redraw the line; call it regularly while waiting."""
        if self._live is not None:
            self._live.update(self._line())
            return
        now = time.monotonic()
        if self.totals.batch_id is not None and now - self._printed >= PLAIN_EVERY:
            self._printed = now
            self.console.print(status_line(self.totals), soft_wrap=True)


def summary(totals: Totals, outputs: Iterable[tuple[str, str]], *, title: str) -> Table:
    """Return the table for the end of a run; ``outputs`` are (name, place) pairs."""
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
    table.add_row("time", span(round(seconds * 1_000_000)))
    for name, where in outputs:
        table.add_row(name, where)
    return table


_UNUSUAL = re.compile(r"[^\n -~]")


def json_text(value: object, default: Callable[[Any], Any] | None = None) -> str:
    r"""Return a value as indented JSON with escapes for all invisible characters; ``default`` is that of ``json.dumps``.

    >>> print(json_text("ä\x1b[2J\x9b\x7f\u202e\ud800"))
    "ä\u001b[2J\u009b\u007f\u202e\ud800"
    """
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False, default=default)
    return _UNUSUAL.sub(lambda found: found[0] if found[0].isprintable() else _escape(found[0]), text)


def _escape(letter: str) -> str:
    units = letter.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
