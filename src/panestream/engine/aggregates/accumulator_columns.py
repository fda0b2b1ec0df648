"""Conversion of user functions' accumulators to Arrow columns and back, in the form of ``create_accumulator``."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from panestream.engine.kernels.python_values import RowType, arrow_column, python_values
from panestream.errors import InvalidPlanError

_Convert: TypeAlias = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class AccumulatorColumns:
    """Converts accumulators to columns and back. Decoded accumulators are not shared, so they may be changed.

    ``schema`` has one column for each part of an accumulator, or one for all of it. The empty accumulator ``example``
    distinguishes tuples, lists, dicts and sets, which are equal in columns.
    """

    schema: pa.Schema
    example: Any

    def __post_init__(self) -> None:
        self._kind()

    def encode(self, accumulators: Sequence[Any]) -> list[pa.Array]:
        """Return the columns, or raise InvalidPlanError if an accumulator does not fit them."""
        names, width = self.schema.names, len(self.schema)
        rows = [_parts(accumulator, names, self._whole()) for accumulator in accumulators]
        columns: Sequence[Sequence[Any]] = list(zip(*rows, strict=True)) if rows else [()] * width
        fields = [field.with_name(f"{field.name} of the accumulator") for field in self.schema]
        return [
            arrow_column([_plain(value, field.type) for value in column], field)
            for column, field in zip(columns, fields, strict=True)
        ]

    def decode(self, columns: Sequence[pa.Array]) -> list[Any]:
        values = [python_values(column) for column in columns]
        if self._whole():
            convert = _reader(self.example, self.schema.field(0).type)
            return list(map(convert, values[0])) if convert is not None else values[0]
        make = self._kind()
        named = isinstance(self.example, dict)
        for place, field in enumerate(self.schema if self.example is not None else ()):
            convert = _reader(self.example[field.name if named else place], field.type)
            if convert is not None:
                values[place] = list(map(convert, values[place]))
        return list(map(make, zip(*values, strict=True)))

    def _whole(self) -> bool:
        """Return whether the only column is the whole accumulator rather than a part."""
        if len(self.schema) != 1:
            return False
        name, type_ = self.schema.names[0], self.schema.field(0).type
        if isinstance(self.example, (tuple, list)):
            return pa.types.is_nested(type_) and not (isinstance(self.example, tuple) and len(self.example) == 1)
        return not (isinstance(self.example, dict) and set(self.example) == {name} and not pa.types.is_map(type_))

    def _kind(self) -> Callable[[tuple[Any, ...]], Any]:
        """Return the function that makes an accumulator from its parts."""
        example, names = self.example, self.schema.names
        if self._whole():
            return lambda parts: parts[0]
        if example is None or isinstance(example, (tuple, list)):
            if example is not None and len(example) != len(names):
                raise InvalidPlanError(
                    f"accumulator_type has {len(names)} columns ({', '.join(names)}), create_accumulator() returns {example!r}: "
                    f"write a column for each of its {len(example)} values"
                )
            if example is None:
                return _none_of_nulls
            return getattr(type(example), "_make", type(example))
        if isinstance(example, dict):
            # Columns are matched by name, in the order in which the function created them.
            wrong = set(example) ^ set(names)
            if wrong:
                raise InvalidPlanError(
                    f"accumulator_type has the columns {', '.join(names)}, create_accumulator() returns {example!r}: "
                    "write a column for each of its keys, called alike; or one map<...> for all of it"
                )
            return lambda parts: dict(zip(names, parts, strict=True))
        raise InvalidPlanError(
            f"create_accumulator() returns {example!r}, of which accumulator_type {', '.join(names)} cannot be the columns: "
            "return a tuple, a list or a dict with a value for each, or declare one column for all of it"
        )


@dataclass(frozen=True, slots=True)
class RowColumns:
    """Like :class:`AccumulatorColumns`, for reduce functions, whose accumulators are rows."""

    row_type: RowType

    def encode(self, accumulators: Sequence[Any]) -> list[pa.Array]:
        return self.row_type.columns(accumulators)

    def decode(self, columns: Sequence[pa.Array]) -> list[Any]:
        return self.row_type.from_columns(list(map(python_values, columns)), len(columns[0]))


def _parts(accumulator: Any, names: Sequence[str], whole: bool) -> Sequence[Any]:
    """Return the value of each column."""
    if whole:
        return (accumulator,)
    if accumulator is None:
        return (None,) * len(names)
    if isinstance(accumulator, dict) and set(accumulator) == set(names):
        return [accumulator[name] for name in names]
    if isinstance(accumulator, (tuple, list)) and len(accumulator) == len(names):
        return accumulator
    raise InvalidPlanError(
        f"an accumulator must have {len(names)} values ({', '.join(names)}), as accumulator_type says; got {accumulator!r}"
    )


def _none_of_nulls(parts: tuple[Any, ...]) -> Any:
    return None if all(part is None for part in parts) else parts


def _plain(value: Any, type_: pa.DataType) -> Any:
    """Return a value in Arrow's form: sets as lists, in the same order in every process, and lists of struct type as tuples."""
    if isinstance(value, (set, frozenset)):
        try:
            return sorted(value)
        except TypeError:
            return sorted(value, key=repr)
    if isinstance(value, (tuple, list)):
        if pa.types.is_struct(type_):
            fields = list(type_) if len(value) == type_.num_fields else []  # otherwise Arrow reports the expected number
            return tuple(_plain(one, field.type) for one, field in zip(value, fields, strict=True)) if fields else tuple(value)
        return [_plain(one, type_.value_type) for one in value] if _is_list(type_) else value
    if isinstance(value, dict):
        if pa.types.is_map(type_):
            return {name: _plain(one, type_.item_type) for name, one in value.items()}
        if pa.types.is_struct(type_):
            known = {field.name: field.type for field in type_}
            return {name: _plain(one, known.get(name, pa.null())) for name, one in value.items()}
    return value


def _is_list(type_: pa.DataType) -> bool:
    return bool(pa.types.is_list(type_) or pa.types.is_large_list(type_))


def _reader(example: Any, type_: pa.DataType) -> _Convert | None:
    """Return the function that converts an Arrow value to the example's form, or None if it already has that form."""
    if isinstance(example, (set, frozenset, tuple)) and _is_list(type_):
        kind = type(example)
        return lambda value: None if value is None else kind(value)
    if isinstance(example, dict) and pa.types.is_map(type_) and type(example) is not dict:
        return lambda value: None if value is None else _filled(example, value)
    if isinstance(example, (tuple, list)) and pa.types.is_struct(type_):
        make = getattr(type(example), "_make", type(example))
        inner = [(part.name, _reader(one, part.type) or _same) for one, part in zip(example, type_, strict=False)]
        return lambda value: None if value is None else make([convert(value[name]) for name, convert in inner])
    return None


def _filled(example: dict[Any, Any], value: dict[Any, Any]) -> dict[Any, Any]:
    """Return a Counter, defaultdict or similar dict with the items."""
    made = copy.copy(example)
    made.clear()
    made.update(value)
    return made


def _same(value: Any) -> Any:
    return value


__all__ = ["AccumulatorColumns", "RowColumns"]
