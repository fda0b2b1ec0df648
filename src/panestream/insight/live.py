"""``pst.tools.live``: a running query in a notebook, as small plots that refresh themselves."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, Protocol

from panestream.engine.plan import stable_repr
from panestream.errors import InvalidPlanError
from panestream.insight.page import part
from panestream.spark.progress.micro_batch import BatchProgress
from panestream.spark.query import RunningQuery
from panestream.tracing.texts import behind, many, number, printable, span, watermark_text
from panestream.windowing.time import MAX_TIMESTAMP, MIN_TIMESTAMP

MOST = 200
"""The most micro-batches drawn; later ones replace earlier ones."""
RUNNING, ENDED, LEFT = "running", "ended", "runs on, no longer watched: query.stop() ends it"


@dataclass(slots=True)
class View:
    """The displayed progress of a query: the last micro-batches in order, and the totals of all."""

    windows: str
    state: str = RUNNING
    batches: list[BatchProgress] = field(default_factory=list)
    count: int = 0
    rows: int = 0
    late: int = 0
    firings: int = 0

    @classmethod
    def of(cls, query: RunningQuery) -> View:
        """Return an empty view of a query."""
        return cls(stable_repr(query.plan.assigner))

    def add(self, progress: Iterable[BatchProgress]) -> bool:
        """Add new micro-batches, and return whether there were any."""
        last = self.batches[-1].batch_id if self.batches else -1
        new = [each for each in progress if each.batch_id > last]
        self.count += len(new)
        self.rows += sum(each.rows for each in new)
        self.late += sum(each.late_rows for each in new)
        self.firings += sum(each.firings for each in new)
        self.batches = [*self.batches, *new][-MOST:]
        return bool(new)

    def __repr__(self) -> str:
        if not self.batches:
            return f"<{self.state}: no micro-batch yet>"
        last = self.batches[-1]
        told = [
            f"micro-batch {last.batch_id}",
            f"{last.rows_per_second:,.0f} rows/s",
            _watermark(last),
            f"{number(last.open_windows)} open",
            many(self.firings, "firing"),
            f"{many(self.late, 'late row')}",
        ]
        return f"<{self.state}: {', '.join(told)}>"

    def _repr_html_(self) -> str:
        head = f"<b>{escape(printable(self.windows, 400))}</b> <span>{escape(self.state)}</span>"
        if not self.batches:
            return part(f"{_STYLE}<p>{head}</p><p>No micro-batch yet.</p>")
        last = self.batches[-1]
        totals = f"{many(self.rows, 'row')} in {self.count:,} micro-batch{'' if self.count == 1 else 'es'}, {_watermark(last)}"
        cards = "".join(_card(self, *each) for each in _PLOTS)
        over = f"The last {len(self.batches):,} micro-batches, from nothing to the largest." if len(self.batches) > 1 else ""
        return part(f'{_STYLE}<p>{head}</p><p>{escape(totals)}</p><div class="plots">{cards}</div><p>{over}</p>')


_STYLE = """<style>
.panestream .plots { display: grid; grid-template-columns: repeat(auto-fill, minmax(11rem, 15rem)); gap: .75rem 1.25rem; }
.panestream .plots div { font-size: .8125rem; color: var(--faint); }
.panestream .plots b { display: block; font-size: 1.125rem; color: var(--ink); font-variant-numeric: tabular-nums; }
</style>"""
_Values = Callable[[BatchProgress], float | None]


def _watermark(batch: BatchProgress) -> str:
    time = _time(batch.watermark)
    return "no watermark yet" if time is None else f"watermark {watermark_text(time)} UTC"


def _card(view: View, title: str, values: _Values, told: Callable[[View, float | None], str], kind: str) -> str:
    found: Sequence[float | None] = [values(batch) for batch in view.batches]
    plot = sparkline(found, title, bars=kind != "line", mark=kind == "mark")
    return f"<div>{escape(title)}<b>{escape(told(view, found[-1]))}</b>{plot}</div>"


def _time(micros: int | None) -> int | None:
    return None if micros is None or not MIN_TIMESTAMP < micros < MAX_TIMESTAMP else micros


def _lag(batch: BatchProgress) -> float | None:
    """Return how far the watermark is behind the newest event."""
    found = behind(_time(batch.max_event_time), _time(batch.watermark))
    return None if found is None else max(found, 0)


_PLOTS: tuple[tuple[str, _Values, Callable[[View, float | None], str], str], ...] = (
    ("rows/s", lambda each: each.rows_per_second, lambda _, now: f"{now or 0:,.0f}", "line"),
    (
        "watermark behind the newest event",
        _lag,
        lambda _, now: "-" if now is None else span(round(now)),
        "line",
    ),
    ("late rows", lambda each: each.late_rows, lambda view, _: f"{view.late:,}", "mark"),
    ("open windows", lambda each: each.open_windows, lambda _, now: "?" if now is None else f"{now:,.0f}", "line"),
    ("firings", lambda each: each.firings, lambda view, _: f"{view.firings:,}", "bars"),
)
"""Title, value of each micro-batch, text for the card, and kind of plot."""


WIDTH, HEIGHT = 240, 56
_EDGE = 3


def sparkline(values: Sequence[float | None], label: str, *, bars: bool = False, mark: bool = False) -> str:
    """Plot micro-batch values from zero to the largest, without unknown values; ``mark`` selects the warning colour.

    >>> "polyline" in sparkline([1, 2, 3], "rows/s"), sparkline([0, 1], "late", bars=True).count("<rect")
    (True, 1)
    """
    known = [(place, value) for place, value in enumerate(values) if value is not None]
    most = max((value for _, value in known), default=0) or 1
    step = (WIDTH - 2 * _EDGE) / max(len(values), 1)
    colour = "var(--mark)" if mark else "var(--bar)"

    def up(value: float) -> float:
        return HEIGHT - _EDGE - (HEIGHT - 2 * _EDGE) * max(value, 0) / most

    if bars:
        drawn = "".join(
            f'<rect x="{_EDGE + place * step:.1f}" y="{up(value):.1f}" width="{max(step * 0.8, 0.6):.1f}" '
            f'height="{HEIGHT - _EDGE - up(value):.1f}" fill="{colour}"/>'
            for place, value in known
            if value
        )
    else:
        points = " ".join(f"{_EDGE + (place + 0.5) * step:.1f},{up(value):.1f}" for place, value in known)
        drawn = (
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5" vector-effect="non-scaling-stroke"/>'
        )
    base = f'<line x1="0" x2="{WIDTH}" y1="{HEIGHT - 1}" y2="{HEIGHT - 1}" stroke="var(--line)"/>'
    name = escape(label, quote=True)
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" style="width: 100%; max-width: {WIDTH}px; height: {HEIGHT}px"'
    return f'<svg {size} preserveAspectRatio="none" role="img" aria-label="{name}">{base}{drawn}</svg>'


class _Shown(Protocol):
    def update(self, view: Any) -> object: ...


def live(query: RunningQuery, *, every: float = 1.0, seconds: float | None = None) -> None:
    """Show a running query below a notebook cell until it ends, with rows/s, watermark lag, late rows, open windows and firings.

    The view reads the query's own progress, so it also works through Spark Connect and adds no load to the query. It ends with
    the query, and the cell fails if the query fails. Interrupting the cell ends only the view. Outside of a notebook, each change
    is printed as a line.

    Args:
        query: the query that ``start`` returned.
        every: seconds between updates.
        seconds: maximum duration of the view, or None to watch until the query ends.

    Raises:
        InvalidPlanError: if ``query`` is not a running query, or ``every`` is not positive.
        PanestreamError: the error of the query, as raised by :meth:`RunningQuery.await_termination`.

    Examples:
        >>> pst.tools.live(query, every=0.1)  # doctest: +ELLIPSIS
        <ended: micro-batch 0, ... rows/s, watermark 2026-05-01 11:09:54.999999 UTC, 1 open, 2 firings, 0 late rows>
    """
    if not isinstance(query, RunningQuery):
        raise InvalidPlanError(f"live needs the query that start() gave, got {type(query).__name__}")
    if not every > 0:
        raise InvalidPlanError(f"every must be a positive number of seconds, got {every!r}")
    view, until = View.of(query), None if seconds is None else time.monotonic() + seconds
    shown = _shown(view)
    try:
        while query.is_active and (until is None or time.monotonic() < until):
            if view.add(query.recent_progress):
                shown.update(view)
            time.sleep(every)
        running = query.is_active
    except KeyboardInterrupt:
        running = True
    if running:
        view.state = LEFT
        shown.update(view)
        return
    try:
        query.await_termination()
        view.state = ENDED
    except Exception as error:
        view.state = f"failed: {str(error).splitlines()[0] if str(error) else type(error).__name__}"
        raise
    finally:
        view.add(query.recent_progress)
        shown.update(view)


def _shown(view: View) -> _Shown:
    """Return the display below the cell, or a printer of lines outside of a notebook."""
    try:
        from IPython import get_ipython
        from IPython.display import display
    except ModuleNotFoundError:
        return _Lines()
    shell = get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        return _Lines()
    handle: _Shown = display(view, display_id=True)  # type: ignore[no-untyped-call]
    return handle


class _Lines:
    def update(self, view: View) -> None:
        print(view, flush=True)  # noqa: T201 - printing is its purpose
