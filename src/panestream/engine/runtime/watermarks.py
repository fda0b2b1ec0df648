"""How far event time is in one key group: the watermark that follows from the reports, and which windows and panes it closes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from panestream.engine.kernels.columns import Ints
from panestream.engine.kernels.slicing import AlignedWindows, Int64s, PaneGrid
from panestream.engine.runtime.group_io import MOST_PARTITIONS, GroupInput, GroupMetrics
from panestream.engine.runtime.silence import Silence
from panestream.errors import PlanMismatchError
from panestream.windowing.time import MAX_TIMESTAMP, MIN_TIMESTAMP, format_duration
from panestream.windowing.watermarks import WatermarkStrategy

BEYOND_ALL = 2**62
"""Beyond every pane and window number: event times are kept within ±2**62."""


@dataclass(slots=True)
class SourcePartition:
    """What is known of one source partition.

    Attributes:
        max_timestamp: its largest event time; ``MIN_TIMESTAMP``: it is expected, and had no rows yet.
        emitted: the largest watermark that the user's own generator emitted for it.
        silent: for how long it has been silent, in engine units; None: it had rows when the source was last asked, or nobody has
            asked in this run.
    """

    max_timestamp: int
    emitted: int = MIN_TIMESTAMP
    silent: int | None = None


@dataclass(slots=True)
class WatermarkTracker:
    """Turns the largest event times seen per source partition into one watermark that never goes back.

    Every key group is handed every report, so all groups of a query agree after every micro-batch.

    Attributes:
        strategy: the recipe.
        watermark: how far event time has come.
        partitions: the source partitions that were seen or are expected.
        run: of the query, that planned the micro-batch in which the source was last asked; empty: unknown.
        asked: the time of that micro-batch.
        silence: of all input, where the strategy closes windows after some; else None.
        tick: the smallest step of the clock, in engine units.
        before: the watermark before this micro-batch.
    """

    strategy: WatermarkStrategy
    watermark: int = MIN_TIMESTAMP
    partitions: dict[str, SourcePartition] = field(default_factory=dict)
    run: str = ""
    asked: int = 0
    silence: Silence | None = None
    tick: int = field(default=1, compare=False)
    before: int = field(default=MIN_TIMESTAMP, compare=False)

    def __post_init__(self) -> None:
        if self.strategy.closes_after is not None and self.silence is None:
            self.silence = Silence()

    def take_in(self, batch: GroupInput) -> int:
        """What a micro-batch reports; returns the watermark.

        A key group that is woken up by the clock gets no reports: the source was asked in vain, if it was.
        """
        self.before, after = self.watermark, self.strategy.closes_after
        if not batch.has_reports:
            silence = None if batch.end_of_available else self.silence
            if after is not None and silence is not None and batch.batch_time >= silence.due:
                self._follow_clock(silence, silence.ask(batch.batch_time, batch.planned_in, after, self.tick))
            return self.watermark
        if after is not None and self.silence is not None:
            self.silence.hear(batch.seen, batch.batch_time, batch.planned_in, after, self.tick)
        # What comes again must come to the same: it is of the run that planned it, where that is known.
        return self.advance(batch.seen, batch.batch_time, batch.watermarks, batch.planned_in or batch.run)

    def close(self, until: int) -> int:
        """The end of what is available stands for silence that lasted until event time came here; returns the watermark."""
        self.watermark = max(self.watermark, until)
        return self.watermark

    @property
    def newest(self) -> int:
        """The largest event time; ``MIN_TIMESTAMP``: there was none yet."""
        return max((known.max_timestamp for known in self.partitions.values()), default=MIN_TIMESTAMP)

    def wake_up(self) -> int | None:
        """At or before the time at which the clock is to wake all key groups, to look whether all is silent; None: never."""
        if self.silence is None or self.newest == MIN_TIMESTAMP:
            return None
        # A tick earlier, as who is woken by this is woken when the clock is past it.
        return self.silence.due - self.tick

    def advance(self, seen: Mapping[str, int], batch_time: int, generated: Mapping[str, int] | None = None, run: str = "") -> int:
        """Takes in what this micro-batch says of each source partition; returns the watermark.

        Args:
            seen: the largest event time of each partition that had rows.
            batch_time: processing time.
            generated: what the user's own generator emitted for each partition, where the strategy has one.
            run: which run of the query planned the micro-batch; another one than before starts the idle timers anew.
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
        self._follow({name: self._watermark_of(name) for name in self.partitions}, self._is_idle)
        return self.watermark

    def _follow(self, reached: Mapping[str, int], is_idle: Callable[[str], bool]) -> None:
        """Advance to the partition that is the furthest behind, or, if all are idle, to the one that is the furthest ahead."""
        awake = [time for name, time in reached.items() if not is_idle(name)]
        self.watermark = max(self.watermark, min(awake) if awake else max(reached.values(), default=MIN_TIMESTAMP))

    def _forget_placeholders(self) -> None:
        """A side with partitions of its own is expected by its name; once one of them is known, nobody has that name."""
        for side, _ in self.strategy.sides:
            if any(name.startswith(f"{side}/") for name in self.partitions):
                self.partitions.pop(side, None)

    def silent_for(self, name: str) -> int | None:
        """How long a source partition has been silent, as far as it was counted; None: it was not."""
        counted = self.partitions[name].silent
        return counted if self.silence is None else max(self.silence.of(name), counted or 0)

    def measure(self, batch: GroupInput, metrics: GroupMetrics) -> None:
        """Fills in what is the same in all key groups."""
        metrics.input_rows, metrics.invalid_rows, metrics.history_rows = batch.input_rows, batch.invalid_rows, batch.history_rows
        metrics.watermark_before = None if self.before == MIN_TIMESTAMP else self.before
        metrics.watermark = None if self.watermark == MIN_TIMESTAMP else self.watermark
        metrics.max_event_time = None if self.newest == MIN_TIMESTAMP else self.newest
        metrics.partition_count = len(self.partitions)
        metrics.idle_partitions = sum(map(self._is_idle, self.partitions))

    def by_partition(self, most: int | None = MOST_PARTITIONS) -> list[tuple[str, int | None, int | None, bool]]:
        """Of each source partition: name, largest event time, watermark, whether it is idle. The furthest behind first.

        Args:
            most: so many at most; None: all.
        """
        behind = sorted((self._watermark_of(name), name) for name in self.partitions)
        found: list[tuple[str, int | None, int | None, bool]] = []
        for watermark, name in behind[:most]:
            known = self.partitions[name]
            newest = None if known.max_timestamp == MIN_TIMESTAMP else known.max_timestamp
            found.append((name, newest, None if watermark == MIN_TIMESTAMP else watermark, self._is_idle(name)))
        return found

    def _strategy_of(self, name: str) -> WatermarkStrategy:
        return self.strategy.of_partition(name) if self.strategy.sides else self.strategy

    def _watermark_of(self, name: str) -> int:
        strategy, known = self._strategy_of(name), self.partitions[name]
        if strategy.generator is not None:
            return known.emitted
        if strategy.delay is None or known.max_timestamp == MIN_TIMESTAMP:
            return MIN_TIMESTAMP
        # Flink's minus one: a row with exactly the largest event time seen may still come.
        return known.max_timestamp - strategy.delay - 1

    def _follow_clock(self, silence: Silence, silent: bool) -> None:
        """Event time of each partition goes on from its last row, where all have been silent for long enough."""
        known = [name for name in self.partitions if self._watermark_of(name) != MIN_TIMESTAMP]
        reached = {name: self._watermark_of(name) + silence.of(name) for name in known}
        if silent:
            self._follow(reached, self._is_idle_by_now)

    def _note_silence(self, seen: Mapping[str, int], batch_time: int, run: str) -> None:
        """Counts how long the partitions without rows have been silent: by the micro-batches that asked for them in vain.

        What went by while nobody asked is not silence: the time before the first of these micro-batches, and before a run began.
        Between two of them it is, for half the timeout at most: one slow micro-batch makes nobody idle.
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
        """Whether a partition is idle, if silence of all input counts as well."""
        timeout = self._strategy_of(name).idle_timeout
        return timeout is not None and (self.silent_for(name) or 0) >= timeout

    def to_json(self) -> dict[str, Any]:
        """What the meta record keeps."""
        return {
            "watermark": self.watermark,
            "partitions": {name: list(astuple(known)) for name, known in sorted(self.partitions.items())},
            "by": _folded(self.strategy.partition_column),
            "run": self.run,
            "asked": self.asked,
            **({} if self.silence is None else {"silence": self.silence.to_json()}),
        }

    @classmethod
    def from_json(cls, strategy: WatermarkStrategy, saved: Mapping[str, Any], tick: int = 1) -> WatermarkTracker:
        """What the meta record kept, under a strategy that may be another one by now.

        What another column told apart is forgotten: such a partition has no rows any more, and would hold the watermark for ever.
        So is a partition that had none yet, and is expected no more.
        """
        same = saved["by"] == _folded(strategy.partition_column)
        kept = {name: SourcePartition(*values) for name, values in saved["partitions"].items() if same}
        partitions = {
            name: known for name, known in kept.items() if known.max_timestamp != MIN_TIMESTAMP or name in strategy.expected
        }
        silence = None if strategy.closes_after is None else Silence.from_json(saved.get("silence"))
        return cls(strategy, saved["watermark"], partitions, saved["run"], saved["asked"], silence, tick, saved["watermark"])


def _folded(column: str | None) -> str | None:
    """A column's name in whatever case it was written."""
    return None if column is None else column.casefold()


@dataclass(slots=True)
class Closing:
    """How far windows of event time are closed in one key group.

    What a closed window held is gone: if rows were taken for it again, a result of these few would stand beside the whole one, or
    in its place. So what was closed under one lateness stays closed under a larger one, and the operators keep :attr:`until` in
    their meta records.

    Attributes:
        lateness: how long after its end a window takes rows.
        until: windows whose last instant is this or before were closed in an earlier micro-batch. It never goes back.
    """

    lateness: int = 0
    until: int = MIN_TIMESTAMP

    def at(self, time: int) -> int:
        """Windows whose last instant is this or before are closed when time has come to ``time``."""
        if time in (MIN_TIMESTAMP, MAX_TIMESTAMP):
            return max(time, self.until)
        return max(time - self.lateness, self.until)

    def reach(self, time: int) -> int:
        """Time has come to ``time`` and a micro-batch is over: what is closed now is closed for good. Returns :meth:`at`."""
        self.until = self.at(time)
        return self.until


def closing_times(last: Ints, lateness: int) -> Ints:
    """When windows go whose last instants these are; the end of time is as late as it gets."""
    found: Ints = np.minimum(last, MAX_TIMESTAMP - lateness) + lateness
    return found


def last_ended(one: AlignedWindows, time: int) -> int:
    """The last window whose ``max_timestamp`` time has reached."""
    if time == MIN_TIMESTAMP:
        return -BEYOND_ALL
    return BEYOND_ALL if time == MAX_TIMESTAMP else one.first_ending_after(time + 1) - 1


@dataclass(slots=True)
class LatenessPolicy:
    """The ends of windows and of panes.

    Attributes:
        grid: the panes.
        closing: how far windows are closed; by processing time without lateness.
    """

    grid: PaneGrid
    closing: Closing

    def closed(self, time: int) -> int:
        """Windows that end up to then take no more rows."""
        return self.closing.at(time)

    def first_live_pane(self, closed: int) -> int:
        """The first pane that a window still needs."""
        if closed == MIN_TIMESTAMP:
            return -BEYOND_ALL
        if closed == MAX_TIMESTAMP:
            return BEYOND_ALL
        return min(self.grid.pane_of(one.start_of(last_ended(one, closed) + 1)) for one in self.grid.windows)

    def kept_from(self, closed: int) -> int:
        """The instant before which no rows are kept, since no window needs them."""
        first = self.first_live_pane(closed)
        return MIN_TIMESTAMP if first == -BEYOND_ALL else min(self.grid.start_of(first), MAX_TIMESTAMP)

    def check_kept(self, since: int, closed: int) -> None:
        """Refuses windows that need rows which were not kept.

        Args:
            since: rows before this instant were not.
            closed: windows that end up to then take no more rows.

        Raises:
            PlanMismatchError: an open window begins earlier.
        """
        wanted = self.kept_from(closed)
        if wanted < since:
            raise PlanMismatchError(
                f"open windows would begin {format_duration(since - wanted)} before the first row that the saved state still "
                "has: their results would lack rows. Windows may become shorter, or begin more seldom, not longer"
            )

    def taken(self, panes: Int64s, closed: int) -> npt.NDArray[np.bool_]:
        """Which panes lie in a window that still takes rows."""
        return self.grid.taken(panes, [last_ended(one, closed) + 1 for one in self.grid.windows])

    def too_late(self, panes: Int64s, times: Int64s, closed: int) -> npt.NDArray[np.bool_]:
        """Which rows are late: no window takes them, and time has passed them (a row between two windows may be early)."""
        found = ~self.taken(panes, closed)
        if self.grid.has_gaps:
            found &= ~self.grid.in_gap(panes) | (times <= closed)
        return found

    def first_open_pane(self, time: int) -> int:
        """The first pane whose end time has not reached."""
        if time == MIN_TIMESTAMP:
            return -BEYOND_ALL
        return BEYOND_ALL if time == MAX_TIMESTAMP else self.grid.pane_of(time + 1)
