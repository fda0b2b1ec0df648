"""The query that a user wrote, and its immutable plan: everything that the exchange and an operator need, without Spark.

A :class:`WindowQuery` is the description before the planner chooses an operator. A :class:`WindowPlan` has the properties of all
queries: keys, event time, key groups and outputs. Its :class:`OperatorSpec` decides how rows are packed, which operator runs and
which columns it emits. The exchange, Spark and batch mode use only the plan and its operator.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from panestream.engine.kernels.columns import Ints
from panestream.engine.kernels.panes import Int64s
from panestream.engine.runtime.group_io import GroupInput, GroupOutput
from panestream.engine.runtime.sides import Pairs, Sides
from panestream.engine.storage.payload import FORMAT_VERSION, decode
from panestream.engine.storage.sealed_state import SealedState
from panestream.engine.storage.state import MOST_BYTES, State
from panestream.engine.storage.state_tables import StateTables, StateViews
from panestream.errors import InvalidPlanError, PanestreamError, PlanMismatchError
from panestream.windowing.assigners import CalendarWindows, GlobalWindows, MergingWindowAssigner, PredicateWindows, WindowAssigner
from panestream.windowing.assigners.base import SeveralWindows
from panestream.windowing.assigners.session import GapColumn
from panestream.windowing.evictors import CountEvictor, Evictor, TimeEvictor
from panestream.windowing.fill import Fill, ListedKeys
from panestream.windowing.triggers import DeltaTrigger, Trigger
from panestream.windowing.triggers.composition import all_parts
from panestream.windowing.watermarks import WatermarkStrategy

STATE_FORMAT = "state format"
"""The identity entry for the format of stored state."""
KEY_GROUPS = "key groups"
"""The identity entry for the number of key groups."""
MAIN = "main"
"""The tag of the main output, the results of the windows."""
EARLY, ON_TIME, LATE = FIRINGS = ("early", "on_time", "late")
"""The kinds of firings: before the window's end, when time reaches its end, and after it."""
FIRING_COLUMNS = (
    pa.field("firing", pa.string(), nullable=False),
    pa.field("firing_number", pa.int64(), nullable=False),
    pa.field("is_last", pa.bool_(), nullable=False),
)
"""The columns that describe a firing: its kind, its number per key and window (from 0), and whether it is surely the last."""
INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = OPS = ("insert", "update_before", "update_after", "delete")
WAY_OUT = "Filter such rows out, or route them to a side output with .side_output_invalid(tag)"
"""The advice in errors about rows without usable event time."""
OP_COLUMN = pa.field("op", pa.string(), nullable=False)
"""The column that classifies a changelog row: a new row, the old or the new values of a changed row, or a deleted row."""
WINDOW_COLUMNS = ("window", "window_start", "window_end")
"""The window columns of the results; ``window`` only if the query has several kinds of windows."""
RESERVED = ("window_start", "window_end", "rank", "batch_id")
"""Result columns whose names neither a key nor a user result may have."""


@dataclass(frozen=True, slots=True)
class WindowQuery:
    """What the user wrote about the windows of a query. :class:`WindowPlan` is what the planner chose for it.

    Attributes:
        assigner: the windows.
        trigger: the trigger, or None for the assigner's default.
        evictor: the evictor, or None to keep all elements.
        allowed_lateness: how long after its end a window takes rows, in engine units.
        every_firing: whether every single firing is wanted, which only the row operator provides.
        pickled_state: whether state may store values without columns as pickles.
        fill: how windows without rows are filled, or None if they are not emitted.
        listed_keys: the keys that are filled without ever having rows, or None.
        per_key: whether each key has its own watermark, which only the row operator provides.
    """

    assigner: WindowAssigner
    trigger: Trigger | None = None
    evictor: Evictor | None = None
    allowed_lateness: int = 0
    every_firing: bool = False
    pickled_state: bool = False
    fill: Fill | None = None
    listed_keys: ListedKeys | None = None
    per_key: bool = False

    @property
    def firing_trigger(self) -> Trigger:
        """The trigger, or the assigner's default."""
        return self.assigner.get_default_trigger() if self.trigger is None else self.trigger

    @property
    def merges(self) -> bool:
        return isinstance(self.assigner, MergingWindowAssigner)

    @property
    def uses_processing_time(self) -> bool:
        # The global window is independent of time.
        by_processing_time = not self.assigner.is_event_time and not isinstance(self.assigner, GlobalWindows)
        return by_processing_time or self.firing_trigger.uses_processing_time

    @property
    def sees_elements(self) -> bool:
        """True if anything but the function reads elements: a gap, custom windows, a trigger or an evictor."""
        triggers, gap = list(all_parts(self.firing_trigger)), getattr(self.assigner, "gap", None)
        ours = all(type(one).__module__.startswith("panestream.") for one in (self.assigner, *triggers))
        evicting = self.evictor is not None and type(self.evictor) not in (CountEvictor, TimeEvictor)
        looking = any(isinstance(one, DeltaTrigger) for one in triggers)
        return not ours or evicting or looking or (callable(gap) and not isinstance(gap, GapColumn))


@dataclass(frozen=True, slots=True)
class Top:
    """A filter that keeps the ``n`` rows with the largest ``by`` of each window; ties go to the smaller key."""

    n: int
    by: str


@dataclass(frozen=True, slots=True)
class Split:
    """The distribution of one key's rows over several key groups; its results are combined when a window fires.

    Attributes:
        parts: the number of parts per key.
        by: the expression whose value selects the part, one of the operator's inputs.
        together: for each result the way to combine its parts (``sum``, ``min`` or ``max``).
    """

    parts: int
    by: str
    together: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class WindowPlan:
    """The plan of a windowed query.

    Attributes:
        keys: the key columns as the user wrote them (names or SQL).
        key_schema: their names in the results and their types.
        event_time: the event time as the user wrote it, for errors. None if the clock is used instead.
        groups: the number of key groups.
        allowed_lateness: how long after its end a window still takes rows, in engine units.
        late_tag: the output for late rows, or None to count and drop them.
        invalid_tag: the output for rows without usable event time, or None to fail the query.
        side_outputs: the columns that window functions send to side outputs, by tag.
        row_schema: the input's columns if anything needs whole rows, or None.
        arrival: the user's columns (or SQL) for the order of arrival, with their types. None for Spark's order.
        processing_time: the column (or SQL) used as processing time, as the user wrote it. None for Spark's batch time.
        ticks: engine units per millisecond of Spark's clock (the engine is unit-free, Spark's windows count microseconds).
        with_firing, changelog: whether rows have the :data:`FIRING_COLUMNS` and the :data:`OP_COLUMN`.
        most_bytes: the limit of the rows held in memory at once, per window and per micro-batch of a key group.
        batch_bytes: the limit of a key group's rows in a batch, or None for no limit.
        rows_per_pane: how many rows of a key a pane of a batch has on average, or None if nobody knows.
        since: the event time before which rows belong to the history that the query started from and are left out, or None.
        ends: whether the query stops by itself after reading all input, so that it never waits for silence.
        constants: columns at the end of every main row, each with one fixed text.
    """

    keys: tuple[str, ...]
    key_schema: pa.Schema
    assigner: WindowAssigner
    operator: OperatorSpec
    watermark: WatermarkStrategy
    event_time: str | None
    groups: int
    allowed_lateness: int = 0
    late_tag: str | None = None
    invalid_tag: str | None = None
    way_out: str = WAY_OUT
    side_outputs: Mapping[str, pa.Schema] = field(default_factory=dict)
    row_schema: pa.Schema | None = field(default=None)
    arrival: pa.Schema | None = field(default=None)
    processing_time: str | None = None
    ticks: int = 1000
    split: Split | None = None
    top: Top | None = None
    with_firing: bool = False
    changelog: bool = False
    since: int | None = None
    most_bytes: int = MOST_BYTES
    batch_bytes: int | None = None
    rows_per_pane: int | None = None
    ends: bool = False
    sides: Sides | None = None
    pairs: Pairs | None = None
    constants: Mapping[str, str] = field(default_factory=dict)
    _identity: Mapping[str, str] | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        why_not = self.operator.capabilities.no_key_watermarks
        if self.watermark.of_keys is not None and why_not is not None:
            raise InvalidPlanError(f"{self.watermark!r}: {why_not}. Leave out per_key")

    @property
    def wakes_up(self) -> bool:
        """True if Spark must call the operator at due times even without new data."""
        waits = self.watermark.closes_after is not None and not self.ends
        return (self.operator.capabilities.uses_processing_time or waits) and self.processing_time is None

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags of all outputs, main first."""
        return (MAIN, *self.late_tags, *(tag for tag in self.invalid_tags if tag is not None), *self.side_outputs)

    @property
    def late_tags(self) -> tuple[str, ...]:
        """The outputs for late rows, one per input stream."""
        if self.late_tag is None:
            return ()
        return (self.late_tag,) if self.sides is None else self.sides.late_tags(self.late_tag)

    @property
    def invalid_tags(self) -> tuple[str | None, ...]:
        """The outputs for rows without usable event time, one per input stream; None for a stream that fails on such rows."""
        return (self.invalid_tag,) if self.sides is None else self.sides.invalid

    @property
    def carries_rows(self) -> bool:
        return carries_rows(self.operator, self.watermark, self.late_tag)

    @property
    def main_schema(self) -> pa.Schema:
        """The columns of the main rows that operators emit: keys, window, results, and the firing columns if requested."""
        columns = list(self.with_bounds(self.operator.result_schema))
        return pa.schema([*columns, *self._added])

    @property
    def added_names(self) -> frozenset[str]:
        """The main columns that identify a row and are not part of its content."""
        return frozenset(field.name for field in self._added)

    @property
    def _added(self) -> tuple[pa.Field, ...]:
        return (*(FIRING_COLUMNS if self.with_firing else ()), *((OP_COLUMN,) if self.changelog else ()))

    @property
    def keeps_emitted(self) -> bool:
        """True if the operator must remember what it emitted for windows that may fire again."""
        return (self.with_firing or self.changelog) and not self.operator.capabilities.fires_once

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of the kinds of windows; empty if there is only one kind."""
        return (
            self.assigner.labels if isinstance(self.assigner, SeveralWindows) and not self.operator.capabilities.per_row else ()
        )

    def with_bounds(self, results: pa.Schema) -> pa.Schema:
        """Return ``results`` after the key columns, the window's label (if any) and its bounds (null for the global window).

        Operators without windows, and those whose results belong to rows, get only the key columns and ``results``.
        """
        if self.operator.capabilities.per_row or not self.operator.capabilities.has_windows:
            return pa.schema([*self.key_schema, *results])
        instant = pa.timestamp("us", tz="UTC")
        ours = (MergingWindowAssigner, SeveralWindows, CalendarWindows, PredicateWindows)
        bounded = hasattr(self.assigner, "size") or isinstance(self.assigner, ours)
        label = [pa.field("window", pa.string(), nullable=False)] if self.labels else []
        bounds = [pa.field(name, instant, nullable=not bounded) for name in ("window_start", "window_end")]
        return pa.schema([*self.key_schema, *label, *bounds, *results])

    def output_schema(self, tag: str) -> pa.Schema:
        schema = self.emitted_schema(tag)
        return self.pairs.schema_of(schema) if self.pairs is not None and tag == MAIN else schema

    def emitted_schema(self, tag: str) -> pa.Schema:
        """Return the columns that operators emit for an output. The rows of a join are not yet paired at this point."""
        if tag == MAIN:
            return self.main_schema
        if tag in self.side_outputs:
            return self.with_bounds(self.side_outputs[tag])
        if self.sides is not None:
            of_left = tag in (*self.late_tags[:1], self.invalid_tags[0])
            return self.sides.left if of_left else self.sides.right
        if self.row_schema is None:
            raise RuntimeError(f"the plan has an output {tag!r} but no schema for it")
        return self.row_schema

    @property
    def window_names(self) -> tuple[str, ...]:
        return WINDOW_COLUMNS if self.labels else WINDOW_COLUMNS[1:]

    @property
    def key_names(self) -> tuple[str, ...]:
        return tuple(self.key_schema.names)

    def identity(self) -> Mapping[str, str]:
        """Return the properties that a checkpoint is tied to. Watermark strategy, lateness, tags, top and sinks may change."""
        if self._identity is None:
            # Cached, because every key group needs it in every micro-batch.
            object.__setattr__(self, "_identity", self._made_identity())
        assert self._identity is not None  # noqa: S101 - made above
        return self._identity

    def _made_identity(self) -> dict[str, str]:
        return {
            STATE_FORMAT: str(FORMAT_VERSION),
            "key": ", ".join(f"{text} ({key.type})" for text, key in zip(self.keys, self.key_schema, strict=True)) or "none",
            "windows": stable_repr(self.assigner),
            "event time": str(self.event_time),
            KEY_GROUPS: str(self.groups),
            "operator": self.operator.name,
            **self.operator.identity(),
            **({"split": f"{self.split.parts} parts by {self.split.by}"} if self.split is not None else {}),
            **({"watermark": "per key"} if self.watermark.of_keys is not None else {}),
            **({"emitted": "values" if self.changelog else "numbers"} if self.with_firing or self.changelog else {}),
        }


def carries_rows(operator: OperatorSpec, watermark: WatermarkStrategy, late_tag: str | None) -> bool:
    """Return whether every row crosses the exchange whole."""
    return late_tag is not None or operator.capabilities.takes_rows or watermark.generator is not None


def stable_repr(recipe: object) -> str:
    """Return a ``repr`` without memory addresses, which differ in every process.

    >>> stable_repr(len), stable_repr(lambda row: row.gap)
    ('<built-in function len>', '<function <lambda>>')
    """
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(recipe))


def check_identity(saved: Mapping[str, str], now: Mapping[str, str], where: str) -> None:
    """Raise PlanMismatchError if saved state belongs to another plan; list the differences, what may change and the way out."""
    changed = {name: (saved.get(name), now.get(name)) for name in sorted({*saved, *now}) if saved.get(name) != now.get(name)}
    if not changed:
        return
    # Users do not write partials, so they are hidden if the aggregates changed as well.
    shown = {name: each for name, each in changed.items() if name != "partials" or "aggregates" not in changed}
    lines = [f"  {name}: {then or '(absent)'}  ->  {new or '(absent)'}" for name, (then, new) in shown.items()]
    way = (
        "Start with the old plan, or on a new checkpoint: from a savepoint of the old one, as far as that can take over the "
        "change, or without its state. (The watermark strategy, output tags, top and sinks may change.)"
    )
    ways = [way]
    if KEY_GROUPS in changed and "none" not in (saved.get("key"), now.get("key")):
        ways.insert(
            0, f"The number of key groups is fixed when a checkpoint is born: .options(key_groups={saved.get(KEY_GROUPS)})."
        )
    text = f"{where} belongs to another plan. Changes (then -> now):\n" + "\n".join([*lines, *ways])
    raise PlanMismatchError(text, changed)


def check_taken_over(saved: Mapping[str, str], plan: WindowPlan) -> None:
    """Raise PlanMismatchError if a plan cannot take over saved state, judging by its identity. (The tables are checked later.)"""
    now, free = plan.identity(), {KEY_GROUPS, *plan.operator.changeable}
    # Saved tables have their own format, which does not depend on the format of stored state.
    names = sorted({*saved, *now} - free - {STATE_FORMAT})
    changed = {name: (saved.get(name), now.get(name)) for name in names if saved.get(name) != now.get(name)}
    if changed:
        lines = [f"  {name}: {then or '(absent)'}  ->  {new or '(absent)'}" for name, (then, new) in changed.items()]
        way = "Start with the old ones, or without saved state. (docs/how-to/savepoints.md lists the possible changes.)"
        if {"key", "event time"} & changed.keys():
            way += " Columns are identified by name. Rename a column back before the windows (.withColumnRenamed)."
        raise PlanMismatchError("\n".join(["the saved state belongs to another plan (then -> now):", *lines, way]), changed)


def _check_record(state: SealedState, plan: WindowPlan) -> None:
    """Refuse the meta record of another plan, whichever operator wrote it."""
    record = state.get("meta", 0)
    header = {} if record is None else decode(record)[1]
    saved = header.get("identity") or header.get("meta", {}).get("identity")
    if saved is not None:
        check_identity(saved, plan.identity(), "the checkpoint")


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows of one key group that are packed together.

    Attributes:
        values: the columns that :attr:`OperatorSpec.inputs` names, in that order.
        rows: the whole rows if :attr:`WindowPlan.carries_rows`, or None.
        never_late: whether no row can be late, as in a batch.
    """

    times: Int64s
    keys: list[pa.Array]
    values: list[pa.Array]
    rows: pa.Table | None = None
    never_late: bool = False


class Operator(Protocol):
    """One key group's operator for one micro-batch, created from the plan and the group's state and used once."""

    def process(self, batch: GroupInput) -> GroupOutput:
        """Process a micro-batch and return the output. This completes the state without a separate commit."""

    def tables(self) -> StateTables:
        """Return the state of the key group as tables."""

    def header(self) -> Mapping[str, Any]:
        """Return the header of :meth:`tables`, reading only the values of the space ``meta``."""

    def restore(self, saved: StateTables) -> int | None:
        """Write saved tables into the state of a new key group; return when the clock must wake it up."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The abilities and needs of an operator for the windows of a plan.

    Attributes:
        broadcasts: whether the rows of the right stream go to all key groups.
        takes_rows: whether the operator itself needs whole rows from the exchange, not only a late output.
        has_windows: whether main rows have the bounds of a window.
        per_row: whether each result belongs to a row, whose columns it has, and not to a window.
        order_sensitive: whether results depend on the order in which rows arrive, always or if event times are equal.
        fires_once: whether a window fires once, at the watermark, in the same micro-batch for all keys.
        fires_by_time: whether a window that gets no more rows is sure to fire by its end. None if user code decides.
        late_by_time: how far the watermark is past a row's own time when the row becomes late. None if its windows decide.
        late_rows: whether rows can be late at all.
        evicts: whether an evictor takes rows out of windows, so that the state no longer has them.
        no_firings: why rows cannot have firing columns, or None if they can.
        no_changelog: why rows cannot be changes of earlier ones, or None if they can.
        no_key_watermarks: why keys cannot have their own watermarks, or None if they can.
        uses_processing_time: whether processing time matters, so that Spark wakes the operator up without new rows.
        shows_processing_time: whether user code may read the processing time, even if the windows do not depend on it.
        follows_oldest: whether results depend on the earliest event time of the query, which reports then have.
        holds_from: the result column with the instant from which a row holds, until the next row of its key. None if rows belong
            to windows.
    """

    broadcasts: bool = False
    takes_rows: bool = False
    has_windows: bool = True
    per_row: bool = False
    order_sensitive: bool = True
    fires_once: bool = False
    fires_by_time: bool | None = True
    late_by_time: int | None = None
    late_rows: bool = True
    evicts: bool = False
    no_firings: str | None = None
    no_changelog: str | None = None
    no_key_watermarks: str | None = "columns have one watermark for all keys"
    uses_processing_time: bool = False
    shows_processing_time: bool = False
    holds_from: str | None = None
    follows_oldest: bool = False


def not_numbered(operator: str) -> str:
    """Return why an operator's rows cannot have firing columns."""
    return f"{operator} do not number firings: the row operator does, .options(every_firing=True) makes it run the query"


def not_kept(operator: str) -> str:
    """Return why an operator's rows are not changes of earlier ones."""
    others = "aligned windows and sessions of declared aggregates do"
    return f"{operator} do not keep results that a later result could replace: {others}"


class OperatorSpec(ABC):
    """The way in which the windows of a plan run. Immutable; it travels to the executors with the plan."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name that ``explain()`` shows."""

    @property
    @abstractmethod
    def capabilities(self) -> Capabilities:
        """The operator's abilities and needs."""

    @property
    @abstractmethod
    def result_schema(self) -> pa.Schema:
        """The columns of the main output after the keys and the window."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """The columns or SQL expressions whose values ``pack`` needs."""
        return ()

    @property
    def changeable(self) -> frozenset[str]:
        """The entries of :meth:`identity` and of the plan's identity that may differ when a query starts from saved state."""
        return frozenset()

    @abstractmethod
    def pack(self, plan: WindowPlan, chunk: Chunk) -> Iterator[tuple[str, pa.Table]]:
        """Yield the tables, with their kind, that cross the exchange and arrive in ``GroupInput.parts``, in order."""

    def pack_key_groups(self, plan: WindowPlan, chunk: Chunk, key_groups: Ints) -> list[tuple[int, str, pa.Table]] | None:
        """Return the tables of :meth:`pack` of all key groups, each with the number of its key group, in one pass over the rows.

        ``key_groups`` has the key group of each row. Return None if the rows must be split by key group first.
        """
        return None

    @abstractmethod
    def part_schema(self, plan: WindowPlan, kind: str) -> pa.Schema:
        """Return the columns of the tables of a kind."""

    def for_group(self, plan: WindowPlan, state: State, group: int) -> Operator:
        """Return the operator of key group number ``group``, whose ``state`` is sealed first.

        Raises:
            PlanMismatchError: the state belongs to another plan.
            StateDamagedError: the meta record is not what was last written.
            StateFormatError: another version of panestream wrote it.
        """
        sealed = SealedState(state, group, self.name)
        try:
            return self.on_sealed(plan, sealed, group)
        except PanestreamError:
            raise
        except Exception:
            # Another operator's meta record has another form. The owner of the record explains more than the place where the
            # reader failed.
            _check_record(sealed, plan)
            raise

    @abstractmethod
    def on_sealed(self, plan: WindowPlan, state: SealedState, group: int) -> Operator:
        """Return the operator on sealed state; each operator defines this."""

    @abstractmethod
    def views(self, plan: WindowPlan, saved: StateTables, group: int) -> StateViews:
        """Return open windows, kept elements, user states and timers. Missing tables or columns raise StateFormatError."""

    def reached(self, plan: WindowPlan, saved: StateTables) -> tuple[int, int]:
        """Return the watermark, and the last instant up to which windows are closed.

        If each key has its own watermark, they are those of the key whose rows ``saved`` has.
        """
        return saved.header["watermarks"]["watermark"], saved.header["closed"]

    @abstractmethod
    def identity(self) -> Mapping[str, str]:
        """Return what a checkpoint is tied to in addition to keys, windows, event time and key groups."""

    @abstractmethod
    def explain(self, plan: WindowPlan, *, streaming: bool) -> Mapping[str, list[str]]:
        """Return sections of ``explain()``: operator, and e.g. panes, aggregates, exchange, state."""
