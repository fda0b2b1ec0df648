"""Placeholders for user code that cannot be imported, so that state can be inspected without it.

Calling a placeholder raises an error with the name of the missing function.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import pyarrow as pa

from panestream.engine.kernels.columns import Ints
from panestream.engine.operators.accumulating.windowed_rows import Now, OverRows, Results, WindowedRows
from panestream.errors import InvalidPlanError
from panestream.windowing.aggregate_function import AggregateFunction
from panestream.windowing.aggregates import ColumnAggregate
from panestream.windowing.assigners import MergingWindowAssigner, WindowAssigner
from panestream.windowing.evictors import Elements, Evictor, EvictorContext
from panestream.windowing.functions import WindowFunction
from panestream.windowing.triggers import Trigger, TriggerContext, TriggerResult
from panestream.windowing.watermarks import WatermarkGenerator, WatermarkOutput
from panestream.windowing.windows import TimeWindow, Window


def _missing(name: str) -> NoReturn:
    raise InvalidPlanError(f"the plan was read from a checkpoint, which has no code of {name}: state can be looked at, not run")


@dataclass(frozen=True)
class AbsentAssigner(WindowAssigner):
    """A user's assigner."""

    described: str
    event_time: bool

    @property
    def is_event_time(self) -> bool:
        return self.event_time

    def assign_windows(self, element: Any, timestamp: int, processing_time: int) -> Sequence[Window]:
        _missing(self.described)

    def __repr__(self) -> str:
        return self.described


@dataclass(frozen=True, repr=False)
class AbsentMergingAssigner(AbsentAssigner, MergingWindowAssigner):
    """A user's assigner whose windows merge."""

    def merge_windows(self, windows: Sequence[TimeWindow]) -> Iterable[tuple[TimeWindow, Sequence[TimeWindow]]]:
        _missing(self.described)


@dataclass(frozen=True)
class AbsentTrigger(Trigger):
    """A user's trigger."""

    described: str
    processing_time: bool

    @property
    def uses_processing_time(self) -> bool:
        return self.processing_time

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        _missing(self.described)

    def on_event_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        _missing(self.described)

    def on_processing_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        _missing(self.described)

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Window, ctx: Any) -> None:
        _missing(self.described)

    def clear(self, window: Window, ctx: TriggerContext) -> None:
        _missing(self.described)

    def __repr__(self) -> str:
        return self.described


@dataclass(frozen=True)
class AbsentEvictor(Evictor):
    """A user's evictor."""

    described: str

    def evict_before(self, elements: Elements, size: int, window: Window, ctx: EvictorContext) -> Elements:
        _missing(self.described)

    def __repr__(self) -> str:
        return self.described


class AbsentAggregate(AggregateFunction):
    """A user's aggregate function with its class name, by which its accumulators are found."""

    def create_accumulator(self) -> Any:
        return None

    def add(self, value: Any, accumulator: Any) -> Any:
        _missing(type(self).__qualname__)

    def get_result(self, accumulator: Any) -> Any:
        _missing(type(self).__qualname__)

    def merge(self, a: Any, b: Any) -> Any:
        _missing(type(self).__qualname__)


def absent_aggregate(name: str) -> AggregateFunction:
    """Return the placeholder for an aggregate function with this class name."""
    made: AggregateFunction = type(name, (AbsentAggregate,), {"__qualname__": name})()
    return made


def absent_reduce(_one: Any, _other: Any) -> Any:
    """Stand in for a user's reduce function."""
    _missing("the reduce function")


class AbsentColumnAggregate(ColumnAggregate):
    """A user's columnar aggregate; ``described`` is its ``repr``, by which its partials are found."""

    def __init__(self, described: str, partial_type: pa.DataType, result_type: pa.DataType) -> None:
        self._described = described
        self.partial_type = partial_type  # type: ignore[misc]
        self.result_type = result_type  # type: ignore[misc]

    def partial(self, values: Sequence[pa.Array], group: Ints, groups: int) -> Any:
        _missing(self._described)

    def merge(self, partial: pa.Array, group: Ints, groups: int) -> Any:
        _missing(self._described)

    def final(self, partial: pa.Array) -> Any:
        _missing(self._described)

    def __repr__(self) -> str:
        return self._described


@dataclass(frozen=True)
class AbsentFunction(WindowFunction):
    """A user's window function."""

    described: str

    def apply(self, key: Any, window: Window, inputs: Sequence[Any]) -> Iterable[Any]:
        _missing(self.described)

    def __repr__(self) -> str:
        return self.described


@dataclass(frozen=True, slots=True)
class AbsentOverRows(OverRows):
    """A user's function over the rows of windows."""

    name: str

    @property
    def described(self) -> str:
        return self.name

    def results(self, windows: WindowedRows, schema: pa.Schema, now: Now) -> Results:
        _missing(self.name)


class AbsentGenerator(WatermarkGenerator):
    """A user's watermark generator."""

    def on_event(self, element: Any, timestamp: int, output: WatermarkOutput) -> None:
        _missing("the watermark generator")


__all__ = [
    "AbsentAggregate",
    "AbsentAssigner",
    "AbsentColumnAggregate",
    "AbsentEvictor",
    "AbsentFunction",
    "AbsentGenerator",
    "AbsentMergingAssigner",
    "AbsentOverRows",
    "AbsentTrigger",
    "absent_aggregate",
    "absent_reduce",
]
