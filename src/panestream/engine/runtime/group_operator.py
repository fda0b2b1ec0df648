"""The common part of all operators of a key group: time, closing, late rows, metrics, the meta record."""

from __future__ import annotations

import gc
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panestream.engine.kernels.columns import Ints, Mask, as_type, storable
from panestream.engine.kernels.panes import Int64s
from panestream.engine.kernels.parts import incomplete_parts
from panestream.engine.plan import FIRINGS, MAIN, OPS, Top, WindowPlan, check_identity, check_taken_over
from panestream.engine.runtime.group_io import GroupInput, GroupOutput
from panestream.engine.runtime.watermarks import ClosedWindows, WatermarkTracker
from panestream.engine.storage.sealed_state import SealedState
from panestream.engine.storage.state_tables import TABLES_FORMAT, StateTables
from panestream.errors import InvalidPlanError, PlanMismatchError, StateFormatError, did_you_mean
from panestream.windowing.assigners import (
    CumulatingEventTimeWindows,
    EventTimeSessionWindows,
    LookBackWindows,
    PredicateWindows,
    RollingWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    WindowAssigner,
    WindowStagger,
)
from panestream.windowing.assigners.base import SeveralWindows
from panestream.windowing.time import MAX_TIMESTAMP, MIN_TIMESTAMP

_KNOWN = (
    CumulatingEventTimeWindows,
    EventTimeSessionWindows,
    LookBackWindows,
    RollingWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)


def last_instant(assigner: WindowAssigner, newest: int) -> int:
    """Return the last instant of all windows of rows up to ``newest``, in engine units.

    >>> last_instant(TumblingEventTimeWindows(60), 130), last_instant(EventTimeSessionWindows(30), 130)
    (179, 159)
    """
    if isinstance(assigner, SeveralWindows):
        return max(last_instant(one, newest) for one in assigner.assigners)
    if isinstance(assigner, PredicateWindows):
        # A row exactly one gap after the last row would still be in its window.
        return min(newest + (assigner.gap or 0), MAX_TIMESTAMP)
    if isinstance(assigner, LookBackWindows):
        return min(newest + assigner.following, MAX_TIMESTAMP)
    if isinstance(assigner, RollingWindows):
        # At this step the last row has left all windows with a length.
        return min((newest // assigner.every + 1) * assigner.every + assigner.longest, MAX_TIMESTAMP + 1) - 1
    if isinstance(assigner, TumblingEventTimeWindows) and assigner.stagger is not WindowStagger.ALIGNED:
        # Every key group has its own windows, and by then all of them are over.
        return min(newest + assigner.size - 1, MAX_TIMESTAMP)
    # Windows may have gaps between them, and the newest row may be in a gap.
    return max((window.max_timestamp() for window in assigner.assign_windows(None, newest, 0)), default=newest)


def check_closable(assigner: WindowAssigner) -> None:
    """Raise InvalidPlanError for windows whose end is unknown beforehand, naming them and the way out."""
    for one in assigner.assigners if isinstance(assigner, SeveralWindows) else (assigner,):
        if isinstance(one, EventTimeSessionWindows) and not isinstance(one.gap, int):
            raise InvalidPlanError(
                f"fire_at_end: when sessions of {one!r} end, their rows alone say, and the watermark would have to know it "
                "beforehand: give them one gap (.with_gap), or let the last ones wait for the next rows"
            )
        if not isinstance(one, _KNOWN) and not (isinstance(one, PredicateWindows) and one.gap is not None):
            raise InvalidPlanError(
                "fire_at_end closes windows of event time whose end depends only on the time of a row: tumbling, sliding and "
                "cumulating ones, look-backs, sessions of one gap, and windows by predicates with a gap, "
                f"not {one!r}: leave it out"
            )


Fresh = TypeVar("Fresh")
"""An operator's intermediate result for the rows of a micro-batch."""


class Storage(Protocol):
    """An operator's storage of rows, which also owns the meta record with its index."""

    def load(self) -> Mapping[str, Any] | None:
        """Read the meta record and return the header given to :meth:`save`, or None if the key group is new."""

    def save(self, header: Mapping[str, Any]) -> None:
        """Write the meta record with ``header`` (JSON values)."""

    def sizes(self) -> Sequence[int]:
        """Return the bytes of each block or page that has rows."""


@dataclass(frozen=True, slots=True)
class TimeStep:
    """The progress of window time in a micro-batch: event time by its watermark, or processing time.

    Attributes:
        before: the time before the micro-batch. Windows whose last instant is this or earlier had ended.
        after: the time after the micro-batch, never less. At the end of the input it is the end of time.
        end_of_input: whether the input has ended, so that no state is needed any more. (Batch.)
    """

    before: int
    after: int
    end_of_input: bool = False


class GroupOperator(ABC, Generic[Fresh]):
    """One key group's operator for one micro-batch, created from the plan and the group's state and used once.

    A micro-batch is processed in Flink's order::

        load      the meta record: check the plan; read watermark, processing time, closed windows, the operator's values
        invalid   rows without usable event time leave
        advance   the time before and after the micro-batch
        ingest    rows are judged by the time *before*; late ones leave, or are counted
        fire      windows that end between the two, or have late rows, are emitted
        close     data that windows still need is stored, the rest deleted
        save      the meta record
        wake up   the processing time at which something fires without rows
        measure   the metrics

    An operator implements :meth:`_ingest`, :meth:`_fire`, :meth:`_close` and, if needed, the other hooks below. It creates its
    storage first, then calls this constructor (which raises PlanMismatchError for another plan's state), then reads its other
    values from :attr:`_saved`. In windows of processing time (``by_processing_time``) nothing is late.
    """

    def __init__(self, plan: WindowPlan, state: SealedState, storage: Storage, *, by_processing_time: bool = False) -> None:
        self._plan = plan
        self._state = state
        self._storage = storage
        self._by_processing_time = by_processing_time
        self._saved: Mapping[str, Any] = storage.load() or {}
        """The content of the meta record, or empty if the key group is new."""
        self._tracker = WatermarkTracker(plan.watermark, tick=plan.ticks)
        if self._saved:
            check_identity(self._saved["identity"], plan.identity(), "the checkpoint")
            self._tracker = WatermarkTracker.from_json(plan.watermark, self._saved["watermarks"], plan.ticks)
        lateness = 0 if by_processing_time else plan.allowed_lateness
        self._closing = ClosedWindows(lateness, self._saved.get("closed", MIN_TIMESTAMP))
        self._processing_time: int = self._saved.get("clock", 0)
        self._incomplete: Sequence[str] = self._saved.get("incomplete", [])
        """Parts of the state that may miss rows because they were added later, without another part that counts these."""

    def process(self, batch: GroupInput) -> GroupOutput:
        """Process a micro-batch and return the output. This completes the state without a separate commit."""
        output = GroupOutput()
        for table in batch.invalid:
            self._emit_rows(self._plan.invalid_tags, table, output)
        step = self._advance(batch)
        fresh = self._ingest(batch, step, output)
        fresh = self._fire(fresh, step, output)
        if not step.end_of_input:
            self._close(fresh, step)
            self._save()
        output.wake_up = self._next_wake_up(step)
        self._measure(batch, step, output)
        return output

    # -- as tables -----------------------------------------------------------------------------------------------------

    def tables(self) -> StateTables:
        """Return the state of the key group as tables, without writing anything."""
        return StateTables(self.header(), {name: storable(table) for name, table in self._state_tables().items()})

    def header(self) -> dict[str, Any]:
        """Return the header of :meth:`tables`, reading only the values of the space ``meta``."""
        return {
            "format": TABLES_FORMAT,
            "operator": self._plan.operator.name,
            "identity": dict(self._plan.identity()),
            "watermarks": self._tracker.to_json(),
            "clock": self._processing_time,
            "closed": self._closing.until,
            **self._lacking(),
            **self._own_header(),
        }

    def restore(self, saved: StateTables) -> int | None:
        """Write saved tables, rows in any order, into a new key group's state, and return the result of :meth:`_next_wake_up`.

        The operator must not be used afterwards.

        Raises:
            PlanMismatchError: this plan cannot take over the tables.
            StateFormatError: another version of panestream wrote them, or a table or a column is missing.
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
        self._incomplete = incomplete_parts(saved.header, self._own_header())
        self._write_tables(saved)
        self._save()
        return self._next_wake_up(TimeStep(self._reached, self._reached))

    def _next_wake_up(self, step: TimeStep) -> int | None:
        """Return when something fires without rows, or when all key groups check for silence, or None."""
        asked = [self._wake_up(step), None if step.end_of_input else self._tracker.wake_up()]
        return min((time for time in asked if time is not None), default=None)

    def _lacking(self) -> Mapping[str, Any]:
        return {"incomplete": list(self._incomplete)} if self._incomplete else {}

    @property
    def _reached(self) -> int:
        return self._processing_time - 1 if self._by_processing_time else self._tracker.watermark

    # -- implemented by each operator ----------------------------------------------------------------------------------

    @abstractmethod
    def _ingest(self, batch: GroupInput, step: TimeStep, output: GroupOutput) -> Fresh:
        """Process the rows of the micro-batch. Rows that are late at ``step.before`` go to :meth:`_emit_late`."""

    @abstractmethod
    def _fire(self, fresh: Fresh, step: TimeStep, output: GroupOutput) -> Fresh:
        """Emit firing windows with :meth:`_emit_main`, and return the part of ``fresh`` that must be stored."""

    @abstractmethod
    def _close(self, fresh: Fresh, step: TimeStep) -> None:
        """Store data that windows still need at ``step.after``, and drop the rest. Not called at the end of the input."""

    @abstractmethod
    def _state_tables(self) -> Mapping[str, pa.Table]:
        """Return the state of all keys as tables that begin with :func:`~panestream.engine.storage.state_tables.key_fields`."""

    @abstractmethod
    def _write_tables(self, saved: StateTables) -> None:
        """Write such tables to the storage. Time and closed windows are already restored."""

    @abstractmethod
    def _own_header(self) -> Mapping[str, Any]:
        """Return the header entries of state tables except time (JSON values): ``partials``, ``counters``, the operator's own."""

    def _own_metadata(self) -> Mapping[str, Any]:
        """Return the operator's own entries of the meta record (JSON values), which :attr:`_saved` has in the next batch."""
        return {}

    def _wake_up(self, step: TimeStep) -> int | None:
        """Return the processing time at which something fires without rows, or None."""
        return None

    def _open_windows(self, step: TimeStep) -> tuple[int, int] | None:
        """Return the first and the last window that have rows, for the metrics, or None if they are missing or not numbered."""
        return None

    def _kept_windows(self) -> int | None:
        """Return the number of stored (key, window) pairs with unnumbered windows, for the metrics. None if unknown."""
        return 0

    # -- helpers for operators -----------------------------------------------------------------------------------------

    def _emit_late(self, count: int, rows: Iterable[pa.Table], output: GroupOutput) -> None:
        """Count late rows, and emit the whole rows if the plan has an output for them. Only then ``rows`` is iterated."""
        output.metrics.late_rows = count
        if self._plan.late_tag is not None:
            for table in rows:
                self._emit_rows(self._plan.late_tags, table, output)

    def _emit_rows(self, tags: Sequence[str | None], rows: pa.Table, output: GroupOutput) -> None:
        """Emit rows unchanged; each of two streams has its own output."""
        sides = self._plan.sides
        for tag, table in zip(tags, (rows,) if sides is None else sides.apart(rows), strict=True):
            output.emit(tag or "", table)

    def _emit_main(self, rows: pa.Table, fired: int, output: GroupOutput) -> None:
        """Emit rows of the main output, the results of ``fired`` (key, window) pairs."""
        output.metrics.fired_rows += fired
        pairs = self._plan.pairs
        if pairs is None:
            output.emit(MAIN, rows)
            return
        kept = pairs.kept(rows)
        output.emit(MAIN, kept, pairs.count(kept))

    @staticmethod
    def _count_firings(firing: str, count: int, output: GroupOutput) -> None:
        firings = output.metrics.firings
        firings[firing] = firings.get(firing, 0) + count

    # -- common to all operators ---------------------------------------------------------------------------------------

    def _advance(self, batch: GroupInput) -> TimeStep:
        before = self._tracker.watermark
        after = self._tracker.take_in(batch)
        if batch.end_of_available and not batch.has_reports and self._tracker.newest != MIN_TIMESTAMP:
            after = self._tracker.close(last_instant(self._plan.assigner, self._tracker.newest))
        if self._by_processing_time:
            # A window [0, 10) is over when the clock shows 10: its last instant is the one before.
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
            **self._own_metadata(),
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


_frozen = False


def freeze_modules_once() -> None:
    """Exclude everything now in memory from garbage collection, once per process.

    Spark's Python workers search everything after each task, including all imported modules, which takes 50 ms each time. So a
    worker calls this after its first task, when all modules are loaded.
    """
    global _frozen  # noqa: PLW0603 - the process has one collector
    if not _frozen:
        _frozen = True
        gc.collect()
        gc.freeze()


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the garbage collector: a micro-batch creates many lasting objects without cycles, and searching doubles its time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


Column: TypeAlias = pa.Array | pa.ChunkedArray
_INSTANT = pa.timestamp("us", tz="UTC")


def window_rows(
    plan: WindowPlan,
    keys: Sequence[Column],
    bounds: tuple[Ints | pa.Array | None, Ints | pa.Array | None] | tuple[()],
    results: Sequence[Column],
    firing: Sequence[Column] = (),
    *,
    kind: int = 0,
    tag: str = MAIN,
) -> pa.Table:
    """Return rows of the main output, or of a side output (``tag``) of window functions.

    ``bounds`` are the start and end of each row's window in engine units, or None for the global window. They are empty if
    results have no windows. ``firing`` comes from :func:`firing_columns`, and ``kind`` is the number of the kind of windows.
    """
    schema = plan.emitted_schema(tag)
    # Several kinds of windows, and windows without bounds, exist for aggregates only; results of functions may lack columns.
    label = [_words(plan.labels, np.full(len(results[0]), kind))] if plan.labels else []
    typed_keys = [as_type(key, field.type) for key, field in zip(keys, plan.key_schema, strict=True)]
    arrays = [*typed_keys, *label, *(_instants(bound, results) for bound in bounds), *results, *firing]
    return pa.Table.from_arrays(arrays, schema=schema)


def side_schema(plan: WindowPlan, tag: str) -> pa.Schema:
    """Return the declared columns of a side output, or raise InvalidPlanError if it is not declared."""
    declared = plan.side_outputs
    if tag not in declared:
        hint = did_you_mean(tag, declared) if declared else "none is declared"
        who, how = "the window function", f".side_output({tag!r}, schema)"
        if not plan.operator.capabilities.has_windows:
            who, how = "the process function", f".process(..., side_outputs={{{tag!r}: schema}})"
        raise InvalidPlanError(f"{who} sent to the output {tag!r}: declare it, {how}; {hint}")
    return declared[tag]


def firing_columns(plan: WindowPlan, firings: Ints, numbers: Ints, last: Mask, ops: Ints) -> list[pa.Array]:
    """Return the columns after the results that the plan requests.

    ``firings`` and ``ops`` are indexes into :data:`~panestream.engine.plan.FIRINGS` and :data:`~panestream.engine.plan.OPS`.
    ``numbers`` says how often a row's window had fired before, and ``last`` whether it cannot fire again.
    """
    columns = []
    if plan.with_firing:
        columns += [_words(FIRINGS, firings), pa.array(numbers), pa.array(last)]
    if plan.changelog:
        columns.append(_words(OPS, ops))
    return columns


def _instants(bound: Ints | pa.Array | None, results: Sequence[Column]) -> pa.Array:
    if bound is None:
        return pa.nulls(len(results[0]), _INSTANT)
    return (bound if isinstance(bound, pa.Array) else pa.array(np.ascontiguousarray(bound))).cast(_INSTANT)


def _words(words: tuple[str, ...], places: Ints) -> pa.Array:
    return pa.array(words).take(pa.array(places.astype(np.int64)))


def largest_per_window(which: Int64s, results: pa.Table, top: Top, keys: Sequence[str]) -> tuple[Int64s, pa.Table]:
    """Return the ``top.n`` rows of each window with the largest ``top.by`` (nulls last), ties by smaller key (nulls first).

    ``which`` is the window of each row of ``results``, whose key columns are ``keys``.
    """
    if pa.types.is_floating(results.schema.field(top.by).type):
        # Arrow always sorts NaN last, while SQL treats it as the largest, so NaN gets its own column.
        sorted_by = results.append_column("__nan", pc.is_nan(pc.fill_null(results.column(top.by), 0.0)))
        order = [("__nan", "descending"), (top.by, "descending")]
    else:
        sorted_by, order = results, [(top.by, "descending")]
    for position, name in enumerate(keys):
        # Arrow puts nulls last in both directions; SQL's ascending order has them first.
        sorted_by = sorted_by.append_column(f"__null_{position}", pc.is_null(results.column(name)))
        order += [(f"__null_{position}", "descending"), (name, "ascending")]
    sorted_by = sorted_by.append_column("__window", pa.array(which))
    indices = pc.sort_indices(sorted_by, sort_keys=[("__window", "ascending"), *order]).to_numpy()
    windows = which[indices]
    begins = np.searchsorted(windows, windows)
    kept = indices[np.arange(len(windows)) - begins < top.n]
    return which[kept], results.take(pa.array(kept))
