"""Rows as user functions see them: one tuple per row, with values by name, and their conversion to Arrow tables."""

from __future__ import annotations

import datetime as dt
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, ClassVar, TypeAlias

import numpy as np
import pyarrow as pa

from panestream.engine.kernels.columns import one_chunk
from panestream.engine.kernels.exact_values import Loss, UnfitShapeError, lost_value, shaped
from panestream.engine.kernels.grouping import ONE_KEY, key_held_twice
from panestream.errors import InvalidEventTimeError, InvalidPlanError, MalformedRecordError, did_you_mean

Place: TypeAlias = Callable[[int], str]
"""A function from the position of a value to its origin, in words for errors."""
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
_FIRST, _LAST = -62_135_596_800_000_000, 253_402_300_799_999_999
"""What Python's datetime can hold, in microseconds since the epoch."""
_UNFIT = (pa.ArrowException, OverflowError, TypeError, ValueError, AttributeError, LookupError, np.ma.MaskError)
"""What Arrow raises for values that do not fit a type. A series of pandas has no label 0, for example."""


class Element(tuple[Any, ...]):
    """One row: a named tuple whose values are also found by name, like PySpark's ``Row``: ``row.price``, ``row["price"]``.

    A column whose name is not an identifier is available only as ``row["its name"]``.

    >>> row_type = RowType(pa.schema([("user", pa.string()), ("unit price", pa.int64())]))
    >>> row = row_type.make(("ann", 3))
    >>> row.user, row["unit price"], row[1], row.asDict()
    ('ann', 3, 3, {'user': 'ann', 'unit price': 3})
    """

    __slots__ = ()
    columns: ClassVar[tuple[str, ...]] = ()
    _row_type: ClassVar[RowType | None] = None

    def __getitem__(self, at: Any) -> Any:
        return tuple.__getitem__(self, self._position(at) if type(at) is str else at)

    def __getattr__(self, name: str) -> Any:
        # Python calls this only for unknown attributes.
        raise AttributeError(f"the row has no column {name!r}; {did_you_mean(name, self.columns)}")

    def asDict(self) -> dict[str, Any]:  # noqa: N802 - PySpark's name
        """Return the values by column."""
        return dict(zip(self.columns, self, strict=True))

    def replace(self, **values: Any) -> Element:
        """Return the row with some values changed, for reduce functions."""
        changed = list(self)
        for name, value in values.items():
            changed[self._position(name)] = value
        return tuple.__new__(type(self), changed)

    def _position(self, name: str) -> int:
        try:
            return self.columns.index(name)
        except ValueError:
            raise KeyError(f"the row has no column {name!r}; {did_you_mean(name, self.columns)}") from None

    def __repr__(self) -> str:
        return f"Row({', '.join(f'{name}={value!r}' for name, value in zip(self.columns, self, strict=True))})"

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (tuple(self),)


class RowType:
    """Turns Arrow tables of one schema into rows, and rows into Arrow columns; ``element`` is the class of the rows.

    >>> row_type = RowType(pa.schema([("user", pa.string()), ("price", pa.int64())]))
    >>> row_type.rows(pa.table({"user": ["ann", "bob"], "price": [3, None]}))
    [Row(user='ann', price=3), Row(user='bob', price=None)]
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        # The named tuple provides fast attribute access.
        fields = namedtuple("Row", schema.names, rename=True)  # type: ignore[misc] # noqa: PYI024
        members = {"__slots__": (), "__doc__": None, "columns": tuple(schema.names), "_row_type": self}
        self.element: type[Any] = type("Row", (Element, fields), members)
        self.make: Callable[[Iterable[Any]], Any] = partial(tuple.__new__, self.element)

    def __reduce__(self) -> tuple[Any, ...]:
        return RowType, (self.schema,)

    @staticmethod
    def of(element: type | None) -> RowType | None:
        """Return the row type whose rows are instances of ``element``, or None."""
        found: RowType | None = getattr(element, "_row_type", None)
        return found

    def rows(self, table: pa.Table) -> list[Element]:
        return self.from_columns([python_values(table.column(name), name) for name in self.schema.names], table.num_rows)

    def from_columns(self, columns: Sequence[Sequence[Any]], rows: int) -> list[Element]:
        if not columns:
            return [self.make(())] * rows
        return list(map(self.make, zip(*columns, strict=True)))

    def columns(self, elements: Sequence[Sequence[Any]]) -> list[pa.Array]:
        values: Sequence[Sequence[Any]] = list(zip(*elements, strict=True)) if elements else [()] * len(self.schema)
        return [arrow_column(column, field) for column, field in zip(values, self.schema, strict=True)]


def python_values(column: pa.ChunkedArray | pa.Array, name: str = "") -> list[Any]:
    """Return a column as Python values: numbers, strings, ``datetime`` (in UTC if the column has a zone), lists, dicts.

    Args:
        column: the values.
        name: the column's name, for errors.

    Raises:
        InvalidEventTimeError: a timestamp that Python's ``datetime`` cannot hold.
        MalformedRecordError: a map that holds a key twice, which a dict cannot.
    """
    array = one_chunk(column) if isinstance(column, pa.ChunkedArray) else column
    kind = array.type
    if pa.types.is_timestamp(kind):
        return _datetimes(array, kind)
    if array.null_count == 0 and (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return array.to_numpy().tolist()  # type: ignore[no-any-return]
    values: list[Any] = array.to_pylist()
    if not has_maps(kind):
        return values
    if twice := key_held_twice(array):
        place = f"the column {name!r}" if name else "a column"
        raise MalformedRecordError(
            f"a map of {place} holds the key {twice.key!r} twice, which a dict cannot: {twice.pairs!r}; keep one value of "
            "each key before pst.stream(df): map_from_entries(map_entries(m)) with spark.sql.mapKeyDedupPolicy=LAST_WIN"
        )
    return [_with_dicts(value, kind) for value in values]


def has_maps(kind: pa.DataType) -> bool:
    """Whether there are maps in it: they become dicts, as in PySpark's rows."""
    if pa.types.is_map(kind):
        return True
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return has_maps(kind.value_type)
    return pa.types.is_struct(kind) and any(has_maps(part.type) for part in kind)


def _with_dicts(value: Any, kind: pa.DataType) -> Any:
    """Return a value with dicts for maps, which are lists of pairs to Arrow (from version 20 on it makes dicts itself)."""
    if value is None or not has_maps(kind):
        return value
    if pa.types.is_map(kind):
        return {key: _with_dicts(item, kind.item_type) for key, item in value}
    if pa.types.is_struct(kind):
        return {part.name: _with_dicts(value[part.name], part.type) for part in kind}
    return [_with_dicts(item, kind.value_type) for item in value]


def _datetimes(array: pa.Array, kind: pa.TimestampType) -> list[Any]:
    # Arrow itself looks up the time zone for every single value.
    micros = array.cast(pa.timestamp("us", tz=kind.tz)).view(pa.int64())
    numbers = micros.fill_null(0).to_numpy()
    if len(numbers) and (numbers.min() < _FIRST or numbers.max() > _LAST):
        raise InvalidEventTimeError(
            "a timestamp lies outside the years 1 to 9999, which is all that Python's datetime holds: "
            "leave such rows out, or hand the column over as a number, unix_micros(column)"
        )
    found: list[Any]
    if kind.tz is None:
        found = numbers.astype("datetime64[us]").astype(object).tolist()
    else:
        # Adding spans takes a tenth of the time of setting each datetime's zone.
        found = [_EPOCH + span for span in numbers.astype("timedelta64[us]").tolist()]
    if array.null_count:
        valid: Iterator[bool] = iter(array.is_valid().to_numpy(zero_copy_only=False))
        found = [value if there else None for value, there in zip(found, valid, strict=True)]
    return found


def arrow_column(values: Sequence[Any], field: pa.Field, place: Place | None = None) -> pa.Array:
    """Return Python values as one Arrow column; ``place`` gives each value's origin for errors.

    A value that does not fit the type, or would change, raises InvalidPlanError with the column, type, place and value.
    """
    try:
        made, given = _made(values, field.type)
    except UnfitShapeError as error:
        loss, at = error.loss, next(at for at, value in enumerate(values) if not _fits(value, field.type))
    except _UNFIT as error:
        at, wrong = next(((at, value) for at, value in enumerate(values) if not _fits(value, field.type)), (0, None))
        raise InvalidPlanError(
            f"the value {wrong!r} ({type(wrong).__name__}) does not fit the column {field.name!r} of type {field.type}"
            f"{'' if place is None else place(at)}: change the schema, or return another value"
        ) from error
    else:
        found = _lost(made, given)
        if found is None:
            return made
        loss, at = found, next(at for at, value in enumerate(values) if _lost(*_made([value], field.type)) is not None)
    raise InvalidPlanError(
        f"the value {loss.value!r} does not fit the column {field.name!r} of type {field.type}, which {loss.reason}"
        f"{'' if place is None else place(at)}: {loss.way_out}"
    )


def _made(values: Sequence[Any], type_: pa.DataType) -> tuple[pa.Array, Sequence[Any]]:
    """Return the column that Arrow makes of values, and the values as it was given them."""
    if pa.types.is_timestamp(type_) and type_.tz is not None and type_.unit == "us":
        return instants(values, type_), values
    given = shaped(values, type_)
    return pa.array(given, type_), given


def _lost(made: pa.Array, given: Sequence[Any]) -> Loss | None:
    """Return the first value that a column does not hold as it was given."""
    twice = key_held_twice(made)
    if twice is not None:
        return Loss(twice.pairs, f"would hold the key {twice.key!r} twice", ONE_KEY)
    return lost_value(given, made.type)


def instants(values: Sequence[Any], type_: pa.TimestampType) -> pa.Array:
    """Return datetimes that have a zone, or None, as a column of microseconds; others as Arrow converts them."""
    try:
        # Arrow itself asks the zone of every single value.
        spans = [None if value is None else value - _EPOCH for value in values]
    except TypeError:
        return pa.array(values, type_)
    return pa.array(spans, pa.duration("us")).view(pa.int64()).view(type_)


def _fits(value: Any, wanted: pa.DataType) -> bool:
    try:
        _made([value], wanted)
    except (UnfitShapeError, *_UNFIT):
        return False
    return True


def result_columns(results: Sequence[Any], schema: pa.Schema, place: Place | None = None) -> list[pa.Array]:
    """Return the results of user functions as the columns of ``schema``; ``place`` gives each result's origin for errors.

    A result is a tuple, list or row with a value for each column, a dict with the columns' names, or, if the schema has one
    column, the value itself. None is a row of nulls. Another shape, or a value that does not fit, raises InvalidPlanError.
    """
    width, names = len(schema), schema.names
    shape: Callable[[Any], Any] = _single if width == 1 else lambda value: value
    rows: list[tuple[Any, ...]] = []
    try:
        rows.extend(_as_tuple(shape(value), width, names) for value in results)
    except InvalidPlanError as error:
        raise InvalidPlanError(f"{error}{'' if place is None else place(len(rows))}") from None
    columns: Sequence[Sequence[Any]] = list(zip(*rows, strict=True)) if rows else [()] * width
    return [arrow_column(column, field, place) for column, field in zip(columns, schema, strict=True)]


def _single(value: Any) -> Any:
    return value if isinstance(value, (tuple, dict)) else (value,)


def _as_tuple(value: Any, width: int, names: list[str]) -> tuple[Any, ...]:
    if value is None:
        return (None,) * width
    if isinstance(value, dict):
        unknown = [str(name) for name in value if name not in names]
        if unknown:
            hint = did_you_mean(unknown[0], names)
            raise InvalidPlanError(f"a result has the key {unknown[0]!r}, which is not in the schema; {hint}")
        return tuple(value.get(name) for name in names)
    if isinstance(value, (tuple, list)) and len(value) == width:
        return tuple(value)
    raise InvalidPlanError(
        f"a result must have {width} value{'s' if width > 1 else ''} ({', '.join(names)}), as a tuple or dict; got {value!r}. A "
        "function returns a list of results, or yields them, also if there is only one"
    )
