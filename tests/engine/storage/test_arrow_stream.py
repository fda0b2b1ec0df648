"""Arrow streams with false or unexpected metadata. Each test plants one fault by hand."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from panestream.engine.storage.payload import check_columns, check_stream

TABLE = pa.table({"n": [1, 2, 3]})
END = b"\xff\xff\xff\xff\0\0\0\0"


def stream_of(*tables, **options):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, tables[0].schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        for table in tables:
            writer.write_table(table)
    return sink.getvalue().to_pybytes()


def dictionary_table(*words):
    return pa.table({"w": pa.array(words).dictionary_encode()})


@pytest.mark.parametrize("tables", [[TABLE], [TABLE, TABLE.slice(1)], [TABLE.slice(0, 0)], [pa.table({})]])
def test_streams_that_panestream_writes_are_accepted(tables):
    check_stream(stream_of(*tables))


def test_dictionaries_are_accepted_only_if_allowed():
    check_stream(stream_of(dictionary_table("a", "b")), dictionaries=True)
    with pytest.raises(ValueError, match="a message is of the kind 2, which is never written here"):
        check_stream(stream_of(dictionary_table("a", "b")))


def test_compressed_buffers_are_refused():
    with pytest.raises(ValueError, match="its values are compressed, which they never are here"):
        check_stream(stream_of(pa.table({"n": range(1000)}), compression="zstd"))


def test_truncated_stream_is_refused():
    whole = stream_of(TABLE)
    assert whole.endswith(END)
    for length in range(len(whole)):
        with pytest.raises(ValueError, match=r"it is incomplete, or its header is unreadable|not an Arrow stream"):
            check_stream(whole[:length])
    # Bytes after the end are ignored.
    check_stream(whole + b"more")


@pytest.mark.parametrize("place", [0, 1])
def test_message_without_its_marker_is_refused(place):
    whole = stream_of(TABLE)
    second = whole.index(b"\xff\xff\xff\xff", 4)
    at = [0, second][place]
    with pytest.raises(ValueError, match="it is not an Arrow stream"):
        check_stream(whole[:at] + b"\xfe" + whole[at + 1 :])


def test_stream_without_a_schema_is_refused():
    with pytest.raises(ValueError, match="it is not an Arrow stream"):
        check_stream(END)


def test_stream_with_only_a_schema_is_accepted_and_a_second_schema_refused():
    whole = stream_of(TABLE)
    schema = whole[: whole.index(b"\xff\xff\xff\xff", 4)]
    check_stream(schema + END)
    with pytest.raises(ValueError, match="a message is of the kind 1, which is never written here"):
        check_stream(schema + schema + END)
    with pytest.raises(ValueError, match="a message is of the kind 1"):
        check_stream(schema + schema + END, dictionaries=True)


@pytest.mark.parametrize(("rows", "error_number"), [(2**31 - 1, None), (2**31, "2,147,483,648"), (2**62, ""), (-1, "-1")])
def test_impossible_number_of_rows_is_refused(rows, error_number):
    number_of_rows = 1_234_567
    whole = stream_of(pa.table({"n": pa.nulls(number_of_rows)}))
    number = number_of_rows.to_bytes(8, "little")
    # The number occurs twice: for the batch and for its column.
    at = whole.index(number)
    errors = []
    for place in {at, whole.rindex(number)}:
        changed_stream = whole[:place] + rows.to_bytes(8, "little", signed=True) + whole[place + 8 :]
        try:
            check_stream(changed_stream)
        except ValueError as error:
            errors.append(str(error))
    assert len(errors) == (error_number is not None)
    assert all(f"it says that it has {rows:,} rows" == error_text for error_text in errors)


def test_negative_length_of_a_body_is_refused():
    """A reader that follows such a length would go back and read the same message forever."""
    whole = stream_of(pa.table({"n": range(12_345)}))
    length = (12_345 * 8).to_bytes(8, "little")
    errors = []
    # The number occurs twice: for the body of the message and for its buffer.
    for place in {whole.index(length), whole.rindex(length)}:
        try:
            check_stream(whole[:place] + (-1).to_bytes(8, "little", signed=True) + whole[place + 8 :])
        except ValueError as error:
            errors.append(str(error))
    assert errors == ["a message has a negative length"]


def with_offsets(type_, count, *, values=None, content=None):
    """Return a list or text column and its offsets, which a test may overwrite. Arrow checks them only when it builds arrays
    and tables.
    """
    wide = pa.types.is_large_list(type_) or pa.types.is_large_string(type_) or pa.types.is_large_binary(type_)
    offsets = np.zeros(count + 1, np.int64 if wide else np.int32)
    buffers = [None, pa.py_buffer(offsets), *([] if content is None else [pa.py_buffer(content)])]
    return pa.Array.from_buffers(type_, count, buffers, children=[] if values is None else [values]), offsets


def check_with_offsets(column, offsets, new_offsets, *, fits):
    table = pa.table({"column": column})
    offsets[:] = new_offsets
    if fits:
        check_columns(table)
    else:
        with pytest.raises(pa.ArrowInvalid):
            check_columns(table)


OFFSETS = [
    ([0, 1, 4, 4], True),
    ([1, 1, 1, 1], True),
    ([-1, 1, 4, 4], False),
    ([0, 1, 4, 5], False),
    ([0, 3, 2, 4], False),
    ([0, 9, 9, 4], False),
]
WRAPS = {
    "plain": lambda column: column,
    "struct": lambda column: pa.StructArray.from_arrays([pa.array(range(len(column))), column], names=["n", "l"]),
    "list": lambda column: pa.ListArray.from_arrays(pa.array([0, len(column)], pa.int32()), column),
    "fixed": lambda column: pa.FixedSizeListArray.from_arrays(column, len(column)),
    "value of a map": lambda column: pa.MapArray.from_arrays(
        pa.array([0, len(column)], pa.int32()), pa.array(range(len(column))), column
    ),
    "key of a map": lambda column: pa.MapArray.from_arrays(
        pa.array([0, len(column)], pa.int32()), column, pa.array(range(len(column)))
    ),
}


@pytest.mark.parametrize(("offsets", "fits"), OFFSETS)
@pytest.mark.parametrize("type_", [pa.list_(pa.int64()), pa.large_list(pa.int64())], ids=str)
@pytest.mark.parametrize("wrap", WRAPS)
def test_offsets_of_lists_beyond_their_values_are_refused(offsets, fits, type_, wrap):
    column, memory = with_offsets(type_, 3, values=pa.array([1, 2, 3, 4]))
    check_with_offsets(WRAPS[wrap](column), memory, offsets, fits=fits)


@pytest.mark.parametrize(("offsets", "fits"), OFFSETS)
@pytest.mark.parametrize("type_", [pa.string(), pa.binary(), pa.large_string(), pa.large_binary()], ids=str)
@pytest.mark.parametrize("wrap", ["plain", "struct"])
def test_offsets_of_texts_beyond_their_bytes_are_refused(offsets, fits, type_, wrap):
    column, memory = with_offsets(type_, 3, content=b"abcd")
    check_with_offsets(WRAPS[wrap](column), memory, offsets, fits=fits)


@pytest.mark.parametrize(("offsets", "fits"), [([0, 1, 2], True), ([0, 2, 1], False), ([0, 9, 2], False)])
def test_offsets_of_maps_beyond_their_entries_are_refused(offsets, fits):
    memory = np.zeros(3, np.int32)
    entries = pa.StructArray.from_arrays(
        [pa.array(["a", "b"]), pa.array([1, 2])],
        fields=[pa.field("key", pa.string(), nullable=False), pa.field("value", pa.int64())],
    )
    column = pa.Array.from_buffers(pa.map_(pa.string(), pa.int64()), 2, [None, pa.py_buffer(memory)], children=[entries])
    check_with_offsets(column, memory, offsets, fits=fits)


def test_texts_are_not_checked_for_utf_8():
    broken = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(np.array([0, 2], np.int32).tobytes()), pa.py_buffer(b"\xff\xfe")]
    )
    check_columns(pa.table({"t": broken}))


def union(codes, offsets):
    parts = [pa.array([1, 2]), pa.array(["a"])]
    types = pa.array(codes, pa.int8())
    template = pa.UnionArray.from_dense(pa.array([0] * len(codes), pa.int8()), pa.array([0] * len(codes), pa.int32()), parts)
    buffers = [None, types.buffers()[1], pa.array(offsets, pa.int32()).buffers()[1]]
    return pa.Array.from_buffers(template.type, len(codes), buffers, children=parts)


@pytest.mark.parametrize(
    ("codes", "offsets", "fits"),
    [
        ([0, 1, 0], [0, 0, 1], True),
        ([], [], True),
        ([0, 0], [0, 2], False),
        ([0, 0], [-1, 0], False),
        ([1, 1], [0, 1], False),
        ([0, 2], [0, 0], False),
        ([0, -1], [0, 0], False),
    ],
)
def test_union_values_outside_of_their_part_are_refused(codes, offsets, fits):
    table = pa.table({"u": union(codes, offsets)})
    if fits:
        check_columns(table)
    else:
        with pytest.raises(pa.ArrowInvalid):
            check_columns(table)


@pytest.mark.parametrize(("code", "fits"), [(0, True), (1, True), (2, False), (-1, False)])
def test_dictionary_codes_beyond_the_dictionary_are_refused(code, fits):
    column = pa.DictionaryArray.from_arrays(pa.array([0, code], pa.int8()), pa.array(["a", "b"]), safe=False)
    for dictionaries in (False, True):
        if fits:
            check_columns(pa.table({"w": column}), dictionaries=dictionaries)
        else:
            with pytest.raises(pa.ArrowInvalid):
                check_columns(pa.table({"w": column}), dictionaries=dictionaries)
