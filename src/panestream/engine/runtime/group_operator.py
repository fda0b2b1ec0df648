"""What every operator of a key group does, whatever its windows: time, closing, late rows, metrics, the meta record."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import pyarrow as pa

from panestream.engine.kernels.parts import incomplete_parts
from panestream.engine.plan import MAIN, WindowPlan, check_identity, check_taken_over
from panestream.engine.runtime.group_io import GroupInput, GroupOutput
from panestream.engine.runtime.last_windows import last_instant
from panestream.engine.runtime.watermarks import Closing, WatermarkTracker
from panestream.engine.storage.sealed_state import SealedState
from panestream.engine.storage.state_tables import TABLES_FORMAT, StateTables, storable
from panestream.errors import PlanMismatchError, StateFormatError
from panestream.windowing.time import MAX_TIMESTAMP, MIN_TIMESTAMP

Fresh = TypeVar("Fresh")
"""What an operator makes of the rows of a micro-batch."""


class Storage(Protocol):
    """Where an operator keeps rows: it brings the meta record, which has the index of them."""

    def load(self) -> Mapping[str, Any] | None:
        """Reads the meta record; returns what :meth:`save` was given. None: the key group is new."""

    def save(self, header: Mapping[str, Any]) -> None:
        """Writes the meta record with ``header`` (JSON values)."""

    def sizes(self) -> Sequence[int]:
        """The bytes of each block or page that has rows."""


@dataclass(frozen=True, slots=True)
class TimeStep:
    """How far the time of the windows comes with a micro-batch: event time by its watermark, or processing time.

    Attributes:
        before: windows whose last instant is this or before had ended when the micro-batch came.
        after: the same, when it is over; never less. At the end of the input it is the end of time.
        end_of_input: whether no more rows will come: nothing needs to be kept. (Batch.)
    """

    before: int
    after: int
    end_of_input: bool = False


class GroupOperator(ABC, Generic[Fresh]):
    """One key group's operator, for one micro-batch: made from the plan and the group's state, used once.

    A micro-batch goes through in Flink's order::

        load      the meta record: is it this plan's? watermark, processing time, what is closed, what the operator kept
        invalid   rows without usable event time leave
        advance   where time stood before, and where it stands after
        take in   rows are judged by the time *before*; late ones leave, or are counted
        fire      windows that end between the two, or have late rows, are emitted
        close     what windows still need is kept, the rest goes
        save      the meta record
        wake up   the processing time at which something fires without rows
        measure   what happened

    An operator says what is its own in :meth:`_take_in`, :meth:`_fire`, :meth:`_close` and, where it needs them, the other hooks
    below. It makes its storage first, then calls this constructor, then reads what else it kept from :attr:`_saved`.

    Args:
        plan: the query.
        state: the key group's state.
        storage: where the operator keeps rows in it.
        by_processing_time: whether the windows are of processing time; then nothing is late.

    Raises:
        PlanMismatchError: the state belongs to another plan.
    """

    def __init__(self, plan: WindowPlan, state: SealedState, storage: Storage, *, by_processing_time: bool = False) -> None:
        self._plan = plan
        self._state = state
        self._storage = storage
        self._by_processing_time = by_processing_time
        self._saved: Mapping[str, Any] = storage.load() or {}
        """What the meta record kept; empty: the key group is new."""
        self._tracker = WatermarkTracker(plan.watermark, tick=plan.ticks)
        if self._saved:
            check_identity(self._saved["identity"], plan.identity(), "the checkpoint")
            self._tracker = WatermarkTracker.from_json(plan.watermark, self._saved["watermarks"], plan.ticks)
        lateness = 0 if by_processing_time else plan.allowed_lateness
        self._closing = Closing(lateness, self._saved.get("closed", MIN_TIMESTAMP))
        self._processing_time: int = self._saved.get("clock", 0)
        self._incomplete: Sequence[str] = self._saved.get("incomplete", [])
        """Parts of the state that may lack rows, since they were added later, with nothing beside them that tells so."""

    def process(self, batch: GroupInput) -> GroupOutput:
        """Takes in a micro-batch; returns what it emits. The state is then complete: there is no separate commit."""
        output = GroupOutput()
        for table in batch.invalid:
            self._emit_rows(self._plan.invalid_tags, table, output)
        step = self._advance(batch)
        fresh = self._take_in(batch, step, output)
        fresh = self._fire(fresh, step, output)
        if not step.end_of_input:
            self._close(fresh, step)
            self._save()
        output.wake_up = self._next_wake_up(step)
        self._measure(batch, step, output)
        return output

    # -- as tables -----------------------------------------------------------------------------------------------------

    def tables(self) -> StateTables:
        """What the key group keeps, as tables. Nothing is written."""
        return StateTables(self.header(), {name: storable(table) for name, table in self._state_tables().items()})

    def header(self) -> dict[str, Any]:
        """The header of :meth:`tables`. It takes the values of the space ``meta`` alone."""
        return {
            "format": TABLES_FORMAT,
            "operator": self._plan.operator.name,
            "identity": dict(self._plan.identity()),
            "watermarks": self._tracker.to_json(),
            "clock": self._processing_time,
            "closed": self._closing.until,
            **self._lacking(),
            **self._described(),
        }

    def restore(self, saved: StateTables) -> int | None:
        """Writes the state that tables say, of a key group that has none yet; the operator is not to be used afterwards.

        Args:
            saved: what :meth:`tables` gave, the rows in any order.

        Returns:
            The processing time at which something fires without rows; None: nothing waits for it.

        Raises:
            PlanMismatchError: what it holds cannot be taken over by this plan.
            StateFormatError: another version of panestream wrote it; a table or a column is missing.
        """
        if self._saved:
            raise PlanMismatchError("the key group has state already: saved state is put into new checkpoints only")
        if saved.header.get("format") != TABLES_FORMAT:
            raise StateFormatError(
                f"the saved state has format {saved.header.get('format')!r}, this version of panestream reads {TABLES_FORMAT}"
            )
        check_taken_over(saved.header["identity"], self._plan)
        self._tracker = WatermarkTracker.from_json(self._plan.watermark, saved.header["watermarks"], self._plan.ticks)
        self._processing_time, self._closing.until = saved.header["clock"], saved.header["closed"]
        self._incomplete = incomplete_parts(saved.header, self._described())
        self._put(saved)
        self._save()
        return self._next_wake_up(TimeStep(self._reached, self._reached))

    def _next_wake_up(self, step: TimeStep) -> int | None:
        """When something fires without rows, or all key groups look whether all is silent; None: never."""
        asked = [self._wake_up(step), None if step.end_of_input else self._tracker.wake_up()]
        return min((time for time in asked if time is not None), default=None)

    def _lacking(self) -> Mapping[str, Any]:
        return {"incomplete": list(self._incomplete)} if self._incomplete else {}

    @property
    def _reached(self) -> int:
        """How far the time of the windows has come."""
        return self._processing_time - 1 if self._by_processing_time else self._tracker.watermark

    # -- what an operator says -----------------------------------------------------------------------------------------

    @abstractmethod
    def _take_in(self, batch: GroupInput, step: TimeStep, output: GroupOutput) -> Fresh:
        """What the rows of the micro-batch come to. Rows that are late at ``step.before`` go to :meth:`_emit_late`."""

    @abstractmethod
    def _fire(self, fresh: Fresh, step: TimeStep, output: GroupOutput) -> Fresh:
        """Emits what fires, by :meth:`_emit_main`; returns what is left of ``fresh`` to be kept."""

    @abstractmethod
    def _close(self, fresh: Fresh, step: TimeStep) -> None:
        """Writes what windows still need at ``step.after`` to the storage, and drops the rest. Not at the end of the input."""

    @abstractmethod
    def _state_tables(self) -> Mapping[str, pa.Table]:
        """All that is kept of keys: tables whose first columns are :func:`~panestream.engine.storage.state_tables.key_fields`."""

    @abstractmethod
    def _put(self, saved: StateTables) -> None:
        """Writes to the storage what such tables hold. Time and what is closed are as they were already."""

    @abstractmethod
    def _described(self) -> Mapping[str, Any]:
        """What the header of state tables says besides time (JSON values): ``partials``, ``counters``, its own."""

    def _kept(self) -> Mapping[str, Any]:
        """What the meta record keeps for the operator besides time (JSON values): :attr:`_saved` has it in the next batch."""
        return {}

    def _wake_up(self, step: TimeStep) -> int | None:
        """The processing time at which something fires without rows; None: nothing waits for it."""
        return None

    def _open_windows(self, step: TimeStep) -> tuple[int, int] | None:
        """The first and the last window that still have rows, for the metrics; None: none, or they have no numbers."""
        return None

    def _kept_windows(self) -> int | None:
        """How many windows of keys are kept, where they have no such numbers, for the metrics; None: unknown."""
        return 0

    # -- what it is given ----------------------------------------------------------------------------------------------

    def _emit_late(self, count: int, rows: Iterable[pa.Table], output: GroupOutput) -> None:
        """Counts late rows and, where the plan has an output for them, emits the whole rows; only then ``rows`` is looked at."""
        output.metrics.late_rows = count
        if self._plan.late_tag is not None:
            for table in rows:
                self._emit_rows(self._plan.late_tags, table, output)

    def _emit_rows(self, tags: Sequence[str | None], rows: pa.Table, output: GroupOutput) -> None:
        """Emits rows as they came: those of two streams each to its own output."""
        sides = self._plan.sides
        for tag, table in zip(tags, (rows,) if sides is None else sides.apart(rows), strict=True):
            output.emit(tag or "", table)

    def _emit_main(self, rows: pa.Table, fired: int, output: GroupOutput) -> None:
        """Emits rows of the main output, the results of ``fired`` keys and windows."""
        output.metrics.fired_rows += fired
        pairs = self._plan.pairs
        if pairs is None:
            output.emit(MAIN, rows)
            return
        kept = pairs.kept(rows)
        output.emit(MAIN, kept, pairs.count(kept))

    @staticmethod
    def _count_firings(firing: str, count: int, output: GroupOutput) -> None:
        """Counts ``count`` keys and windows that fired: early, on time or late."""
        firings = output.metrics.firings
        firings[firing] = firings.get(firing, 0) + count

    # -- the same for all ----------------------------------------------------------------------------------------------

    def _advance(self, batch: GroupInput) -> TimeStep:
        before = self._tracker.watermark
        after = self._tracker.take_in(batch)
        if batch.end_of_available and not batch.has_reports and self._tracker.newest != MIN_TIMESTAMP:
            after = self._tracker.close(last_instant(self._plan.assigner, self._tracker.newest))
        if self._by_processing_time:
            # A window [0, 10) is over when the clock says 10: its last instant is the one before.
            before = self._processing_time - 1
            self._processing_time = max(self._processing_time, batch.batch_time)
            after = self._processing_time - 1
        return TimeStep(before, MAX_TIMESTAMP if batch.end_of_input else after, batch.end_of_input)

    def _save(self) -> None:
        header = {
            "identity": self._plan.identity(),
            "watermarks": self._tracker.to_json(),
            "clock": self._processing_time,
            "closed": self._closing.until,
            **self._lacking(),
            **self._kept(),
        }
        self._storage.save(header)

    def _measure(self, batch: GroupInput, step: TimeStep, output: GroupOutput) -> None:
        metrics, sizes = output.metrics, self._storage.sizes()
        self._tracker.measure(batch, metrics)
        metrics.partitions = self._tracker.by_partition() if self._state.group == 0 else None
        metrics.open_windows, metrics.kept_windows = self._open_windows(step), self._kept_windows()
        metrics.blocks, metrics.state_bytes = len(sizes), sum(sizes)
        metrics.woken = not batch.has_reports
        state = self._state
        metrics.key_group, metrics.state_of = state.group, state.last_written_before
        metrics.state_calls = state.counted.calls
        metrics.bytes_read, metrics.bytes_written = state.counted.bytes_read, state.counted.bytes_written


__all__ = ["GroupOperator", "Storage", "TimeStep"]
