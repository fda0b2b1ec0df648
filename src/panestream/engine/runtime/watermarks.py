"""The progress of event time in one key group: the watermark from the reports, and the windows and panes that it closes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, astuple, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from panestream.engine.kernels.columns import Ints
from panestream.engine.kernels.panes import AlignedWindows, Int64s, PaneGrid
from panestream.engine.runtime.group_io import MOST_PARTITIONS, GroupInput, GroupMetrics
from panestream.errors import PlanMismatchError
from panestream.windowing.time import MAX_TIMESTAMP, MIN_TIMESTAMP, format_duration
from panestream.windowing.watermarks import WatermarkStrategy

STEPS = 10
"""The longest pause between two checks is the silence that closes windows, divided by this number."""


@dataclass(slots=True)
class Silence:
    """The pauses known to one key group.

    Attributes:
        up: how long the query has polled its source, over all runs, excluding the time when it was down.
        rows: the value of ``up`` when rows last came.
        heard: the value of ``up`` when each source partition last had rows.
        asked: the clock when the source was last polled, or None.
        run: the run of the query at that time.
        due: the clock at which the next check for silence is due.
    """

    up: int = 0
    rows: int = 0
    heard: dict[str, int] = field(default_factory=dict)
    asked: int | None = None
    run: str = ""
    due: int = 0

    def hear(self, partitions: Iterable[str], clock: int, run: str, after: int, tick: int) -> None:
        """Record rows from some source partitions. ``clock`` is processing time, and ``tick`` its smallest step.

        ``run`` is the query's run that planned the micro-batch, and ``after`` the silence that closes windows.
        """
        now = self._go_on(clock, run)
        self.rows = self.up
        self.heard.update(dict.fromkeys(partitions, self.up))
        self.due = now + _max_pause(after, tick)

    def ask(self, clock: int, run: str, after: int, tick: int) -> bool:
        """Record a poll without rows, with arguments as in :meth:`hear`; return whether the silence was long enough."""
        before = self.up
        now = self._go_on(clock, run)
        silent = self.up - self.rows
        pause = min(max(2 * (self.up - before), tick), _max_pause(after, tick))
        self.due = now + (pause if silent >= after else min(pause, after - silent))
        return silent >= after

    def of(self, partition: str) -> int:
        return self.up - self.heard.setdefault(partition, self.up)

    def _go_on(self, clock: int, run: str) -> int:
        """Count the time between two polls within a run. If the clock is set back, time stops until it catches up."""
        before = clock if self.asked is None else self.asked
        if run == self.run:
            self.up += max(clock - before, 0)
        self.run, self.asked = run, max(clock, before)
        return self.asked

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "heard": dict(sorted(self.heard.items()))}

    @classmethod
    def from_json(cls, saved: Mapping[str, Any] | None) -> Silence:
        """Restore the values; None if silence matters only from now on."""
        return cls() if saved is None else cls(**{**saved, "heard": dict(saved["heard"])})


def _max_pause(after: int, tick: int) -> int:
    return max(after // STEPS // tick * tick, tick)


BEYOND_ALL = 2**62
"""A number beyond every pane and window number: event times are within ±2**62."""


@dataclass(slots=True)
class SourcePartition:
    """The progress of one source partition.

    Attributes:
        max_timestamp: its largest event time, or ``MIN_TIMESTAMP`` if it is expected and has not had rows yet.
        emitted: the largest watermark that its user-defined generator emitted.
        silent: how long it has been silent, in engine units. None if it had rows at the last poll, or was not polled in this run.
    """

    max_timestamp: int
    emitted: int = MIN_TIMESTAMP
    silent: int | None = None


@dataclass(slots=True)
class WatermarkTracker:
    """Turns the largest event times per source partition into one watermark that never goes back.

    Every key group gets every report, so all groups of a query agree after every micro-batch.

    Attributes:
        partitions: the source partitions that were seen or are expected.
        run: the run of the query that planned the last micro-batch with a poll of the source, or empty if unknown.
        asked: the time of that micro-batch.
        silence: the silence of all input if the strategy closes windows after some, or None.
        tick: the smallest step of the clock, in engine units.
        before: the watermark before this micro-batch.
        oldest: the smallest event time, if the plan follows it. A row behind the watermark counts as the first instant after it.
    """

    strategy: WatermarkStrategy
    watermark: int = MIN_TIMESTAMP
    partitions: dict[str, SourcePartition] = field(default_factory=dict)
    run: str = ""
    asked: int = 0
    silence: Silence | None = None
    tick: int = field(default=1, compare=False)
    before: int = field(default=MIN_TIMESTAMP, compare=False)
    oldest: int | None = None

    def __post_init__(self) -> None:
        if self.strategy.closes_after is not None and self.silence is None:
            self.silence = Silence()

    def take_in(self, batch: GroupInput) -> int:
        """Take in the reports of a micro-batch and return the watermark.

        A key group that the clock wakes gets no reports: the source was polled without result, if at all.
        """
        self.before, after = self.watermark, self.strategy.closes_after
        if not batch.has_reports:
            silence = None if batch.end_of_available else self.silence
            if after is not None and silence is not None and batch.batch_time >= silence.due:
                self._follow_clock(silence, silence.ask(batch.batch_time, batch.planned_in, after, self.tick))
            return self.watermark
        if batch.oldest is not None:
            oldest = max(batch.oldest, self.before + 1)
            self.oldest = oldest if self.oldest is None else min(self.oldest, oldest)
        if after is not None and self.silence is not None:
            self.silence.hear(batch.seen, batch.batch_time, batch.planned_in, after, self.tick)
        # A repeated micro-batch must give the same result, so it belongs to the run that planned it, if known.
        return self.advance(batch.seen, batch.batch_time, batch.watermarks, batch.planned_in or batch.run)

    def close(self, until: int) -> int:
        """Treat the end of the available input as silence until this event time, and return the watermark."""
        self.watermark = max(self.watermark, until)
        return self.watermark

    @property
    def newest(self) -> int:
        """The largest event time of the rows that move the watermark, or ``MIN_TIMESTAMP`` before the first."""
        return max((known.max_timestamp for name, known in self.partitions.items() if self._leads(name)), default=MIN_TIMESTAMP)

    def wake_up(self) -> int | None:
        """Return a time, at or before the due time, at which the clock must wake all key groups to check for silence, or None."""
        if self.silence is None or self.newest == MIN_TIMESTAMP:
            return None
        # One tick earlier, because a key group is woken only when the clock is past the time.
        return self.silence.due - self.tick

    def advance(self, seen: Mapping[str, int], batch_time: int, generated: Mapping[str, int] | None = None, run: str = "") -> int:
        """Take in the largest event time of each partition with rows (``seen``) and return the watermark.

        ``batch_time`` is processing time, ``generated`` has the watermarks of user-defined generators per partition, and ``run``
        planned the micro-batch. A new run restarts the idle timers.
        """
        for name in self.strategy.expected:
            self.partitions.setdefault(name, SourcePartition(MIN_TIMESTAMP))
        self._note_silence(seen, batch_time, run)
        for name in sorted(seen):
            known = self.partitions.get(name)
            largest = seen[name] if known is None else max(known.max_timestamp, seen[name])
            emitted = MIN_TIMESTAMP if known is None else known.emitted
            emitted = max(emitted, (generated or {}).get(name, MIN_TIMESTAMP))
            self.partitions[name] = SourcePartition(largest, emitted)
        self._forget_placeholders()
        self._follow({name: self._watermark_of(name) for name in self.partitions if self._leads(name)}, self._is_idle)
        return self.watermark

    def _follow(self, reached: Mapping[str, int], is_idle: Callable[[str], bool]) -> None:
        """Advance to the partition that is furthest behind, or furthest ahead if all are idle."""
        awake = [time for name, time in reached.items() if not is_idle(name)]
        self.watermark = max(self.watermark, min(awake) if awake else max(reached.values(), default=MIN_TIMESTAMP))

    def _forget_placeholders(self) -> None:
        """Forget the name of an expected side once a partition of this side is known."""
        for side, _ in self.strategy.sides:
            if any(name.startswith(f"{side}/") for name in self.partitions):
                self.partitions.pop(side, None)

    def silent_for(self, name: str) -> int | None:
        """Return how long a source partition has been silent as far as counted, or None."""
        counted = self.partitions[name].silent
        return counted if self.silence is None else max(self.silence.of(name), counted or 0)

    def measure(self, batch: GroupInput, metrics: GroupMetrics) -> None:
        """Fill in the metrics that are the same in all key groups."""
        metrics.input_rows, metrics.invalid_rows, metrics.history_rows = batch.input_rows, batch.invalid_rows, batch.history_rows
        metrics.watermark_before = None if self.before == MIN_TIMESTAMP else self.before
        metrics.watermark = None if self.watermark == MIN_TIMESTAMP else self.watermark
        metrics.max_event_time = None if self.newest == MIN_TIMESTAMP else self.newest
        metrics.partition_count = len(self.partitions)
        metrics.idle_partitions = sum(map(self._is_idle, self.partitions))

    def by_partition(self, most: int | None = MOST_PARTITIONS) -> list[tuple[str, int | None, int | None, bool]]:
        """Return name, largest event time, watermark and idleness of at most ``most`` partitions, the furthest behind first."""
        behind = sorted((self._watermark_of(name), name) for name in self.partitions)
        found: list[tuple[str, int | None, int | None, bool]] = []
        for watermark, name in behind[:most]:
            known = self.partitions[name]
            newest = None if known.max_timestamp == MIN_TIMESTAMP else known.max_timestamp
            found.append((name, newest, None if watermark == MIN_TIMESTAMP else watermark, self._is_idle(name)))
        return found

    def _strategy_of(self, name: str) -> WatermarkStrategy:
        return self.strategy.of_partition(name) if self.strategy.sides else self.strategy

    def _leads(self, name: str) -> bool:
        """Return whether the watermark waits for a partition. It does not wait for a stream that follows another one."""
        if not self.strategy.sides:
            return True
        return self._strategy_of(name).has_watermarks or not self.strategy.has_watermarks

    def _watermark_of(self, name: str) -> int:
        strategy, known = self._strategy_of(name), self.partitions[name]
        if strategy.generator is not None:
            return known.emitted
        if strategy.delay is None or known.max_timestamp == MIN_TIMESTAMP:
            return MIN_TIMESTAMP
        # Flink also subtracts one: a row with exactly the largest event time may still come.
        return known.max_timestamp - strategy.delay - 1

    def _follow_clock(self, silence: Silence, silent: bool) -> None:
        """Advance event time from the last row of each partition if all have been silent long enough."""
        known = [name for name in self.partitions if self._watermark_of(name) != MIN_TIMESTAMP]
        reached = {name: self._watermark_of(name) + silence.of(name) for name in known}
        if silent:
            self._follow(reached, self._is_idle_by_now)

    def _note_silence(self, seen: Mapping[str, int], batch_time: int, run: str) -> None:
        """Count how long the partitions without rows have been silent, by the micro-batches that polled them without result.

        Time without polls is not silence: neither before the first of these micro-batches nor before a run. The time between two
        of them counts, up to half the timeout, so that a single slow micro-batch makes no partition idle.
        """
        for name, known in self.partitions.items():
            timeout = self._strategy_of(name).idle_timeout
            gap = 0 if timeout is None else min(max(batch_time - self.asked, 0), (timeout + 1) // 2)
            if timeout is None or run != self.run:
                known.silent = None
            if timeout is not None and name not in seen:
                known.silent = 0 if known.silent is None else known.silent + gap
        self.run, self.asked = run, max(batch_time, self.asked)

    def _is_idle(self, name: str) -> bool:
        timeout, known = self._strategy_of(name).idle_timeout, self.partitions[name]
        return timeout is not None and known.silent is not None and known.silent >= timeout

    def _is_idle_by_now(self, name: str) -> bool:
        """Return whether a partition is idle, counting the silence of all input as well."""
        timeout = self._strategy_of(name).idle_timeout
        return timeout is not None and (self.silent_for(name) or 0) >= timeout

    def to_json(self) -> dict[str, Any]:
        return {
            "watermark": self.watermark,
            "partitions": {name: list(astuple(known)) for name, known in sorted(self.partitions.items())},
            "by": _folded(self.strategy.partition_column),
            "run": self.run,
            "asked": self.asked,
            **({} if self.silence is None else {"silence": self.silence.to_json()}),
            **({} if self.oldest is None else {"oldest": self.oldest}),
        }

    @classmethod
    def from_json(cls, strategy: WatermarkStrategy, saved: Mapping[str, Any], tick: int = 1) -> WatermarkTracker:
        """Restore the values of the meta record under a strategy that may have changed.

        Partitions by another column are forgotten, because they would never get rows again and hold the watermark back forever.
        So are partitions without rows that are not expected any more.
        """
        same = saved["by"] == _folded(strategy.partition_column)
        kept = {name: SourcePartition(*values) for name, values in saved["partitions"].items() if same}
        partitions = {
            name: known for name, known in kept.items() if known.max_timestamp != MIN_TIMESTAMP or name in strategy.expected
        }
        silence = None if strategy.closes_after is None else Silence.from_json(saved.get("silence"))
        times = saved["run"], saved["asked"], silence, tick, saved["watermark"], saved.get("oldest")
        return cls(strategy, saved["watermark"], partitions, *times)


def _folded(column: str | None) -> str | None:
    """Return a column's name regardless of case."""
    return None if column is None else column.casefold()


@dataclass(slots=True)
class ClosedWindows:
    """The progress of closing event-time windows in one key group.

    The content of a closed window is deleted. If it took rows again, a result of these few would appear in addition to the
    complete one, or replace it. So windows closed under one lateness stay closed under a larger one, and operators store
    :attr:`until` in their meta records. Windows whose last instant is ``until`` or earlier were closed in an earlier micro-batch;
    it never goes back.
    """

    lateness: int = 0
    until: int = MIN_TIMESTAMP

    def at(self, time: int) -> int:
        """Return the last instant up to which windows are closed at ``time``."""
        if time in (MIN_TIMESTAMP, MAX_TIMESTAMP):
            return max(time, self.until)
        return max(time - self.lateness, self.until)

    def reach(self, time: int) -> int:
        """Close windows permanently after a micro-batch that reached ``time``, and return :meth:`at`."""
        self.until = self.at(time)
        return self.until


def closing_times(last: Ints, lateness: int) -> Ints:
    """Return when windows with these last instants close, at most at the end of time."""
    found: Ints = np.minimum(last, MAX_TIMESTAMP - lateness) + lateness
    return found


def last_ended(one: AlignedWindows, time: int) -> int:
    """Return the last window whose ``max_timestamp`` is not after ``time``."""
    if time == MIN_TIMESTAMP:
        return -BEYOND_ALL
    return BEYOND_ALL if time == MAX_TIMESTAMP else one.first_ending_after(time + 1) - 1


@dataclass(slots=True)
class LatenessPolicy:
    """The ends of windows and panes; windows of processing time close without lateness."""

    grid: PaneGrid
    closing: ClosedWindows

    def closed(self, time: int) -> int:
        """Return the time up to which ended windows refuse rows."""
        return self.closing.at(time)

    def first_live_pane(self, closed: int) -> int:
        """Return the first pane that a window still needs."""
        if closed == MIN_TIMESTAMP:
            return -BEYOND_ALL
        if closed == MAX_TIMESTAMP:
            return BEYOND_ALL
        return min(self.grid.pane_of(one.start_of(last_ended(one, closed) + 1)) for one in self.grid.windows)

    def kept_from(self, closed: int) -> int:
        """Return the instant before which rows are deleted because no window needs them."""
        first = self.first_live_pane(closed)
        return MIN_TIMESTAMP if first == -BEYOND_ALL else min(self.grid.start_of(first), MAX_TIMESTAMP)

    def check_kept(self, since: int, closed: int) -> None:
        """Raise PlanMismatchError if a window open after ``closed`` starts before ``since``, where the stored rows begin."""
        wanted = self.kept_from(closed)
        if wanted < since:
            raise PlanMismatchError(
                f"open windows would begin {format_duration(since - wanted)} before the first row in the saved state, so their "
                f"results would lack rows. Windows may become shorter or begin less often, but not longer"
            )

    def taken(self, panes: Int64s, closed: int) -> npt.NDArray[np.bool_]:
        """Return which panes are in a window that still takes rows."""
        return self.grid.taken(panes, [last_ended(one, closed) + 1 for one in self.grid.windows])

    def too_late(self, panes: Int64s, times: Int64s, closed: int) -> npt.NDArray[np.bool_]:
        """Return which rows are late: no window takes them and time has passed them (a row between two windows may be early)."""
        found = ~self.taken(panes, closed)
        if self.grid.has_gaps:
            found &= ~self.grid.in_gap(panes) | (times <= closed)
        return found

    def first_open_pane(self, time: int) -> int:
        """Return the first pane whose end is after ``time``."""
        if time == MIN_TIMESTAMP:
            return -BEYOND_ALL
        return BEYOND_ALL if time == MAX_TIMESTAMP else self.grid.pane_of(time + 1)
