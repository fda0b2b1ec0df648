"""Values that Arrow would change or misread when it makes a column of them.

:func:`lost_value` finds values that a column of another type would change silently. :func:`shaped` brings structs, maps and lists
into the one shape that Arrow takes, whatever other values stand in the column. Arrow decides by the first struct of a column
whether all are dicts, tuples or lists of pairs. It reads arrays of numpy without their unit and without their mask. A map with
None among its pairs ends the process.

>>> lost_value([1, 2.0, None, 2.5], pa.int64())
Loss(value=2.5, reason='would cut its fraction off', way_out='make it a double or decimal, or round the value')
>>> lost_value([["a"], "ab"], pa.list_(pa.string())).reason
'would take it apart'
>>> shaped([{"x": 1}, (2,)], pa.struct([("x", pa.int64())]))
[{'x': 1}, {'x': 2}]
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain
from math import inf
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panestream.engine.kernels.grouping import ONE_KEY, key_held_twice
from panestream.errors import did_you_mean


class Loss(NamedTuple):
    """A value that a column would change, the change, and a value to return instead."""

    value: Any
    reason: str
    way_out: str


_FRACTION = ("would cut its fraction off", "make it a double or decimal, or round the value")
_INFINITE = ("would make it infinite", "make it a double")
_BEYOND = ("would make it infinite", "return a smaller number, or text")
_APART = ("would take it apart", "return a list, such as [value]")
_TIME_OF_DAY = ("would drop its time of day", "make it a timestamp, or return value.date()")
_NANOSECONDS = ("would cut its nanoseconds off", "round it to microseconds, such as value.floor('us')")
_SINCE_1970 = ("would take it for a time since 1970", "return a datetime with a time zone, or make it a bigint")
_DAYS_SINCE_1970 = ("would take it for days since 1970", "return a datetime.date, or make it an int")
_MICROSECONDS = ("would take it for microseconds", "return a datetime.timedelta, or make it a bigint")
_ROUNDED = ("would change it", "round the value, or make it a double")
_TRUTH = ("would make a number of it", "return int(value), or make it a boolean")
_UNIT = ("would drop its unit", "return a number, or make it a column of times")
_LONG = ("would round it", "return float(value)")
_INEXACT = ("would change it", "make it a decimal, or return float(value)")
_LABELS = ("would take its values by their labels", "return value.tolist()")

TEXTS = (str, bytes, bytearray, memoryview)
"""Types whose values are sequences of other things to Arrow."""
_WHOLE = {int, *(np.dtype(code).type for code in np.typecodes["AllInteger"])}
_EXACT: dict[str, set[type]] = {
    "integer": {*_WHOLE, type(None)},
    "float": {*(kind for kind in _WHOLE if not issubclass(kind, np.unsignedinteger)), float, np.float64, np.float32, type(None)},
    "date": {dt.date, type(None)},
    "timestamp": {dt.datetime, type(None)},
    "duration": {dt.timedelta, type(None)},
}
"""Types whose values a column keeps or Arrow refuses, so that the values need no check."""
_TIMES: dict[str, tuple[type, ...]] = {
    "date": (dt.date,),
    "timestamp": (dt.datetime, np.datetime64),
    "duration": (dt.timedelta, np.timedelta64),
}
_NOT_TIMES = {"date": _DAYS_SINCE_1970, "timestamp": _SINCE_1970, "duration": _MICROSECONDS}
_FLOATS: dict[int, Any] = {16: np.float16, 32: np.float32, 64: np.float64}
_INFINITE_FROM = {16: 65_520.0, 32: float(2**128 - 2**103), 64: inf}
"""The smallest double that becomes infinite in a float of 16, 32 or 64 bits."""


def lost_value(values: Sequence[Any], type_: pa.DataType) -> Loss | None:
    """Return the first value, at any depth, that a column of this type would change, or None."""
    kind = _kind(type_)
    if kind is None:
        return None
    kinds = set(map(type, values))
    if kind in _EXACT:
        suspects: Sequence[Any] = values
        if kinds <= _EXACT[kind]:
            suspects = _out_of_range(values, type_) if kind == "float" else ()
        return next((loss for value in suspects if (loss := _loss_of_one(value, kind, type_)) is not None), None)
    there = values if type(None) not in kinds else [value for value in values if value is not None]
    loss = _loss_of_text(there, kinds) or _loss_of_labels(there)
    if loss is None and kind == "struct":
        loss = _loss_of_fields(there, type_)
    if loss is not None:
        return loss
    return next((loss for part in _parts(there, kind, type_) if (loss := lost_value(*part)) is not None), None)


def _kind(type_: pa.DataType) -> str | None:
    """Return the kind of a type that Arrow may change values for, or None if it never does."""
    is_of = pa.types
    kinds = {
        "integer": is_of.is_integer,
        "float": is_of.is_floating,
        "date": is_of.is_date,
        "timestamp": is_of.is_timestamp,
        "duration": is_of.is_duration,
        "struct": is_of.is_struct,
        "map": is_of.is_map,
        "list": lambda type_: is_of.is_list(type_) or is_of.is_large_list(type_),
    }
    return next((kind for kind, is_kind in kinds.items() if is_kind(type_)), None)


def _loss_of_one(value: Any, kind: str, type_: pa.DataType) -> Loss | None:
    """Return how a column without parts would change a value."""
    if value is None or isinstance(value, pa.Scalar):  # Arrow itself compares the type of its own scalars
        return None
    if kind in ("integer", "float"):
        return _loss_of_number(value, kind, type_)
    if not isinstance(value, _TIMES[kind]):
        return Loss(value, *_NOT_TIMES[kind])
    if kind == "date":
        # A missing time of pandas has NaN for its hour.
        clock = [getattr(value, part, 0) for part in ("hour", "minute", "second", "microsecond", "nanosecond")]
        return Loss(value, *_TIME_OF_DAY) if clock != [0] * 5 else None
    return Loss(value, *_NANOSECONDS) if getattr(value, "nanosecond", getattr(value, "nanoseconds", 0)) else None


def _loss_of_number(value: Any, kind: str, type_: pa.DataType) -> Loss | None:
    if isinstance(value, (bool, np.bool_)):
        return Loss(value, *_TRUTH)
    if kind == "integer":
        if isinstance(value, np.timedelta64):
            return Loss(value, *_UNIT)
        return None if isinstance(value, int) or _is_whole(value) else Loss(value, *_FRACTION)
    if isinstance(value, np.unsignedinteger) and value >= 2**63:  # Arrow makes it negative
        return Loss(value, *_INEXACT)
    bits = type_.bit_width
    with np.errstate(over="ignore"):
        becomes_infinite = np.isinf(_FLOATS[bits](value)) and not np.isinf(value)
    if becomes_infinite:
        return Loss(value, *(_INFINITE if bits < 64 else _BEYOND))
    # Whoever declares a float wants its precision. A double is the longest number that Spark has.
    is_rounded = isinstance(value, np.longdouble) and np.isfinite(value) and np.float64(value) != value
    return Loss(value, *_LONG) if is_rounded else None


def _is_whole(value: Any) -> bool:
    try:
        return bool(value == int(value))
    except (TypeError, ValueError, ArithmeticError):
        return False


def _out_of_range(values: Sequence[Any], type_: pa.DataType) -> Sequence[Any]:
    end = _INFINITE_FROM[type_.bit_width]
    if end == inf:
        return ()
    with np.errstate(over="ignore"):
        return [value for value in values if value is not None and not -end < value < end]


def _loss_of_text(values: Sequence[Any], kinds: set[type]) -> Loss | None:
    """Return how a column of lists or structs would change a text."""
    if not any(issubclass(kind, TEXTS) for kind in kinds):
        return None
    return next(Loss(value, *_APART) for value in values if isinstance(value, TEXTS))


def _loss_of_labels(values: Sequence[Any]) -> Loss | None:
    """Return how a column of lists would change a pandas series: Arrow reads the labels 0, 1, ... instead of the positions."""
    series = (value for value in values if hasattr(value, "iloc"))
    return next((Loss(value, *_LABELS) for value in series if list(value.index) != list(range(len(value)))), None)


def _loss_of_fields(values: Sequence[Any], type_: pa.DataType) -> Loss | None:
    """Return how a column of structs would change a dict, or a list of pairs of name and value."""
    names = {field.name for field in type_}
    for value in values:
        fields = dict(value) if isinstance(value, list) else value
        if isinstance(fields, dict) and not fields.keys() <= names:
            unknown = next(name for name in fields if name not in names)
            return Loss(value, f"would drop its field {unknown!r}", did_you_mean(str(unknown), names))
    return None


def _parts(values: Sequence[Any], kind: str, type_: pa.DataType) -> Iterator[tuple[Sequence[Any], pa.DataType]]:
    """Yield the columns that lists, maps or structs consist of, each with its type."""
    if kind == "list":
        if _kind(type_.value_type) is not None:
            yield list(chain.from_iterable(values)), type_.value_type
    elif kind == "map":
        pairs = [pair for value in values for pair in (value.items() if isinstance(value, dict) else value)]
        pairs = [(pair["key"], pair["value"]) if isinstance(pair, dict) else pair for pair in pairs]
        yield [pair[0] for pair in pairs], type_.key_type
        yield [pair[1] for pair in pairs], type_.item_type
    else:
        dicts = set(map(type, values)) <= {dict}
        for place, field in enumerate(type_):
            if _kind(field.type) is not None:
                name = field.name
                column = [value.get(name) if dicts else _field_of(value, name, place) for value in values]
                yield column, field.type


def _field_of(struct: Any, name: str, place: int) -> Any:
    if isinstance(struct, dict):
        return struct.get(name)
    return dict(struct).get(name) if isinstance(struct, list) else struct[place]


def cast_exactly(column: pa.Array, type_: pa.DataType) -> pa.Array:
    """Cast a column as Arrow does, and refuse what Arrow would change silently.

    Args:
        column: of any type.
        type_: the type to cast to.

    Raises:
        pa.ArrowException: the column cannot be cast, or a value would change.
    """
    twice = key_held_twice(column)
    if twice is not None:
        raise pa.ArrowInvalid(f"a map would hold the key {twice[0]!r} twice: {ONE_KEY}")
    if column.type == type_:
        return column  # Arrow refuses to cast to the same type if a struct is null whose fields never are
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    cast = column.cast(type_)
    for leaf, wanted in _leaves(column, type_):
        loss = _loss_of_cast(leaf, wanted)
        if loss is not None:
            raise pa.ArrowInvalid(f"{loss.value!r} does not fit {wanted}, which {loss.reason}: {loss.way_out}")
    return cast


def _leaves(column: pa.Array, type_: pa.DataType) -> Iterator[tuple[pa.Array, pa.DataType]]:
    """Yield the columns without parts that a column consists of, each with its target type."""
    kind = _kind(type_)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if kind == "struct" and pa.types.is_struct(column.type):
        parts = {field.name: part for field, part in zip(column.type, column.flatten(), strict=True)}
        names = [field.name for field in type_]
        unknown = next((name for name in parts if name not in names), None)
        if unknown is not None:
            raise pa.ArrowInvalid(f"there is no field {unknown!r} in {type_}; {did_you_mean(unknown, names)}")
        for field in type_:
            if field.name in parts:
                yield from _leaves(parts[field.name], field.type)
    elif kind == "map" and pa.types.is_map(column.type):
        yield from _leaves(column.keys, type_.key_type)
        yield from _leaves(column.items, type_.item_type)
    elif kind == "list" and hasattr(column, "flatten"):
        yield from _leaves(column.flatten(), type_.value_type)
    else:
        yield column, type_


def _loss_of_cast(column: pa.Array, type_: pa.DataType) -> Loss | None:
    """Return how Arrow's cast would change a value without an error."""
    given, is_of = column.type, pa.types
    if given == type_ or column.null_count == len(column):
        return None
    if is_of.is_boolean(given) and (is_of.is_integer(type_) or is_of.is_floating(type_)):
        return Loss(_first(column), *_TRUTH)
    if is_of.is_temporal(given) and (is_of.is_integer(type_) or is_of.is_floating(type_)):
        return Loss(_first(column), *_UNIT)
    if is_of.is_integer(given) and is_of.is_temporal(type_):
        return Loss(_first(column), *_NOT_TIMES.get(_kind(type_) or "", _SINCE_1970))
    if is_of.is_float64(given) and is_of.is_floating(type_):
        infinite = pc.and_not(pc.is_inf(column.cast(type_)), pc.is_inf(column))
        return Loss(_first(column.filter(infinite)), *_INFINITE) if pc.any(infinite).as_py() else None
    if is_of.is_timestamp(given) and is_of.is_date(type_):
        reason = _TIME_OF_DAY
    elif (is_of.is_integer(given) or is_of.is_floating(given)) and (is_of.is_decimal(type_) or is_of.is_boolean(type_)):
        reason = _ROUNDED
    elif is_of.is_decimal(given) and is_of.is_floating(type_):
        reason = _INEXACT
    else:
        return None
    changed = pc.not_equal(column.cast(type_).cast(given), column)
    return Loss(_first(column.filter(changed)), *reason) if pc.any(changed).as_py() else None


def _first(column: pa.Array) -> Any:
    return column.drop_null()[0].as_py()


_STRUCT = ("needs a dict, a tuple, or a list of pairs of name and value", "return a dict of its fields")
_PAIRS = ("needs pairs of key and value", "return a dict")
_LENGTH = ("needs a value for each field", "return a dict of its fields")
_NANOSECONDS_OF_NUMPY = ("would cut its nanoseconds off", "round it to microseconds, such as value.astype('datetime64[us]')")
_UNITS = {"M": "datetime64[us]", "m": "timedelta64[us]"}
_LISTS = (Sequence, AbstractSet, np.ndarray)
_PAIR = 2


class UnfitShapeError(Exception):
    """A value that no column of the type can hold.

    Attributes:
        loss: the value, what is wrong with it, and the way out.
    """

    def __init__(self, value: Any, reason: str, way_out: str) -> None:
        super().__init__(reason)
        self.loss = Loss(value, reason, way_out)


def shaped(values: Sequence[Any], type_: pa.DataType) -> Sequence[Any]:
    """Return values that Arrow takes as they are, whichever values they stand next to.

    Args:
        values: of which Arrow is to make a column. Values of unknown kinds stay, for Arrow to refuse.
        type_: of the column.

    Returns:
        The same values if Arrow takes all of them so. Otherwise structs are dicts, and maps lists of pairs.

    Raises:
        UnfitShapeError: a value has no such shape.
    """
    if not pa.types.is_nested(type_) or not _is_mixed(values, type_):
        return values
    return [_shaped(value, type_) for value in values]


def _is_mixed(values: Sequence[Any], type_: pa.DataType) -> bool:
    """Whether the values of a nested column are anything but plain dicts, lists, or tuples of one length."""
    kinds = set(map(type, values)) - {type(None)}
    if not kinds:
        return False
    there = [value for value in values if value is not None]
    if pa.types.is_struct(type_):
        are_dicts = kinds == {dict}
        if not are_dicts and not (
            len(kinds) == 1 and issubclass(next(iter(kinds)), tuple) and set(map(len, there)) == {len(type_)}
        ):
            return True
        nested = [(place, field) for place, field in enumerate(type_) if pa.types.is_nested(field.type)]
        return any(
            _is_mixed([value.get(field.name) if are_dicts else value[place] for value in there], field.type)
            for place, field in nested
        )
    if pa.types.is_map(type_):
        if kinds != {dict}:
            return True
        nested_parts = [(list(chain.from_iterable(part)), of) for part, of in _sides(there, type_) if pa.types.is_nested(of)]
        return any(_is_mixed(part, of) for part, of in nested_parts)
    return not kinds <= {list, tuple} or (
        pa.types.is_nested(type_.value_type) and _is_mixed(list(chain.from_iterable(there)), type_.value_type)
    )


def _sides(dicts: Sequence[dict[Any, Any]], type_: pa.DataType) -> Iterator[tuple[Iterator[Any], pa.DataType]]:
    yield (value.keys() for value in dicts), type_.key_type
    yield (value.values() for value in dicts), type_.item_type


def _shaped(value: Any, type_: pa.DataType) -> Any:
    if value is None or isinstance(value, (pa.Scalar, pa.Array, pa.ChunkedArray, *TEXTS)) or not pa.types.is_nested(type_):
        return value
    if pa.types.is_struct(type_):
        return _shaped_struct(value, type_)
    if pa.types.is_map(type_):
        return _shaped_map(value, type_)
    return _shaped_list(value, type_)


def _shaped_struct(value: Any, type_: pa.DataType) -> dict[Any, Any]:
    names = [field.name for field in type_]
    if isinstance(value, np.void) and value.dtype.names is not None:
        fields = {name: value[name] for name in value.dtype.names}
    elif isinstance(value, dict):
        fields = dict(value)
    elif isinstance(value, tuple):
        if len(value) != len(names):
            raise UnfitShapeError(value, *_LENGTH)
        fields = dict(zip(names, value, strict=True))
    elif isinstance(value, list) and all(isinstance(pair, tuple) and len(pair) == _PAIR for pair in value):
        fields = dict(value)
        if len(fields) < len(value):
            raise UnfitShapeError(value, "would drop all but one of the values of a field", _STRUCT[1])
    else:
        raise UnfitShapeError(value, *_STRUCT)
    for field in type_:
        if field.name in fields:
            fields[field.name] = _shaped(fields[field.name], field.type)
    return fields


def _shaped_map(value: Any, type_: pa.DataType) -> Any:
    if hasattr(value, "iloc"):
        value = list(value)
    if isinstance(value, dict):
        pairs: list[Any] = list(value.items())
    elif isinstance(value, _LISTS):
        pairs = [_pair(pair, value) for pair in value]
    else:
        return value
    return [(_shaped(key, type_.key_type), _shaped(item, type_.item_type)) for key, item in pairs]


def _pair(pair: Any, value: Any) -> tuple[Any, Any]:
    """Return a pair of a map. pandas and Arrow write some of them as dicts."""
    if isinstance(pair, dict) and pair.keys() == {"key", "value"}:
        return pair["key"], pair["value"]
    if not isinstance(pair, tuple) or len(pair) != _PAIR:
        raise UnfitShapeError(value, *_PAIRS)
    return pair


def _shaped_list(value: Any, type_: pa.DataType) -> Any:
    if isinstance(value, np.ndarray) and value.ndim:
        kind = value.dtype.kind
        if kind in _UNITS and value.dtype != np.dtype(kind):
            value = _in_microseconds(value, kind)
        if isinstance(value, np.ma.MaskedArray) and value.ndim == 1:
            value = [None if is_masked else one for one, is_masked in zip(value.data, np.ma.getmaskarray(value), strict=True)]
    elif hasattr(value, "iloc") and list(value.index) == list(range(len(value))):
        value = list(value)
    if not pa.types.is_nested(type_.value_type) or not isinstance(value, _LISTS):
        return value
    return [_shaped(part, type_.value_type) for part in value]


def _in_microseconds(times: Any, kind: str) -> Any:
    """Return an array of times in the unit of Spark's: Arrow takes the numbers of an array within a list for microseconds."""
    made = times.astype(_UNITS[kind])
    changed = ~np.isnat(times) & ((made.astype(times.dtype) != times) | np.isnat(made))
    if np.any(changed):
        raise UnfitShapeError(times[changed][0], *_NANOSECONDS_OF_NUMPY)
    return made
