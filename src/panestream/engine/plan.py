"""The frozen recipe of one windowed query: all that the exchange and an operator need, and nothing of Spark.

A :class:`WindowPlan` holds what all queries have (keys, event time, key groups, outputs) and one :class:`OperatorSpec`, which
knows the rest: how rows are packed for a kind of operator, what it runs, what comes out. The exchange, Spark and batch only ever
see these two.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from panestream.engine.kernels.slicing import Int64s
from panestream.engine.runtime.group_io import GroupInput, GroupOutput
from panestream.engine.runtime.sides import Pairs, Sides
from panestream.engine.storage.limits import MOST_BYTES
from panestream.engine.storage.payload import FORMAT_VERSION, decode
from panestream.engine.storage.sealed_state import SealedState
from panestream.engine.storage.state import State
from panestream.engine.storage.state_tables import StateTables, StateViews
from panestream.errors import PanestreamError, PlanMismatchError
from panestream.windowing.assigners import CalendarWindows, MergingWindowAssigner, PredicateWindows, WindowAssigner
from panestream.windowing.assigners.several import SeveralWindows
from panestream.windowing.watermarks import WatermarkStrategy

STATE_FORMAT = "state format"
"""What the identity of a plan calls the format in which state rests."""
KEY_GROUPS = "key groups"
"""What the identity of a plan calls the number of them."""
MAIN = "main"
"""The tag of the windows' results."""
EARLY, ON_TIME, LATE = FIRINGS = ("early", "on_time", "late")
"""When a window fired: before its end, when time reached its end, after it."""
FIRING_COLUMNS = (
    pa.field("firing", pa.string(), nullable=False),
    pa.field("firing_number", pa.int64(), nullable=False),
    pa.field("is_last", pa.bool_(), nullable=False),
)
"""Which firing a row comes from; its number for this key and window, from 0; whether no other can follow."""
INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = OPS = ("insert", "update_before", "update_after", "delete")
WAY_OUT = "Filter such rows out, or route them to an output of their own with .side_output_invalid(tag)"
"""What to do about rows without usable event time."""
OP_COLUMN = pa.field("op", pa.string(), nullable=False)
"""What a row of a changelog is: a new one; the old or the new state of one that changed; one that is gone."""
WINDOW_COLUMNS = ("window", "window_start", "window_end")
"""The window's columns in the results; ``window`` only where there are several kinds."""
RESERVED = ("window_start", "window_end", "rank", "batch_id")
"""Columns of results: no key and no result of the user's can be called so."""


@dataclass(frozen=True, slots=True)
class Top:
    """Of each window, only the ``n`` rows with the largest ``by``; ties go to the smaller key."""

    n: int
    by: str


@dataclass(frozen=True, slots=True)
class Split:
    """The rows of a key lie in several key groups, by the value of ``by``; its results are put together when a window fires.

    Attributes:
        parts: how many parts a key has.
        by: the expression whose values decide, one of the operator's inputs.
        together: for each result how those of the parts become one: ``sum``, ``min`` or ``max``.
    """

    parts: int
    by: str
    together: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class WindowPlan:
    """What one windowed query does.

    Attributes:
        keys: the key columns as users wrote them (names or SQL).
        key_schema: their names in the results and their types.
        assigner: the windows.
        operator: how they run.
        watermark: the strategy.
        event_time: the event time as the user wrote it, for errors; None: there is none, the clock stands in for it.
        groups: the number of key groups.
        allowed_lateness: how long after its end a window still takes rows, in engine units.
        late_tag, invalid_tag: where late rows and rows without event time go; None: counted, or an error.
        way_out: what to do about rows without event time, for the error.
        side_outputs: the columns of what window functions send to side outputs, by tag.
        row_schema: the input's columns, where anything wants whole rows; else None.
        arrival: the columns (or SQL) that say in which order rows arrive, as the user wrote them, and their types; None: as Spark
            has them.
        processing_time: the column (or SQL) that stands in for processing time, as the user wrote it; None: Spark's batch time.
        ticks: how many engine units a millisecond of Spark's clock has (the engine is unit-free, Spark's windows count
            microseconds).
        split: how the rows of a key are spread over key groups, or None: each key lies in one.
        top: keep only the largest rows of each window, or None.
        with_firing: whether each row says which firing of its window it comes from.
        changelog: whether the rows are changes: each says what becomes of the row before it.
        most_bytes: no more bytes of rows are taken into memory at once, of a window or of a key group's micro-batch.
        batch_bytes: the same of what a batch has for a key group; None: as many as there are.
        since: rows with an event time before this are in the history that the query started from, and left out; None: none are.
        ends: whether the query ends by itself when it has read all there is: then it waits for no silence.
        sides: the two streams that the input is made of, or None: it is one.
        pairs: what a join makes of the rows of a window, or None.
        constants: columns that every row of the main output has last, with one text each.
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
    ends: bool = False
    sides: Sides | None = None
    pairs: Pairs | None = None
    constants: Mapping[str, str] = field(default_factory=dict)
    _identity: Mapping[str, str] | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def wakes_up(self) -> bool:
        """Whether Spark must call the operator when its time has come, without new data."""
        waits = self.watermark.closes_after is not None and not self.ends
        return (self.operator.capabilities.uses_processing_time or waits) and self.processing_time is None

    @property
    def tags(self) -> tuple[str, ...]:
        """The outputs of the query, main first."""
        return (MAIN, *self.late_tags, *(tag for tag in self.invalid_tags if tag is not None), *self.side_outputs)

    @property
    def late_tags(self) -> tuple[str, ...]:
        """The outputs for late rows: of two streams one for each."""
        if self.late_tag is None:
            return ()
        return (self.late_tag,) if self.sides is None else self.sides.late_tags(self.late_tag)

    @property
    def invalid_tags(self) -> tuple[str | None, ...]:
        """The outputs for rows without usable event time: of two streams one for each, where it has one."""
        return (self.invalid_tag,) if self.sides is None else self.sides.invalid

    @property
    def carries_rows(self) -> bool:
        """Whether every row crosses the exchange whole."""
        return carries_rows(self.operator, self.watermark, self.late_tag)

    @property
    def main_schema(self) -> pa.Schema:
        """What operators emit as main rows: keys, the window, results, and what was asked for of the firing."""
        columns = list(self.with_bounds(self.operator.result_schema))
        return pa.schema([*columns, *self._added])

    @property
    def added_names(self) -> frozenset[str]:
        """Columns of the main output that say which row it is, not what is in it."""
        return frozenset(field.name for field in self._added)

    @property
    def _added(self) -> tuple[pa.Field, ...]:
        return (*(FIRING_COLUMNS if self.with_firing else ()), *((OP_COLUMN,) if self.changelog else ()))

    @property
    def keeps_emitted(self) -> bool:
        """Whether the operator must remember what it emitted for windows that may fire again."""
        return (self.with_firing or self.changelog) and not self.operator.capabilities.fires_once

    @property
    def labels(self) -> tuple[str, ...]:
        """What several kinds of windows are called; empty where there is one kind."""
        return (
            self.assigner.labels if isinstance(self.assigner, SeveralWindows) and not self.operator.capabilities.per_row else ()
        )

    def with_bounds(self, results: pa.Schema) -> pa.Schema:
        """Key columns, the window's label if it has one, window_start, window_end (null for the global window), ``results``.

        Of what has no windows, and of results of rows, which are told by these: key columns and ``results``.
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
        """The columns of one output."""
        schema = self.emitted_schema(tag)
        return self.pairs.schema_of(schema) if self.pairs is not None and tag == MAIN else schema

    def emitted_schema(self, tag: str) -> pa.Schema:
        """The columns of what operators emit for one output: of a join the rows of a window are not yet pairs."""
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
        """The window's columns' names in the results."""
        return WINDOW_COLUMNS if self.labels else WINDOW_COLUMNS[1:]

    @property
    def key_names(self) -> tuple[str, ...]:
        """The key columns' names in the results."""
        return tuple(self.key_schema.names)

    def identity(self) -> Mapping[str, str]:
        """What a checkpoint is tied to. Watermark strategy, lateness, tags, top and sinks are free to change."""
        if self._identity is None:
            # It is wanted by every key group in every micro-batch, and made once.
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
            **({"emitted": "values" if self.changelog else "numbers"} if self.with_firing or self.changelog else {}),
        }


def carries_rows(operator: OperatorSpec, watermark: WatermarkStrategy, late_tag: str | None) -> bool:
    """Whether every row of such a plan crosses the exchange whole."""
    return late_tag is not None or operator.capabilities.takes_rows or watermark.generator is not None


def stable_repr(recipe: object) -> str:
    """A ``repr`` without addresses, which differ in every process.

    >>> stable_repr(len), stable_repr(lambda row: row.gap)
    ('<built-in function len>', '<function <lambda>>')
    """
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(recipe))


def check_identity(saved: Mapping[str, str], now: Mapping[str, str], where: str) -> None:
    """Refuses to go on with the state of another plan.

    Raises:
        PlanMismatchError: naming every difference, what may change, and what to do.
    """
    changed = {name: (saved.get(name), now.get(name)) for name in sorted({*saved, *now}) if saved.get(name) != now.get(name)}
    if not changed:
        return
    # What aggregates keep is nothing that a user wrote.
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
    text = f"{where} belongs to another plan. What changed (then -> now):\n" + "\n".join([*lines, *ways])
    raise PlanMismatchError(text, changed)


def check_taken_over(saved: Mapping[str, str], plan: WindowPlan) -> None:
    """Refuses saved state that a plan cannot take over, as far as its identity says. (The rest is found in the tables.)

    Raises:
        PlanMismatchError: naming every difference that cannot be, and what to do.
    """
    now, free = plan.identity(), {KEY_GROUPS, *plan.operator.changeable}
    # Tables have a format of their own, and nothing of that in which state rests.
    names = sorted({*saved, *now} - free - {STATE_FORMAT})
    changed = {name: (saved.get(name), now.get(name)) for name in names if saved.get(name) != now.get(name)}
    if changed:
        lines = [f"  {name}: {then or '(absent)'}  ->  {new or '(absent)'}" for name, (then, new) in changed.items()]
        way = "Start with the old ones, or without saved state. (What may change, and what may not: docs/how-to/savepoints.md.)"
        if {"key", "event time"} & changed.keys():
            way += " Columns are known by their names: rename one back before the windows (.withColumnRenamed)."
        raise PlanMismatchError("\n".join(["the saved state belongs to another plan (then -> now):", *lines, way]), changed)


def _check_record(state: SealedState, plan: WindowPlan) -> None:
    """Refuses the meta record of another plan, whichever operator wrote it."""
    record = state.get("meta", 0)
    header = {} if record is None else decode(record)[1]
    saved = header.get("identity") or header.get("meta", {}).get("identity")
    if saved is not None:
        check_identity(saved, plan.identity(), "the checkpoint")


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows of one key group, as many as are packed at once.

    Attributes:
        times: their event times.
        keys: the key columns, with the plan's types.
        values: the columns that :attr:`OperatorSpec.inputs` names, in that order.
        rows: the whole rows, where :attr:`WindowPlan.carries_rows`; else None.
    """

    times: Int64s
    keys: list[pa.Array]
    values: list[pa.Array]
    rows: pa.Table | None = None


class Operator(Protocol):
    """One key group's operator for one micro-batch: made from the plan and the group's state, used once."""

    def process(self, batch: GroupInput) -> GroupOutput:
        """Takes in a micro-batch; returns what it emits. The state is then complete: there is no separate commit."""

    def tables(self) -> StateTables:
        """What the key group keeps, as tables."""

    def header(self) -> Mapping[str, Any]:
        """The header of :meth:`tables`. It takes the values of the space ``meta`` alone."""

    def restore(self, saved: StateTables) -> int | None:
        """Writes the state that tables say, of a key group that is new; returns when it is to be woken up by the clock."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What an operator can do with the windows of a plan, and what it needs.

    Attributes:
        takes_rows: whether whole rows cross the exchange because the operator itself wants them, not only for a late output.
        has_windows: whether rows of the main output have the bounds of a window.
        per_row: whether each result belongs to a row, whose columns it has, and not to a window.
        order_sensitive: whether results depend on the order in which rows arrive, always or if event times are equal.
        fires_once: whether a window fires once, at the watermark, in the same micro-batch for all keys.
        fires_by_time: whether a window that gets no more rows is sure to fire by its end. None if user code decides.
        late_by_time: how far the watermark is past a row's own time when the row becomes late. None if its windows decide.
        evicts: whether an evictor takes rows out of windows, so that the state no longer has them.
        no_firings: why rows cannot say which firing of their window they come from, or None if they can.
        no_changelog: why rows cannot be changes of earlier ones, or None if they can.
        uses_processing_time: whether processing time matters, so that Spark wakes the operator up without new rows.
        shows_processing_time: whether user code may ask for the processing time, whether or not the windows depend on it.
    """

    takes_rows: bool = False
    has_windows: bool = True
    per_row: bool = False
    order_sensitive: bool = True
    fires_once: bool = False
    fires_by_time: bool | None = True
    late_by_time: int | None = None
    evicts: bool = False
    no_firings: str | None = None
    no_changelog: str | None = None
    uses_processing_time: bool = False
    shows_processing_time: bool = False


def not_numbered(operator: str) -> str:
    """Return why an operator's rows do not say which firing they come from."""
    return f"{operator} do not number firings: the row operator does, .options(every_firing=True) makes it run the query"


def not_kept(operator: str) -> str:
    """Return why an operator's rows are not changes of earlier ones."""
    others = "aligned windows and sessions of declared aggregates do"
    return f"{operator} keep no results that a later one could take the place of: {others}"


class OperatorSpec(ABC):
    """How the windows of one plan run. Immutable; travels to the executors with the plan."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What ``explain()`` calls it."""

    @property
    @abstractmethod
    def capabilities(self) -> Capabilities:
        """What it can do, and what it needs."""

    @property
    @abstractmethod
    def result_schema(self) -> pa.Schema:
        """The columns of the main output after the keys and the window."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """The columns or SQL expressions whose values ``pack`` must be given."""
        return ()

    @property
    def changeable(self) -> frozenset[str]:
        """What of :meth:`identity` and of the plan's own may be another one when the query starts from saved state."""
        return frozenset()

    @abstractmethod
    def pack(self, plan: WindowPlan, chunk: Chunk) -> Iterator[tuple[str, pa.Table]]:
        """What crosses the exchange for some rows: tables by kind; they come back in ``GroupInput.parts``, in order."""

    @abstractmethod
    def part_schema(self, plan: WindowPlan, kind: str) -> pa.Schema:
        """The columns of the tables of one kind."""

    def for_group(self, plan: WindowPlan, state: State, group: int) -> Operator:
        """The operator of key group number ``group``.

        Args:
            plan: the query.
            state: the key group's store, which gets sealed values (:mod:`panestream.engine.storage.sealed_state`).
            group: its number.

        Raises:
            PlanMismatchError: the state belongs to another plan.
            StateDamagedError: its meta record is not what was last written.
            StateFormatError: another version of panestream wrote it.
        """
        sealed = SealedState(state, group, self.name)
        try:
            return self.on_sealed(plan, sealed, group)
        except PanestreamError:
            raise
        except Exception:
            # The meta record of another operator has another form: whose it is says more than where its reader stumbled.
            _check_record(sealed, plan)
            raise

    @abstractmethod
    def on_sealed(self, plan: WindowPlan, state: SealedState, group: int) -> Operator:
        """The same on values that are sealed: what each operator defines."""

    @abstractmethod
    def views(self, plan: WindowPlan, saved: StateTables, group: int) -> StateViews:
        """What is shown of the state of key group number ``group``: open windows, kept elements, users' states, timers.

        Raises:
            StateFormatError: a table or a column is missing.
        """

    @abstractmethod
    def identity(self) -> Mapping[str, str]:
        """What a checkpoint is tied to, besides keys, windows, event time and key groups."""

    @abstractmethod
    def explain(self, plan: WindowPlan, *, streaming: bool) -> Mapping[str, list[str]]:
        """Sections of ``explain()``: operator, and e.g. panes, aggregates, exchange, state."""
