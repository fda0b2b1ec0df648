"""Recipes as JSON: assigners, triggers, evictors, aggregates and strategies by class and fields, types as Arrow bytes.

User classes, and recipes that contain user functions, are written by name only and read as placeholders
(:mod:`panestream.engine.savepoint.absent`). Names of classes and fields are part of the format of saved plans.
"""

from __future__ import annotations

import math
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

from panestream.engine.aggregates.kept_partials import KeptPartial
from panestream.engine.aggregates.two_phase import InTwoPhases
from panestream.engine.plan import Split, Top, stable_repr
from panestream.engine.runtime.sides import Pairs, Sides
from panestream.engine.savepoint.absent import (
    AbsentAssigner,
    AbsentColumnAggregate,
    AbsentEvictor,
    AbsentGenerator,
    AbsentMergingAssigner,
    AbsentTrigger,
    absent_aggregate,
    absent_reduce,
)
from panestream.errors import StateFormatError
from panestream.windowing import aggregates, assigners, evictors, triggers
from panestream.windowing.aggregate_function import AggregateFunction
from panestream.windowing.aggregates import User
from panestream.windowing.assigners import MergingWindowAssigner, WindowAssigner, WindowStagger
from panestream.windowing.assigners.session import GapColumn, LimitedEventTimeSessionWindows
from panestream.windowing.assigners.several import SeveralWindows
from panestream.windowing.evictors import Evictor
from panestream.windowing.triggers import Trigger
from panestream.windowing.watermarks import WatermarkStrategy

_ROOMS = (aggregates, assigners, evictors, triggers)
_OTHERS: tuple[type, ...] = (
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
        raise StateFormatError(f"a saved plan holds a list where none can be: {saved!r}")
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
    raise StateFormatError(f"the plan computes {described}, which is of another package: import it where the state is looked at")


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

__all__ = ["KNOWN", "recipe_json", "recipe_of", "schema_of", "schema_text"]
