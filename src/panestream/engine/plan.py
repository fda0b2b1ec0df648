"""The frozen recipe of one windowed query: all that the exchange and an operator need, and nothing of Spark."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from panestream.engine.operation import Operation
from panestream.engine.payload import FORMAT_VERSION
from panestream.errors import PlanMismatchError
from panestream.windowing.assigners import MergingWindowAssigner, SeveralWindows, WindowAssigner
from panestream.windowing.watermarks import WatermarkStrategy

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
RESERVED = ("window_start", "window_end", "rank", "batch_id")
"""Columns of results: no key and no result of the user's can be called so."""


KEY_GROUPS = "key groups"
"""What the identity of a plan calls the number of them."""


@dataclass(frozen=True, slots=True)
class Top:
    """Of each window, only the ``n`` rows with the largest ``by``; ties go to the smaller key."""

    n: int
    by: str


@dataclass(frozen=True, slots=True)
class WindowPlan:
    """What one windowed query does.

    Attributes:
        keys: the key columns as users wrote them (names or SQL).
        key_schema: their names in the results and their types.
        assigner: the windows.
        operation: how they run.
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
        clock: the column (or SQL) that stands in for processing time, as the user wrote it; None: Spark's batch time.
        ticks: how many engine units a millisecond of Spark's clock has (the engine is unit-free, Spark's windows count
            microseconds).
        top: keep only the largest rows of each window, or None.
        with_firing: whether each row says which firing of its window it comes from.
        changelog: whether the rows are changes: each says what becomes of the row before it.
    """

    keys: tuple[str, ...]
    key_schema: pa.Schema
    assigner: WindowAssigner
    operation: Operation
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
    clock: str | None = None
    ticks: int = 1000
    top: Top | None = None
    with_firing: bool = False
    changelog: bool = False

    @property
    def wakes_up(self) -> bool:
        """Whether Spark must call the operator when its time has come, without new data."""
        return self.operation.uses_clock and self.clock is None

    @property
    def tags(self) -> tuple[str, ...]:
        """The outputs of the query, main first."""
        return (MAIN, *(tag for tag in (self.late_tag, self.invalid_tag) if tag is not None), *self.side_outputs)

    @property
    def carries_rows(self) -> bool:
        """Whether every row crosses the exchange whole."""
        return self.late_tag is not None or self.operation.takes_rows or self.watermark.generator is not None

    @property
    def main_schema(self) -> pa.Schema:
        """The columns of the main output: keys, the window, results, and what was asked for of the firing."""
        columns = list(self.with_bounds(self.operation.result_schema))
        if self.with_firing:
            columns += FIRING_COLUMNS
        if self.changelog:
            columns.append(OP_COLUMN)
        return pa.schema(columns)

    @property
    def keeps_emitted(self) -> bool:
        """Whether the operator must remember what it emitted for windows that may fire again."""
        return (self.with_firing or self.changelog) and not self.operation.fires_once

    @property
    def labels(self) -> tuple[str, ...]:
        """What several kinds of windows are called; empty where there is one kind."""
        return self.assigner.labels if isinstance(self.assigner, SeveralWindows) else ()

    def with_bounds(self, results: pa.Schema) -> pa.Schema:
        """Key columns, the window's label if it has one, window_start, window_end (null for the global window), ``results``."""
        instant = pa.timestamp("us", tz="UTC")
        bounded = hasattr(self.assigner, "size") or isinstance(self.assigner, (MergingWindowAssigner, SeveralWindows))
        label = [pa.field("window", pa.string(), nullable=False)] if self.labels else []
        bounds = [pa.field(name, instant, nullable=not bounded) for name in ("window_start", "window_end")]
        return pa.schema([*self.key_schema, *label, *bounds, *results])

    def output_schema(self, tag: str) -> pa.Schema:
        """The columns of one output."""
        if tag == MAIN:
            return self.main_schema
        if tag in self.side_outputs:
            return self.with_bounds(self.side_outputs[tag])
        if self.row_schema is None:
            raise RuntimeError(f"the plan has an output {tag!r} but no schema for it")
        return self.row_schema

    @property
    def key_names(self) -> tuple[str, ...]:
        """The key columns' names in the results."""
        return tuple(self.key_schema.names)

    def identity(self) -> dict[str, str]:
        """What a checkpoint is tied to. Watermark strategy, lateness, tags, top and sinks are free to change."""
        return {
            "state format": str(FORMAT_VERSION),
            "key": ", ".join(f"{text} ({key.type})" for text, key in zip(self.keys, self.key_schema, strict=True)) or "none",
            "windows": stable_repr(self.assigner),
            "event time": str(self.event_time),
            KEY_GROUPS: str(self.groups),
            "operator": self.operation.name,
            **self.operation.identity(),
            **({"emitted": "values" if self.changelog else "numbers"} if self.with_firing or self.changelog else {}),
        }


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
    lines = [f"  {name}: {then or '(absent)'}  ->  {new or '(absent)'}" for name, (then, new) in changed.items()]
    ways = ["Start with the old plan, or on a new checkpoint. (The watermark strategy, output tags, top and sinks may change.)"]
    if KEY_GROUPS in changed and "none" not in (saved.get("key"), now.get("key")):
        ways.insert(0, f"The number of key groups is fixed when a checkpoint is born: .key_groups({saved.get(KEY_GROUPS)}).")
    text = f"{where} belongs to another plan. What changed (then -> now):\n" + "\n".join([*lines, *ways])
    raise PlanMismatchError(text, changed)
