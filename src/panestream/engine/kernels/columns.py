"""Conversion between Arrow arrays and numpy vectors, without a copy if the memory layout allows it.

A column becomes a numpy vector with anything in null slots, and a boolean vector of valid slots (None if all are valid).
Some types are converted before Spark or Parquet store them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Vector = npt.NDArray[Any]


def plain(column: Any) -> pa.Array:
    """Return a column as one contiguous array, with chunks joined and dictionaries decoded."""
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        if isinstance(column, pa.ChunkedArray):
            column = pa.concat_arrays(column.chunks)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return column


def as_type(column: Any, type_: pa.DataType) -> Any:
    """Cast a column to another type. Arrow refuses a cast to the same type if a struct is null whose fields never are."""
    return column if column.type == type_ else column.cast(type_)


def one_chunk(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array, copied only if it has several chunks."""
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def valid_of(array: pa.Array) -> Mask | None:
    """Return which slots hold a value, or None if all do."""
    if array.null_count == 0:
        return None
    mask: Mask = pc.is_valid(array).to_numpy(zero_copy_only=False)
    return mask


def numbers(array: pa.Array) -> Vector:
    """Return the values of a fixed-width array (integers, floats, dates, times); null slots hold anything."""
    dtype = storage_dtype(array.type)
    data = array.buffers()[1]
    if data is None or len(array) == 0:
        return np.zeros(len(array), dtype)
    return np.frombuffer(data, dtype, count=len(array) + array.offset)[array.offset :]


def floats_of(array: pa.Array) -> Floats:
    """Return the values of an array of numbers as float64; null slots hold anything."""
    if pa.types.is_decimal(array.type):
        array = array.cast(pa.float64())
    floats: Floats = numbers(array).astype(np.float64, copy=False)
    return floats


def words(array: pa.Array) -> Ints:
    """Return the 64-bit words of a decimal array, lowest first: shape (rows, 2) for decimal128, (rows, 4) for decimal256."""
    width = array.type.byte_width // 8
    data = array.buffers()[1]
    if data is None or len(array) == 0:
        return np.zeros((len(array), width), np.int64)
    flat = np.frombuffer(data, np.int64, count=(len(array) + array.offset) * width)
    return flat.reshape(-1, width)[array.offset :]


def storage_dtype(type_: pa.DataType) -> Any:
    """Return the numpy type of the memory of a fixed-width Arrow type."""
    # Not to_pandas_dtype(), which returns the same: some versions of pyarrow import pandas for it.
    kind = "f" if pa.types.is_floating(type_) else "u" if pa.types.is_unsigned_integer(type_) else "i"
    return np.dtype(f"{kind}{type_.bit_width // 8}")


def array_of(values: Vector, type_: pa.DataType, valid: Mask | None = None) -> pa.Array:
    """Return an Arrow array over contiguous ``values`` of the storage type: numbers, or rows of 64-bit words for decimals."""
    count = len(values)
    if valid is not None and bool(valid.all()):
        valid = None
    validity = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    if not pa.types.is_decimal(type_):
        values = values.astype(storage_dtype(type_), copy=False)
    return pa.Array.from_buffers(type_, count, [validity, pa.py_buffer(np.ascontiguousarray(values))])


def both_valid(a: Mask | None, b: Mask | None) -> Mask | None:
    """Return which slots hold a value in both columns, or None if all do."""
    return b if a is None else a if b is None else a & b


def offsets_of(lengths: Ints) -> Ints:
    """Return the start of each of several adjacent spans, and finally the end of all."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def spans(start: Ints, lengths: Ints) -> Ints:
    """Return ``start[0], start[0] + 1, ...`` (``lengths[0]`` numbers), then ``start[1], ...``, and so on."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(start - (ends - lengths), lengths) + np.arange(total)


def take(array: pa.Array, rows: Ints, valid: Mask | None = None) -> pa.Array:
    """Return ``array[rows]``, with null for rows that are not ``valid``."""
    indices = pa.array(rows) if valid is None else pa.array(rows, mask=~valid)
    return array.take(indices)


def list_of(values: pa.Array, lengths: Ints) -> pa.Array:
    """Cut ``values`` into lists with ``lengths`` items, or raise OverflowError if one array cannot hold them (2**31 - 1)."""
    offsets = offsets_of(lengths)
    if offsets[-1] >= 2**31:
        raise OverflowError(
            f"{offsets[-1]} list items in one table; an Arrow list array holds 2147483647: fire fewer windows at once"
        )
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), values)


def list_parts(lists: pa.Array) -> tuple[pa.Array, Ints]:
    """Return the items of all lists, end to end, and the length of each list."""
    offsets = lists.offsets.to_numpy()
    lengths: Ints = np.diff(offsets).astype(np.int64)
    return lists.flatten(), lengths


def normal_floats(array: pa.Array) -> pa.Array:
    """Return floats as SQL groups them, with a single NaN and a single zero. Other arrays pass unchanged."""
    if not pa.types.is_floating(array.type):
        return array
    values = numbers(array) + storage_dtype(array.type).type(0)  # -0.0 + 0.0 is 0.0
    values[np.isnan(values)] = np.nan
    return array_of(values, array.type, valid_of(array))


def storable(table: pa.Table) -> pa.Table:
    """Replace numbers of more than 38 digits, which sums of decimals need, by their bytes for Spark and Parquet."""
    for place, field in enumerate(table.schema):
        if pa.types.is_decimal256(field.type):
            table = table.set_column(place, pa.field(field.name, pa.binary()), _bytes_of(plain(table.column(place))))
    return table


def storable_type(type_: pa.DataType) -> pa.DataType:
    """Return the type that :func:`storable` gives a column."""
    return pa.binary() if pa.types.is_decimal256(type_) else type_


def typed(column: pa.Array, type_: pa.DataType) -> pa.Array:
    """Return a column of saved state in the wanted type. Storage may have returned a similar type."""
    if pa.types.is_decimal256(type_) and not pa.types.is_decimal(column.type):
        data = column.cast(pa.binary(type_.byte_width))
        return pa.Array.from_buffers(type_, len(data), data.buffers(), offset=data.offset)
    array: pa.Array = as_type(column, type_)
    return array


def _bytes_of(column: pa.Array) -> pa.Array:
    width = pa.binary(column.type.byte_width)
    return pa.Array.from_buffers(width, len(column), column.buffers(), offset=column.offset).cast(pa.binary())


@dataclass(frozen=True, slots=True)
class ListPairs:
    """For each row, every item of one list with every item of the other; null replaces the items of an empty list.

    ``left`` and ``right`` are the items of all lists, end to end.

    >>> pairs = ListPairs.of(pa.array([[1, 2], []]), pa.array([[7, 8], [9]]))
    >>> [(rows.tolist(), one.to_pylist(), other.to_pylist()) for rows, one, other in pairs.portions(3)]
    [([0, 0, 0], [1, 1, 2], [7, 8, 7]), ([0, 1], [2, None], [8, 9])]
    """

    left: pa.Array
    right: pa.Array
    left_lengths: Ints
    right_lengths: Ints

    @classmethod
    def of(cls, left: pa.Array | pa.ChunkedArray, right: pa.Array | pa.ChunkedArray) -> ListPairs:
        """Return the pairs of two list columns without nulls."""
        (ours, lengths), (theirs, others) = (
            list_parts(one_chunk(lists) if isinstance(lists, pa.ChunkedArray) else lists) for lists in (left, right)
        )
        return cls(ours, theirs, lengths, others)

    @classmethod
    def of_left(cls, left: pa.Array | pa.ChunkedArray) -> ListPairs:
        """Return the items of one list column, each once."""
        items, lengths = list_parts(one_chunk(left) if isinstance(left, pa.ChunkedArray) else left)
        return cls(items, pa.nulls(0), lengths, np.zeros(len(lengths), np.int64))

    @property
    def counts(self) -> Ints:
        """The number of pairs of each row, at least one."""
        found: Ints = np.maximum(self.left_lengths, 1) * np.maximum(self.right_lengths, 1)
        return found

    def portions(self, most: int) -> Iterator[tuple[Ints, pa.Array, pa.Array]]:
        """Yield at most ``most`` pairs at a time (rows, left items, right items), ordered by row, left and right item."""
        ends = np.cumsum(self.counts)
        left_offsets, right_offsets = offsets_of(self.left_lengths), offsets_of(self.right_lengths)
        for begin in range(0, int(ends[-1]) if len(ends) else 0, most):
            end = min(begin + most, int(ends[-1]))
            first, last = np.searchsorted(ends, [begin, end - 1], "right")
            rows = np.arange(first, last + 1)
            starts = ends[rows] - self.counts[rows]
            lengths = np.minimum(ends[rows], end) - np.maximum(starts, begin)
            of = np.repeat(rows, lengths)
            number = np.arange(begin, end) - np.repeat(starts, lengths)
            one, other = np.divmod(number, np.maximum(self.right_lengths, 1)[of])
            yield (
                of,
                _items(self.left, left_offsets, self.left_lengths, of, one),
                _items(self.right, right_offsets, self.right_lengths, of, other),
            )


def _items(items: pa.Array, offsets: Ints, lengths: Ints, of: Ints, place: Ints) -> pa.Array:
    there = lengths[of] > 0
    return take(items, np.where(there, offsets[:-1][of] + place, 0), None if there.all() else there)


def key_fields(keys: pa.Schema) -> list[pa.Field]:
    """Return the key columns of a state table, renamed because users' names could collide with other columns."""
    return [pa.field(f"key {place}", field.type) for place, field in enumerate(keys)]
