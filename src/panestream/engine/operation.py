"""What a kind of operator is to the rest: how rows are packed for it, what it runs, what comes out.

A :class:`WindowPlan` holds what all queries have (keys, event time, key groups, outputs) and one :class:`Operation`, which
knows the rest. The exchange, Spark and batch only ever see the operation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from panestream.engine.operators.base import GroupInput, GroupOutput
from panestream.engine.seal import SealedState
from panestream.engine.slicing import Int64s

if TYPE_CHECKING:
    from panestream.engine.plan import WindowPlan
    from panestream.engine.state import State


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows of one key group, as many as are packed at once.

    Attributes:
        times: their event times.
        keys: the key columns, with the plan's types.
        values: the columns that :attr:`Operation.inputs` names, in that order.
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


class Operation(ABC):
    """How the windows of one plan run. Immutable; travels to the executors with the plan."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What ``explain()`` calls it."""

    @property
    @abstractmethod
    def result_schema(self) -> pa.Schema:
        """The columns of the main output after the keys and the window."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """The columns or SQL expressions whose values ``pack`` must be given."""
        return ()

    @property
    def takes_rows(self) -> bool:
        """Whether whole rows cross the exchange because the operator itself wants them (not only for a late output)."""
        return False

    @property
    def follows_arrival(self) -> bool:
        """Whether results depend on the order in which rows arrive, altogether or where event times are equal."""
        return True

    @property
    def fires_once(self) -> bool:
        """Whether a window fires once, at the watermark, in the same micro-batch for all keys."""
        return False

    @property
    def why_no_firings(self) -> str | None:
        """Why it cannot say which firing of its window a row comes from, nor what it changes; None: it can."""
        return f"{self.name} do not number firings: the row operator does, .exact_firings() makes it run the query"

    @property
    def why_no_changes(self) -> str | None:
        """Why its rows cannot be taken for changes of those before them; None: they can."""
        return self.why_no_firings

    @property
    def uses_clock(self) -> bool:
        """Whether processing time matters: then Spark wakes the operator up without new data."""
        return False

    @property
    def shows_clock(self) -> bool:
        """Whether users' code may ask for the processing time, whether or not the windows depend on it."""
        return self.uses_clock

    @abstractmethod
    def pack(self, plan: WindowPlan, chunk: Chunk) -> Iterator[tuple[str, pa.Table]]:
        """What crosses the exchange for some rows: tables by kind; they come back in ``GroupInput.parts``, in order."""

    @abstractmethod
    def part_schema(self, plan: WindowPlan, kind: str) -> pa.Schema:
        """The columns of the tables of one kind."""

    def operator(self, plan: WindowPlan, state: State, group: int) -> Operator:
        """The operator of key group number ``group``.

        Args:
            plan: the query.
            state: the key group's store, which gets sealed values (:mod:`panestream.engine.seal`).
            group: its number.

        Raises:
            PlanMismatchError: the state belongs to another plan.
            StateDamagedError: its meta record is not what was last written.
            StateFormatError: another version of panestream wrote it.
        """
        return self.on_sealed(plan, SealedState(state, group, self.name), group)

    @abstractmethod
    def on_sealed(self, plan: WindowPlan, state: SealedState, group: int) -> Operator:
        """The same on values that are sealed: what each operation defines."""

    @abstractmethod
    def identity(self) -> Mapping[str, str]:
        """What a checkpoint is tied to, besides keys, windows, event time and key groups."""

    @abstractmethod
    def explain(self, plan: WindowPlan, *, streaming: bool) -> Mapping[str, list[str]]:
        """Sections of ``explain()``: operator, and e.g. panes, aggregates, exchange, state."""
