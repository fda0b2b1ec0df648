"""Tables are read back from payloads unchanged and with narrow integers on the way. Foreign payloads are refused."""

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panestream.engine.storage import payload
from panestream.errors import StateFormatError

int64s = st.one_of(
    st.integers(-130, 130), st.integers(-40000, 40000), st.integers(-(2**33), 2**33), st.integers(-(2**63), 2**63 - 1)
)


@given(st.lists(st.tuples(st.one_of(st.none(), int64s), st.one_of(st.none(), st.text(max_size=5)), st.lists(int64s, max_size=3))))
def test_table_survives_a_payload(rows):
    schema = pa.schema([("n", pa.int64()), ("s", pa.string()), ("l", pa.list_(pa.int64()))])
    table = pa.table([pa.array([row[i] for row in rows], schema.field(i).type) for i in range(3)], schema=schema)
    encoded = payload.encode(table, {"kind": "x", "seen": {"": 7}})
    decoded, header = payload.decode(encoded, schema)
    assert decoded.equals(table)
    assert header == {"format": payload.FORMAT_VERSION, "kind": "x", "seen": {"": 7}}
    assert payload.encode(table, {"kind": "x", "seen": {"": 7}}) == encoded


def test_sliced_and_chunked_tables_with_duplicate_names_survive():
    table = pa.table([pa.chunked_array([[1, 2], [1 << 40, (1 << 40) + 3]]), pa.chunked_array([[1, 2], [3, 4]])], names=["a", "a"])
    decoded, _ = payload.decode(payload.encode(table.slice(1, 3)), table.schema)
    assert decoded.column(0).to_pylist() == [2, 1 << 40, (1 << 40) + 3]
    assert decoded.column(1).to_pylist() == [2, 3, 4]


def test_integers_take_few_bytes_in_a_payload():
    wide = pa.table({"n": pa.array(range(10**15, 10**15 + 1000), pa.int64())})
    assert len(payload.encode(wide)) < 1000 * 2 + 600


def test_table_without_columns_survives_with_its_header():
    table, header = payload.decode(payload.encode(pa.table({}), {"rows": 3}))
    assert table.num_columns == 0
    assert header["rows"] == 3


def test_payload_of_another_format_is_refused():
    table = pa.table({"n": [1]}).replace_schema_metadata({b"panestream": json.dumps({"format": 99})})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(StateFormatError, match="format 99"):
        payload.decode(sink.getvalue().to_pybytes())


def test_payload_with_other_columns_is_refused():
    with pytest.raises(StateFormatError, match="expected were"):
        payload.decode(payload.encode(pa.table({"n": [1]})), pa.schema([("m", pa.int64())]))


instants = st.one_of(
    st.integers(-(2**61), 2**61),
    st.integers(0, 2000).map(lambda n: n * 1_000_000),
    st.integers(0, 2000).map(lambda n: n * 1000 + 10**15),
)


@given(st.lists(instants), st.lists(st.integers(-(2**31), 2**31 - 1)), st.lists(st.none()), st.integers(-(2**63), 2**63 - 1))
def test_columns_of_other_types_survive_a_payload(times, ints, nones, constant):
    size = max(len(times), len(ints), len(nones))
    fill = lambda values: (values * size)[:size] if values else [0] * size  # noqa: E731
    schema = pa.schema(
        [("t", pa.timestamp("us", tz="UTC")), ("z", pa.timestamp("us")), ("i", pa.int32()), ("n", pa.string()), ("c", pa.int64())]
    )
    columns = [fill(times), fill(times), fill(ints), [None] * size, [constant] * size]
    table = pa.table([pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema)
    assert payload.decode(payload.encode(table), schema)[0].equals(table)
    assert payload.decode(payload.encode(table.slice(size // 2)), schema)[0].equals(table.slice(size // 2))


def test_constant_and_null_columns_take_no_bytes():
    table = pa.table({"one": pa.array([7] * 10_000, pa.int64()), "none": pa.nulls(10_000, pa.int64())})
    assert len(payload.encode(table)) < 1200


def test_window_bounds_take_one_byte_each():
    seconds = np.repeat(np.arange(100), 100) * 1_000_000 + 10**15
    table = pa.table({"end": pa.array(seconds).view(pa.timestamp("us", tz="UTC"))})
    assert len(payload.encode(table)) < 10_000 + 1200


def test_types_are_restored_without_an_expected_schema():
    fields = [
        ("t", pa.timestamp("us", tz="UTC")),
        ("i", pa.int32()),
        ("none", pa.string()),
        ("nones", pa.int64()),
        ("c", pa.int64()),
    ]
    table = pa.table(
        [pa.array(v, t) for v, (_, t) in zip([[1, 2], [3, 4], [None] * 2, [None] * 2, [5, 5]], fields, strict=True)],
        schema=pa.schema(fields),
    )
    assert payload.decode(payload.encode(table))[0].equals(table)


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_null_struct_with_non_nullable_fields_can_be_cast(zone):
    """Arrow refuses to cast such a column even to its own type."""
    stored_type = pa.struct([pa.field("n", pa.int64(), nullable=False), pa.field("at", pa.timestamp("us", zone), nullable=False)])
    expected_type = pa.struct([stored_type[0], pa.field("at", pa.timestamp("us", "UTC"), nullable=False)])
    fields = [pa.array([1, 2]), pa.array([3, 4], pa.timestamp("us", zone))]
    column = pa.StructArray.from_arrays(fields, fields=list(stored_type), mask=pa.array([False, True]))
    table = payload.as_schema(pa.table({"pair": column}), pa.schema([("pair", expected_type)]))
    assert table.schema.field("pair").type == expected_type
    assert table.column("pair").is_valid().to_pylist() == [True, False]
    assert table.column("pair")[0].as_py()["n"] == 1


def meta_of(table):
    """Return the metadata of the payload without an expected schema."""
    with pa.ipc.open_stream(payload.encode(table)) as reader:
        return json.loads(reader.schema.metadata[b"panestream"])


def test_payload_has_a_schema_only_if_types_are_ambiguous():
    """Narrow integers become int64 for every reader and floats stay as they are, so a schema would be a waste."""
    clear_types = pa.table({"n": pa.array([10**15, 10**15 + 3], pa.int64()), "x": [0.5, 1.5]})
    assert list(meta_of(clear_types)) == ["format", "packed"]
    for column in (pa.array([None, None], pa.int64()), pa.array([1, 2], pa.int32()), pa.array([5, 6], pa.timestamp("us", "UTC"))):
        assert "schema" in meta_of(pa.table({"n": column}))


@pytest.mark.parametrize(
    ("version", "age"),
    [(payload.FORMAT_VERSION - 1, "an older"), (payload.FORMAT_VERSION + 1, "a newer"), (None, "an older"), ("3", "an older")],
)
def test_format_error_says_whether_a_newer_or_older_version_wrote_it(version, age):
    assert str(payload.wrong_format("it", version, payload.FORMAT_VERSION)) == (
        f"it has format {version!r}, this version of panestream reads {payload.FORMAT_VERSION}: it was written by {age} panestream; "
        "start with the version that wrote it, or on a new checkpoint"
    )


def travels_as(column):
    """Return the type of a column in the payload, and the smallest value and step that were subtracted."""
    encoded = payload.encode(pa.table({"n": column}))
    assert payload.decode(encoded)[0]["n"].combine_chunks().equals(column)
    with pa.ipc.open_stream(encoded) as reader:
        return reader.schema.field(0).type, meta_of(pa.table({"n": column})).get("packed", {}).get("0")


@pytest.mark.parametrize("low", [0, -7, -(2**63)])
@pytest.mark.parametrize(
    ("span", "type_"),
    [
        (0, pa.null()),
        (1, pa.int8()),
        (127, pa.int8()),
        (128, pa.int16()),
        (2**15 - 1, pa.int16()),
        (2**15, pa.int32()),
        (2**31 - 1, pa.int32()),
        (2**31, pa.int64()),
        (2**63 - 1, pa.int64()),
    ],
)
def test_integers_are_stored_as_narrow_as_their_span_allows(low, span, type_):
    expected = [low, 0] if not span else [low, 1] if span < 2**31 else None
    assert travels_as(pa.array([low + span, low, low + span], pa.int64())) == (type_, expected)


def test_integers_whose_span_overflows_are_stored_unchanged():
    for column in ([-(2**63), 2**63 - 1], [-1, 2**63 - 1], [2**62, -(2**62) - 1]):
        assert travels_as(pa.array(column, pa.int64())) == (pa.int64(), None)
        assert travels_as(pa.array(column, pa.timestamp("us"))) == (pa.timestamp("us"), None)


@pytest.mark.parametrize("low", [0, -1, 10**15 + 7])
@pytest.mark.parametrize("step", [1, 1_000, 1_000_000])
def test_instants_are_stored_in_their_largest_common_step(low, step):
    def instants(*steps):
        return pa.array([low + step * number for number in steps], pa.timestamp("us", "UTC"))

    assert travels_as(instants(127, 0, 1)) == (pa.int8(), [low, step])
    assert travels_as(instants(128, 0, 1)) == (pa.int16(), [low, step])
    assert travels_as(instants(2**31 - 1, 0)) == (pa.int32(), [low, step])
    assert travels_as(instants(2**31, 0, 1)) == (pa.timestamp("us", "UTC"), None)
    # This value comes after those that are inspected first.
    assert travels_as(pa.array([*range(0, 10**8, 10**6), 10**8 + 1000], pa.timestamp("us"))) == (pa.int32(), [0, 1000])


def test_columns_with_nulls_or_without_values_are_not_narrowed():
    assert travels_as(pa.array([], pa.int64())) == (pa.int64(), None)
    assert travels_as(pa.nulls(3, pa.int64())) == (pa.null(), None)
    assert travels_as(pa.array([1, None], pa.int64())) == (pa.int64(), None)
    assert travels_as(pa.array([1, 2], pa.int16())) == (pa.int16(), None)
