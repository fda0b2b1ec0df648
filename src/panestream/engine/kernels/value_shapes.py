"""Structs, maps and lists of Python values in the one shape that Arrow takes, whatever other values stand in the column.

Arrow decides by the first struct of a column whether all are dicts, tuples or lists of pairs. It reads arrays of numpy without
their unit and without their mask. A map with None among its pairs ends the process.

>>> shaped([{"x": 1}, (2,)], pa.struct([("x", pa.int64())]))
[{'x': 1}, {'x': 2}]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from panestream.engine.kernels.exact_values import TEXTS, Loss

_STRUCT = ("needs a dict, a tuple, or a list of pairs of name and value", "return a dict of its fields")
_PAIRS = ("needs pairs of key and value", "return a dict")
_LENGTH = ("needs a value for each field", "return a dict of its fields")
_NANOSECONDS = ("would cut its nanoseconds off", "round it to microseconds, such as value.astype('datetime64[us]')")
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
        raise UnfitShapeError(times[changed][0], *_NANOSECONDS)
    return made
