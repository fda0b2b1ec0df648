"""The page of a run, self-contained and without scripts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from html import escape
from typing import Any

from panestream.insight.advice import percent, plot
from panestream.insight.drawing import BAR, FAINT, LINE, MARK, both, clock, duration_ticks, ticks_up
from panestream.insight.page import Column, ShownTable, facts, page, part, picture, printable_lines, table
from panestream.insight.report_points import ObservedDelays, Points, RunPoint
from panestream.spark.progress.micro_batch import PartitionProgress
from panestream.tracing.texts import many, moment, number, printable, size, span, watermark_text
from panestream.windowing.time import format_duration

_SECOND = 1_000_000
_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, 86_400)
Pair = tuple[str, str] | None


def draw_throughput(points: Sequence[RunPoint]) -> Pair:
    """Draw rows per second, with marks for late rows."""
    return both(partial(_draw_throughput, points=points), 2.3, "throughput") if points else None


def draw_lag(points: Sequence[RunPoint]) -> Pair:
    """Draw how far the watermark is behind the newest event and, if comparable, how far that is behind the clock."""
    known = [point for point in points if point.watermark is not None and point.newest is not None]
    return both(partial(_draw_lag, points=known), 2.3, "lag") if known else None


def draw_windows(points: Sequence[RunPoint]) -> Pair:
    """Draw firings and the number of open windows."""
    return both(partial(_draw_windows, points=points), 2.3, "windows") if points else None


def draw_state(points: Sequence[RunPoint]) -> Pair:
    """Draw the size of the state."""
    return both(partial(_draw_state, points=points), 1.9, "state") if any(point.peak_bytes for point in points) else None


def draw_skew(points: Sequence[RunPoint]) -> Pair:
    """Draw the largest key group as a multiple of the mean."""
    known = [point for point in points if point.skew and point.groups > 1]
    return both(partial(_draw_skew, points=known), 2.1, "skew") if known else None


def _draw_throughput(axes: Any, wide: bool, *, points: Sequence[RunPoint]) -> None:
    _stairs(axes, points, [point.rows_per_second for point in points], BAR, "rows a second")
    late = [point for point in points if point.late]
    if late:
        axes.plot(
            [_middle(point) / 1e6 for point in late],
            [point.rows_per_second for point in late],
            linestyle="", marker="o", ms=3.5, color=MARK, label="with late rows",
        )  # fmt: skip
    _frame(axes, points, wide, max(point.rows_per_second for point in points), lambda each: number(round(each)))
    axes.set_ylabel("rows a second")
    if late:
        _legend(axes, wide)


def _draw_lag(axes: Any, wide: bool, *, points: Sequence[RunPoint]) -> None:
    behind = [(point.newest or 0) - (point.watermark or 0) for point in points]
    clocked = [point.ended - (point.newest or 0) for point in points]
    _stairs(axes, points, [each / 1e6 for each in behind], MARK, "watermark behind the newest event")
    lines = behind
    # The clock means nothing for old or generated data.
    if max(clocked) < 2 * 86_400 * _SECOND and min(clocked) > -60 * _SECOND:
        _stairs(axes, points, [each / 1e6 for each in clocked], BAR, "newest event behind the clock")
        lines = [*behind, *clocked]
    _frame(axes, points, wide, max(lines) / 1e6, None)
    most = max(max(lines) / 1e6, 1)
    ticks = duration_ticks(most, 4)
    axes.set_yticks(ticks, [span(round(tick * 1e6)) for tick in ticks])
    _legend(axes, wide)


def _draw_windows(axes: Any, wide: bool, *, points: Sequence[RunPoint]) -> None:
    kinds = (("on time", BAR, "on_time"), ("early", FAINT, "early"), ("late", MARK, "late_firings"))
    base = [0.0] * len(points)
    left = [point.began / 1e6 for point in points]
    width = [max((point.ended - point.began) / 1e6, _width(points) / 300e6) for point in points]
    for label, colour, name in kinds:
        heights = [getattr(point, name) for point in points]
        if any(heights):
            axes.bar(left, heights, width=width, bottom=base, align="edge", color=colour, label=f"firings {label}")
            base = [below + height for below, height in zip(base, heights, strict=True)]
    _frame(axes, points, wide, max(*base, 1), lambda each: number(round(each)))
    axes.set_ylabel("firings")
    opened = [point.peak_open for point in points]
    if any(opened):
        right = axes.twinx()
        _stairs(right, points, [float(each) for each in opened], MARK, "open")
        ticks_up(right, max(opened), number, grid=False)
        right.set_ylabel("open windows", color=MARK)
        right.spines["right"].set_visible(False)
    if any(base):
        _legend(axes, wide)


def _draw_state(axes: Any, wide: bool, *, points: Sequence[RunPoint]) -> None:
    _stairs(axes, points, [float(point.peak_bytes) for point in points], BAR, "bytes")
    _frame(axes, points, wide, max(point.peak_bytes for point in points), lambda each: size(round(each)).replace(".0 ", " "))
    axes.set_ylabel("bytes of state")


def _draw_skew(axes: Any, wide: bool, *, points: Sequence[RunPoint]) -> None:
    most = 1.0
    for name, colour in (("rows", BAR), ("state", MARK), ("time", FAINT)):
        mine = [point for point in points if name in point.skew]
        if mine:
            values = [point.skew[name] for point in mine]
            # A line with one point would be invisible.
            marker = "o" if len(mine) == 1 else ""
            axes.plot([_middle(point) / 1e6 for point in mine], values, color=colour, lw=1.4, marker=marker, label=name)
            most = max(most, *values)
    axes.axhline(1, color=LINE, linewidth=1)
    _time_axis(axes, points, wide)
    axes.set_ylim(0, most * 1.15)
    axes.set_ylabel("largest ÷ mean")
    _legend(axes, wide)


def _middle(point: RunPoint) -> int:
    return (point.began + point.ended) // 2


def _width(points: Sequence[RunPoint]) -> int:
    return max(points[-1].ended - points[0].began, _SECOND)


def _stairs(axes: Any, points: Sequence[RunPoint], values: Sequence[float], colour: str, label: str) -> None:
    """Draw a line that is level during a micro-batch and until the next one."""
    edges = [point.began / 1e6 for point in points] + [points[-1].ended / 1e6]
    axes.step(edges, [*values, values[-1]], where="post", color=colour, lw=1.5, label=label)


def _frame(axes: Any, points: Sequence[RunPoint], wide: bool, most: float, told: Callable[[int], str] | None) -> None:
    if told is not None:
        ticks_up(axes, max(1, round(most)), told)
    else:
        axes.set_ylim(0, max(most, 1) * 1.15)
        axes.grid(axis="y", color=LINE, linewidth=0.6)
        axes.set_axisbelow(True)
    _time_axis(axes, points, wide)


def _time_axis(axes: Any, points: Sequence[RunPoint], wide: bool) -> None:
    first, last = points[0].began, points[0].began + _width(points)
    most = 8 if wide else 3
    length = (last - first) / _SECOND
    days = (86_400 * each * 10**power for power in range(6) for each in (1, 2, 5))
    step = next(each for each in (*_STEPS, *days) if length / each <= most) * _SECOND
    times = range(-(-first // step) * step, last + 1, step)
    one_day = first // (86_400 * _SECOND) == last // (86_400 * _SECOND)
    axes.set_xticks([time / 1e6 for time in times], [clock(time, step, day=not one_day) for time in times])
    axes.set_xlim(first / 1e6, last / 1e6)
    axes.set_xlabel(f"{clock(first, 86_400 * _SECOND)}, UTC" if one_day else "UTC")


def _legend(axes: Any, wide: bool) -> None:
    above: Any = {"loc": "lower right", "bbox_to_anchor": (1, 0.98), "borderaxespad": 0}
    axes.legend(**above, frameon=False, fontsize=8.5, ncols=3 if wide else 1, handlelength=1.2)


RUNNING = "running"
DONE = "done"
STOPPED = "stopped"
FAILED = "failed"


@dataclass(slots=True)
class RecordedRun:
    """The data of a run, whose size does not grow with the duration of the run.

    Attributes:
        started, ended: microseconds since the epoch, by the clock.
        times: how late rows were, or None if that was not observed.
        by_windows: whether rows are late by the end of their windows rather than by the watermark.
        delay: the delay of the watermark in engine units, if it has one.
        faults: number of events that could not be processed, which the report mentions.
    """

    name: str = "a query"
    told: list[tuple[str, str]] = field(default_factory=list)
    plan: str = ""
    settings: Sequence[tuple[str, str]] = ()
    outcome: str = RUNNING
    error: str = ""
    started: int = 0
    ended: int = 0
    points: Points = field(default_factory=Points)
    times: ObservedDelays | None = None
    by_windows: bool = False
    delay: int | None = None
    partitions: Sequence[PartitionProgress] = ()
    checkpoint: str = ""
    faults: int = 0


_OUTCOMES = {
    DONE: "done: all there was has been read",
    STOPPED: "stopped, before its end; the same command goes on from there",
    FAILED: "failed",
    RUNNING: "still running when this was written",
}
_NO_PICTURE = "pictures need matplotlib: pip install 'panestream[insight]'"
MAX_PARTITIONS = 30
MAX_GROUPS = 16


def page_of(run: RecordedRun) -> str:
    """Return the whole page as HTML."""
    return page(f"{printable(run.name)}, a run of {moment(run.started)}", body(run))


def notebook_of(run: RecordedRun) -> str:
    """Return HTML for a notebook."""
    return part(body(run))


def body(run: RecordedRun) -> str:
    """Return the contents of the page."""
    total, points = run.points.total, run.points.points
    parts = [f"<h1>{escape(printable(run.name, 400))}</h1>", facts([*_outcome(run), *run.told, *_counts(total)])]
    if total is None:
        parts.append("<p>This run has no known micro-batch to draw.</p>")
    else:
        parts += picture("Throughput", draw_throughput(points), _NO_PICTURE)
        parts.append(table(_slowest(run), titled=False))
        parts += picture("Windows over time", draw_windows(points), _NO_PICTURE)
        parts += picture("Lag of event time", draw_lag(points), "no watermark yet")
        parts += _lateness(run, total)
        parts += _partitions(run)
        parts += picture("State", draw_state(points), "nothing was kept")
        parts += _skew(run, total)
    if run.settings:
        rows = tuple((printable(name), printable(value, 400)) for name, value in run.settings)
        shown = ShownTable("Settings", "", (Column("setting"), Column("value")), rows)
        parts.append(f"<details><summary>Settings</summary>{table(shown, titled=False)}</details>")
    if run.plan:
        parts.append(f"<details><summary>The plan</summary><pre>{escape(printable_lines(run.plan))}</pre></details>")
    if run.faults:
        parts.append(f"<p>{many(run.faults, 'event')} of Spark's could not be taken in: this page lacks what they said.</p>")
    parts.append(f"<p>Written at {moment(run.ended)} UTC. All times are in UTC.</p>")
    return "\n".join(parts)


def _outcome(run: RecordedRun) -> list[tuple[str, str]]:
    lines = [("outcome", _OUTCOMES.get(run.outcome, run.outcome))]
    if run.error:
        lines.append(("error", printable(run.error, 2_000)))
    lasted = span(max(run.ended - run.started, 0))
    return [*lines, ("ran", f"{moment(run.started)} to {moment(run.ended)} UTC, {lasted}")]


def _counts(total: RunPoint | None) -> list[tuple[str, str]]:
    if total is None:
        return [("rows", "no micro-batch")]
    rate = f", {number(round(total.rows_per_second))} a second while they ran" if total.busy_ms else ""
    fired = [
        f"{number(count)} {kind}"
        for kind, count in (("on time", total.on_time), ("early", total.early), ("late", total.late_firings))
        if count
    ]
    lines = [("rows", f"{number(total.rows)} in {many(total.batches, 'micro-batch').replace('batchs', 'batches')}{rate}")]
    kept = "" if total.dropped else ", none of them dropped" if total.late else ""
    dropped = f", {number(total.dropped)} of them dropped" if total.dropped else kept
    lines.append(("late rows", f"{number(total.late)}, {percent(total.late, total.rows)} of all{dropped}" if total.rows else "0"))
    if total.invalid:
        lines.append(("invalid rows", f"{number(total.invalid)} without usable event time, or too far ahead"))
    if total.outside:
        lines.append(("outside", f"{many(total.outside, 'row')} in no window"))
    lines.append(("firings", ", ".join(fired) or "none"))
    lines.append(("results", many(total.fired_rows, "row")))
    opened = "?" if total.open_windows is None else f"{number(total.open_windows)} at the end, {number(total.peak_open)} at most"
    lines.append(("open windows", opened))
    lines.append(("state", f"{size(total.state_bytes)} at the end, {size(total.peak_bytes)} at most"))
    return lines


def _slowest(run: RecordedRun) -> ShownTable:
    rows = tuple((number(batch), span(1000 * took), number(count)) for batch, took, count in run.points.slowest)
    columns = (Column("slowest micro-batches", numeric=True), Column("took", numeric=True), Column("rows", numeric=True))
    return ShownTable("Slowest", "", columns, rows)


def _lateness(run: RecordedRun, total: RunPoint) -> Iterable[str]:
    yield "<h2>Lateness</h2>"
    if run.times is None or not run.times.rows:
        why = "how late rows were was not looked at, only how many were late"
        yield f"<p>{number(total.late)} of {many(total.rows, 'row')} were late; {why}.</p>"
        return
    found = run.times.completeness
    by = "all their windows had ended" if run.by_windows else "the watermark had passed them"
    about = f"Rows are late when {by} before their micro-batch; quantiles as Spark observed them, to 0.01 % of each micro-batch."
    yield f"<p>{escape(sentence(run))} {about}</p>"
    if not found.delay_for(1.0):
        return
    drawn = plot(found, ())
    if drawn is not None:
        yield "\n".join(drawn)
    rows = []
    for told, share in (("90 %", 0.9), ("99 %", 0.99), ("99.9 %", 0.999), ("all", 1.0)):
        delay = found.delay_for(share)
        rows.append((told, told_delay(delay), percent(found.keeps(delay), found.rows)))
    if run.delay is not None:
        kept = percent(total.rows - total.late - total.invalid, max(total.rows - total.invalid, 1))
        rows.append(("this run", format_duration(run.delay), f"{kept}, counted"))
    columns = (Column("to keep"), Column("delay"), Column("keeps", numeric=True))
    yield table(ShownTable("Delays", "", columns, tuple(rows)), titled=False)


def sentence(run: RecordedRun) -> str:
    """Return a sentence about delays and the rows that they would have kept."""
    if run.times is None or not run.times.rows:
        return ""
    found = run.times.completeness
    if not found.delay_for(1.0):
        total = run.points.total
        why = ": no row can be late in the first micro-batch, and there was no other" if total and total.batches == 1 else ""
        return f"Any delay would have kept all rows{why}."
    shares = [(name, told_delay(found.delay_for(share))) for name, share in (("99 %", 0.99), ("99.9 %", 0.999))]
    return "A delay of " + " and one of ".join(f"{delay} would have kept {name}" for name, delay in shares) + " of the rows."


def told_delay(micros: int) -> str:
    """Return the text of a delay in its two largest units, rounded up.

    >>> told_delay(85_668_438), told_delay(4_636_000_001), told_delay(120_001), told_delay(0)
    ('1 min 26 s', '1 h 18 min', '0.2 s', '0 s')
    """
    units = ((86_400, 3_600), (3_600, 60), (10, 1))
    unit = next((round(1e6 * each) for least, each in units if micros >= least * 1_000_000), 100_000)
    return span(-(-micros // unit) * unit)


def _partitions(run: RecordedRun) -> Iterable[str]:
    given = run.partitions
    if len(given) < 2:
        return
    newest = max((each.max_event_time for each in given if each.max_event_time is not None), default=None)
    rows = tuple(
        (
            printable(each.name),
            moment(each.max_event_time),
            watermark_text(each.watermark),
            span(None if newest is None or each.watermark is None else newest - each.watermark),
            "idle" if each.idle else "",
        )
        for each in given[:MAX_PARTITIONS]
    )
    note = f"{len(rows)} of {len(given)}, the furthest behind first" if len(given) > len(rows) else "the furthest behind first"
    columns = (Column("partition"), Column("newest event", time=True), Column("watermark", time=True))
    more = (Column("behind the newest event", numeric=True), Column(""))
    yield table(ShownTable("Source partitions at the end", note, (*columns, *more), rows))


def _skew(run: RecordedRun, total: RunPoint) -> Iterable[str]:
    yield "<h2>Skew between key groups</h2>"
    if total.groups < 2:
        yield "<p>There is one key group.</p>"
        return
    said = [f"{value:.2f} times the mean in {name}" for name, value in total.skew.items()]
    yield f"<p>Of {many(total.groups, 'key group')} the largest had {', '.join(said) or 'nothing'}.</p>"
    drawn = draw_skew(run.points.points)
    if drawn is not None:
        yield "\n".join(drawn)
    heaviest = sorted(run.points.heaviest.items(), key=lambda each: (-each[1][0], each[0]))[:MAX_GROUPS]
    rows = tuple((number(group), number(times), number(count)) for group, (times, count) in heaviest)
    columns = (Column("key group", numeric=True), Column("micro-batches where it had most", numeric=True))
    yield table(ShownTable("", "", (*columns, Column("rows in them", numeric=True)), rows), titled=False)
    if run.checkpoint:
        yield f"<p>Which keys are large: panestream inspect {escape(printable(run.checkpoint, 400))}</p>"
