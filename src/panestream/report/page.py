"""The page of a run, self-contained and without scripts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape

from panestream.advisor.advice import percent
from panestream.advisor.plot import plot
from panestream.pages.document import facts, page, part, picture, printable_lines
from panestream.pages.tables import Column, ShownTable, table
from panestream.pages.words import many, moment, number, printable, size, span, watermark_text
from panestream.report import pictures
from panestream.report.points import Points, RunPoint
from panestream.report.times import ObservedDelays
from panestream.spark.progress.micro_batch import PartitionProgress
from panestream.windowing.time import format_duration

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
_NO_PICTURE = "without matplotlib there are no pictures: pip install 'panestream[cli]'"
MOST_PARTITIONS = 30
MOST_GROUPS = 16


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
        parts.append("<p>No micro-batch of this run is known: there is nothing to draw.</p>")
    else:
        parts += picture("Throughput", pictures.throughput(points), _NO_PICTURE)
        parts.append(table(_slowest(run), titled=False))
        parts += picture("Windows over time", pictures.windows(points), _NO_PICTURE)
        parts += picture("Lag of event time", pictures.lag(points), "no watermark yet")
        parts += _lateness(run, total)
        parts += _partitions(run)
        parts += picture("State", pictures.state(points), "nothing was kept")
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
    newest = max((one.max_event_time for one in given if one.max_event_time is not None), default=None)
    rows = tuple(
        (
            printable(one.name),
            moment(one.max_event_time),
            watermark_text(one.watermark),
            span(None if newest is None or one.watermark is None else newest - one.watermark),
            "idle" if one.idle else "",
        )
        for one in given[:MOST_PARTITIONS]
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
    drawn = pictures.skew(run.points.points)
    if drawn is not None:
        yield "\n".join(drawn)
    heaviest = sorted(run.points.heaviest.items(), key=lambda one: (-one[1][0], one[0]))[:MOST_GROUPS]
    rows = tuple((number(group), number(times), number(count)) for group, (times, count) in heaviest)
    columns = (Column("key group", numeric=True), Column("micro-batches where it had most", numeric=True))
    yield table(ShownTable("", "", (*columns, Column("rows in them", numeric=True)), rows), titled=False)
    if run.checkpoint:
        yield f"<p>Which keys are large: panestream inspect {escape(printable(run.checkpoint, 400))}</p>"


__all__ = ["DONE", "FAILED", "RUNNING", "STOPPED", "RecordedRun", "body", "notebook_of", "page_of", "sentence"]
