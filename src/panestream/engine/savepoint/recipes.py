"""Recipes as JSON: assigners, triggers, evictors, aggregates and strategies by class and fields, types as Arrow bytes.

User classes, and recipes that contain user functions, are written by name only and read as placeholders, so that state can be
inspected without the code. Calling a placeholder raises an error with the name of the missing function. Names of classes and
fields are part of the format of saved plans.
"""

from __future__ import annotations

import math
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from decimal import Decimal
from typing import Any, NoReturn

import pyarrow as pa

from panestream.engine.aggregates.saved_partials import KeptPartial
from panestream.engine.aggregates.two_phase import InTwoPhases
from panestream.engine.kernels.columns import Ints
from panestream.engine.operators.accumulating.windowed_rows import Now, OverRows, Results, WindowedRows
from panestream.engine.plan import Split, Top, stable_repr
from panestream.engine.runtime.sides import Pairs, Sides
from panestream.errors import InvalidPlanError, StateFormatError
from panestream.windowing import aggregates, assigners, evictors, triggers
from panestream.windowing.aggregate_function import AggregateFunction
from panestream.windowing.aggregates import ColumnAggregate, User
from panestream.windowing.assigners import MergingWindowAssigner, WindowAssigner, WindowStagger
from panestream.windowing.assigners.base import SeveralWindows
from panestream.windowing.assigners.session import GapColumn, LimitedEventTimeSessionWindows
from panestream.windowing.evictors import Elements, Evictor, EvictorContext
from panestream.windowing.fill import Fill
from panestream.windowing.functions import WindowFunction
from panestream.windowing.process_functions import KeyedProcessContext, KeyedProcessFunction
from panestream.windowing.triggers import Trigger, TriggerContext, TriggerResult
from panestream.windowing.watermarks import WatermarkGenerator, WatermarkOutput, WatermarkStrategy
from panestream.windowing.windows import TimeWindow, Window


def _missing(name: str) -> NoReturn:
    raise InvalidPlanError(
        f"the plan was read from a checkpoint, which does not contain the code of {name}. You can inspect "
        f"its state, but not run it"
    )


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


@dataclass(frozen=True, repr=False)
class AbsentProcess(KeyedProcessFunction):
    """A user's keyed process function."""

    described: str
    processing_time: bool

    @property
    def uses_processing_time(self) -> bool:
        return self.processing_time

    def process_element(self, value: Any, ctx: KeyedProcessContext) -> Iterable[Any] | None:
        _missing(self.described)

    def on_timer(self, timestamp: int, ctx: KeyedProcessContext) -> Iterable[Any] | None:
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


_ROOMS = (aggregates, assigners, evictors, triggers)
_OTHERS: tuple[type, ...] = (
    Fill,
    GapColumn,
    KeptPartial,
    LimitedEventTimeSessionWindows,
    Pairs,
    SeveralWindows,
    Sides,
    Split,
    Top,
    WatermarkStrategy,
)
KNOWN: Mapping[str, type] = {
    **{
        name: found
        for room in _ROOMS
        for name in room.__all__
        if isinstance(found := getattr(room, name), type) and is_dataclass(found)
    },
    **{one.__name__: one for one in _OTHERS},
}
"""The classes that are written by their fields."""


class _AbsentError(Exception):
    """A part of a recipe is user code."""


def recipe_json(value: Any) -> Any:
    """Return a recipe, or a value contained in recipes, as JSON values."""
    try:
        return _written(value)
    except _AbsentError:
        return _named(value)


def _written(value: Any) -> Any:
    simple = _simple(value)
    if simple is not None or value is None:
        return simple
    if isinstance(value, (tuple, list)):
        return {"tuple": [_written(item) for item in value]}
    if isinstance(value, Mapping):
        return {"map": [[_written(key), _written(item)] for key, item in value.items()]}
    if isinstance(value, (User, InTwoPhases)):
        return _of_users(value)
    kind = type(value)
    if KNOWN.get(kind.__name__) is not kind:
        raise _AbsentError
    own = {field.name: getattr(value, field.name) for field in fields(value) if field.init}
    if isinstance(value, WatermarkStrategy):
        # The generator is omitted; the strategy remains readable.
        own["generator"] = own["generator"] is not None
    return {"is": kind.__name__, **{name: _written(part) for name, part in own.items()}}


def _simple(value: Any) -> Any:
    """Return a scalar as JSON, or None for other values."""
    if isinstance(value, (bool, int, str)) and not isinstance(value, WindowStagger):
        return str(value) if isinstance(value, str) else value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, Decimal):
        return {"decimal": str(value)}
    if isinstance(value, pa.Schema):
        return {"schema": schema_text(value)}
    if isinstance(value, pa.DataType):
        return {"type": schema_text(pa.schema([("", value)]))}
    return {"stagger": value.name} if isinstance(value, WindowStagger) else None


def _of_users(value: User | InTwoPhases) -> dict[str, Any]:
    """Return an aggregate with user code as its stored types and its name."""
    own: dict[str, Any]
    if isinstance(value, User):
        own = {"partial_type": value.written.partial_type, "result_type": value.written.result_type, "exprs": value.exprs}
        own["written"] = stable_repr(value.written)
    else:
        own = {"rows": value.rows, "accumulators": value.accumulators, "results": value.results}
        own["written"] = type(value.written).__qualname__ if isinstance(value.written, AggregateFunction) else None
    own["output_name"] = value.output_name
    return {"is": type(value).__name__, **{name: _written(part) for name, part in own.items()}}


def _named(value: Any) -> dict[str, Any]:
    """Return user code by name, with its required properties."""
    told: dict[str, Any] = {"absent": stable_repr(value)}
    if isinstance(value, WindowAssigner):
        told |= {"a": "assigner", "event_time": bool(value.is_event_time), "merges": isinstance(value, MergingWindowAssigner)}
    elif isinstance(value, Trigger):
        told |= {"a": "trigger", "processing_time": bool(value.uses_processing_time)}
    elif isinstance(value, Evictor):
        told |= {"a": "evictor"}
    return told


def recipe_of(saved: Any) -> Any:
    """Return the value that was given to :func:`recipe_json`, with placeholders for user code.

    Raises:
        StateFormatError: it contains something unknown to this version, or an aggregate of another package.
    """
    if isinstance(saved, list):
        raise StateFormatError(f"a saved plan holds a list in a wrong place: {saved!r}")
    if not isinstance(saved, dict):
        return saved
    if "absent" in saved:
        return _stand_in(saved)
    if "is" in saved:
        return _known(saved)
    ((tag, inner),) = saved.items() if len(saved) == 1 else (("", None),)
    reader = _READERS.get(tag)
    if reader is None:
        raise StateFormatError(f"a saved plan holds {saved!r}, which this version of panestream does not know")
    return reader(inner)


def _known(saved: Mapping[str, Any]) -> Any:
    name, own = saved["is"], {key: recipe_of(part) for key, part in saved.items() if key != "is"}
    if name == "User":
        written = AbsentColumnAggregate(own["written"], own["partial_type"], own["result_type"])
        return User(written, own["exprs"], output_name=own["output_name"])
    if name == "InTwoPhases":
        function = absent_reduce if own["written"] is None else absent_aggregate(own["written"])
        return InTwoPhases(function, own["rows"], own["accumulators"], own["results"], output_name=own["output_name"])
    kind = KNOWN.get(name)
    if kind is None:
        raise StateFormatError(f"a saved plan names {name!r}, which this version of panestream does not have")
    if kind is WatermarkStrategy:
        own["generator"] = AbsentGenerator if own["generator"] else None
    try:
        return kind(**own)
    except TypeError as error:
        raise StateFormatError(f"a saved plan holds {name} with the fields {', '.join(own)}: {error}") from error


def _stand_in(saved: Mapping[str, Any]) -> Any:
    described, kind = saved["absent"], saved.get("a")
    if kind == "assigner":
        made = AbsentMergingAssigner if saved["merges"] else AbsentAssigner
        return made(described, saved["event_time"])
    if kind == "trigger":
        return AbsentTrigger(described, saved["processing_time"])
    if kind == "evictor":
        return AbsentEvictor(described)
    raise StateFormatError(
        f"the plan computes {described}, which belongs to another package. Import it before you inspect the state"
    )


def schema_text(schema: pa.Schema) -> str:
    """Return a schema as text: Arrow bytes in base 64."""
    return b64encode(schema.remove_metadata().serialize()).decode()


def schema_of(text: str) -> pa.Schema:
    """Return the schema that was given to :func:`schema_text`."""
    return pa.ipc.read_schema(pa.py_buffer(b64decode(text)))


_READERS: dict[str, Callable[[Any], Any]] = {
    "tuple": lambda items: tuple(map(recipe_of, items)),
    "map": lambda pairs: {recipe_of(key): recipe_of(item) for key, item in pairs},
    "float": float,
    "decimal": Decimal,
    "schema": schema_of,
    "type": lambda text: schema_of(text).field(0).type,
    "stagger": lambda name: WindowStagger[name],
}
