"""State, savepoints and payloads from an attacker who can write to a checkpoint. They have valid checksums and malicious content.

Whatever they contain, no code runs, Arrow reads no memory out of bounds, and the error is a panestream error.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import pickle
import random
import struct

import numpy as np
import pyarrow as pa
import pytest

from panestream.engine.operators.row.codec import Codec
from panestream.engine.operators.row.contents import AggregateRows
from panestream.engine.operators.row.pages import ColumnReader, ColumnWriter
from panestream.engine.operators.row.tables import ValueTexts
from panestream.engine.plan import WindowQuery
from panestream.engine.planner import plan_functions
from panestream.engine.savepoint.plans import plan_json, plan_of
from panestream.engine.savepoint.recipes import recipe_of
from panestream.engine.storage import payload
from panestream.engine.storage.sealed_state import SealedState
from panestream.errors import InvalidPlanError, PanestreamError, StateFormatError
from panestream.windowing.assigners import TumblingEventTimeWindows
from panestream.windowing.functions import AggregateFunction
from tests.comparison import harness
from tests.comparison.savepoints import Query

SEED = int(os.environ.get("PANESTREAM_SEED", "1"))
CASES = harness.cases(300)
RAN = []


def run(what):
    RAN.append(what)
    return what


class Evil:
    """An object that runs code when it is unpickled."""

    def __reduce__(self):
        return run, ("ran",)


@pytest.fixture(autouse=True)
def nothing_has_run():
    RAN.clear()
    yield
    assert RAN == []


def pickled_column():
    """Return the payload of a page with a pickle, as a query that allows pickles writes it."""
    writer = ColumnWriter(Codec(pickled=True))
    writer.values("contents", [Evil()])
    return writer.finish({"name": "contents"})


def test_unpickling_the_crafted_object_runs_code():
    pickle.loads(pickle.dumps(Evil()))
    assert RAN == ["ran"]
    RAN.clear()


def test_pickle_in_a_page_is_refused():
    with pytest.raises(InvalidPlanError, match="reading a pickle runs its code"):
        ColumnReader(pickled_column()).values("contents")


@pytest.mark.parametrize("kind", [["pickle"], ["tuple", [["pickle"]]], ["list", [["pickle"]]], ["union", [["pickle"]]]])
def test_pickle_nested_in_another_type_is_refused(kind):
    blob = pa.array([pickle.dumps([Evil()])], pa.large_binary())
    arrays = {
        "pickle": blob,
        "tuple": pa.StructArray.from_arrays([blob], ["0"]),
        "list": pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), blob),
        "union": pa.UnionArray.from_dense(pa.array([0], pa.int8()), pa.array([0], pa.int32()), [blob]),
    }
    with pytest.raises(InvalidPlanError, match="reading a pickle runs its code"):
        Codec().decode(arrays[kind[0]], kind)


def test_pickle_in_the_text_of_a_savepoint_is_refused():
    text = json.dumps({"$columns": base64.b64encode(pickled_column()).decode()})
    with pytest.raises(InvalidPlanError, match="reading a pickle runs its code"):
        ValueTexts(Codec()).read([text])


class Mean(AggregateFunction):
    """A user function whose stored state an attacker can replace."""

    def create_accumulator(self):
        return Evil()

    def add(self, value, accumulator):
        return accumulator

    def get_result(self, accumulator):
        return 1


def pickling_query():
    windowing = WindowQuery(TumblingEventTimeWindows(10), every_firing=True, pickled_state=True)
    operator = plan_functions(
        windowing, AggregateRows(Mean()), pa.schema([("n", pa.int64())]), harness.ROWS, Mean(), harness.KEYS
    )
    query = Query(harness.plan_for(operator, windowing, 100), 1)
    query.run(harness.MicroBatch([[("a", 1, 1, None, 1)]], clock=100))
    return query


def test_saved_permission_for_pickles_does_not_apply_to_readers():
    """The plan is stored next to the pickles, so an attacker can write both."""
    query = pickling_query()
    saved = json.loads(json.dumps(plan_json(query.plan)))
    assert saved["operator"]["pickled_state"] is True
    RAN.clear()
    read = plan_of(saved)
    with pytest.raises(InvalidPlanError, match="allow_pickled_state=True"):
        read.operator.for_group(read, query.states[0], 0).tables()
    allowed = plan_of(saved, pickles=True)
    allowed.operator.for_group(allowed, query.states[0], 0).tables()
    assert RAN == ["ran"]
    RAN.clear()


@pytest.mark.parametrize("kind", ["O", "|O8", "f8,O", "V8", "M8[us]", "U4", "no such type"])
def test_numpy_array_of_objects_is_refused(kind):
    """numpy would interpret the bytes of an object array as addresses."""
    parts = pa.StructArray.from_arrays([pa.array([kind]), pa.array([[1]]), pa.array([b"\xff" * 64])], ["0", "1", "2"])
    of = ["tuple", [["str"], ["list", [["int"]]], ["bytes"]]]
    with pytest.raises(StateFormatError, match="numpy's arrays of"):
        Codec().decode(parts, ["ndarray", [of]])
    with pytest.raises(StateFormatError, match="numpy's arrays of"):
        Codec().decode(pa.array([1]), ["numpy", [], kind])


@pytest.mark.parametrize("zone", ["../../../../etc/passwd", "/etc/passwd", "a\0b"])
def test_time_zone_that_is_a_path_is_refused(zone):
    times = pa.StructArray.from_arrays(
        [pa.array([0], pa.timestamp("us")), pa.array([0], pa.int16()), pa.array([False])], ["time", "zone", "fold"]
    )
    with pytest.raises(StateFormatError, match="time zone"):
        Codec().decode(times, ["zoned", [], [["zone", zone]]])


# -- Arrow streams -------------------------------------------------------------------------------------------------------


def stream_of(table, **options):
    sink = pa.BufferOutputStream()
    schema = table.schema.with_metadata({b"panestream": json.dumps({"format": payload.FORMAT_VERSION})})
    with pa.ipc.new_stream(sink, schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table.cast(schema))
    return sink.getvalue().to_pybytes()


TABLE = pa.table(
    {
        "user": ["ann", None, "bob", "cleo"],
        "n": [1, 2, 3, 4],
        "tags": [["a", "b"], [], None, ["c"]],
        "at": pa.array([{"x": "p", "y": 1.5}] * 4),
        "count": pa.array([[("k", 1)], [], [("l", 2)], None], pa.map_(pa.string(), pa.int64())),
    }
)


def test_unchanged_stream_is_read():
    found, _ = payload.decode(stream_of(TABLE))
    assert found.equals(TABLE)


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_compressed_values_are_refused_without_decompression(codec):
    bomb = stream_of(pa.table({"n": np.zeros(4_000_000)}), compression=codec)
    assert len(bomb) < 200_000
    before = pa.total_allocated_bytes()
    with pytest.raises(StateFormatError, match="its values are compressed"):
        payload.decode(bomb)
    assert pa.total_allocated_bytes() - before < 1 << 20


def test_stream_with_too_many_rows_is_refused():
    rows = 123_457
    few = stream_of(pa.table({"n": pa.nulls(rows)}))
    many = few.replace(struct.pack("<q", rows), struct.pack("<q", 2**33))
    assert few != many
    with pytest.raises(StateFormatError, match="it says that it has 8,589,934,592 rows"):
        payload.decode(many)


def test_stream_with_dictionaries_is_refused():
    with pytest.raises(StateFormatError, match="of the kind 2, which is never written"):
        payload.decode(stream_of(pa.table({"n": pa.array(["a", "b"]).dictionary_encode()})))


def test_truncated_stream_is_refused():
    whole = stream_of(TABLE)
    for length in range(len(whole)):
        with pytest.raises(StateFormatError):
            payload.decode(whole[:length])


def test_message_longer_than_the_stream_is_refused():
    whole = bytearray(stream_of(TABLE))
    for size in (2**31, 2**32 - 1, len(whole)):
        struct.pack_into("<I", whole, 4, size)
        with pytest.raises(StateFormatError):
            payload.decode(bytes(whole))


@pytest.mark.parametrize("type_", [pa.string(), pa.large_binary(), pa.list_(pa.int64()), pa.map_(pa.string(), pa.int64())])
def test_offsets_out_of_bounds_are_refused(type_):
    values = {pa.string(): ["abc", "defg", "h"], pa.large_binary(): [b"abc", b"defg", b"h"]}.get(type_)
    if values is None:
        values = [[("k", 1)] * n for n in (3, 4, 1)] if pa.types.is_map(type_) else [[1] * n for n in (3, 4, 1)]
    raw = stream_of(pa.table({"x": pa.array(values, type_)}))
    width = "<i8" if type_ == pa.large_binary() else "<i4"
    good = np.array([0, 3, 7, 8], width).tobytes()
    assert raw.count(good) == 1
    for wrong in ([0, 3, 2**30, 8], [0, -5, 7, 8], [0, 3, 7, 2**30], [7, 3, 7, 8]):
        with pytest.raises(StateFormatError):
            payload.decode(raw.replace(good, np.array(wrong, width).tobytes()))


def test_strings_that_are_not_utf_8_are_read():
    """Spark's strings may be invalid UTF-8. This is not damage, and readers must handle it."""
    raw = stream_of(pa.table({"x": pa.array([b"\xff\xfe", b"ok"]).view(pa.string())}))
    found, _ = payload.decode(raw)
    assert found.column("x").chunk(0).view(pa.binary()).to_pylist() == [b"\xff\xfe", b"ok"]


def test_changed_bytes_give_a_panestream_error_or_a_table():
    """Change bytes of a payload without its checksums. The result is a panestream error or a table."""
    rng = random.Random(SEED)
    whole = payload.encode(TABLE, {"seen": {"": 7}})
    found = 0
    for _ in range(CASES):
        raw = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            raw[rng.randrange(len(raw))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        try:
            table, _ = payload.decode(bytes(raw))
            table.validate()
        except PanestreamError:
            found += 1
    assert found > CASES // 10


def test_invalid_headers_are_refused():
    for header in (
        "[]",
        "3",
        '{"format": 2, "packed": {"0": [1]}}',
        '{"format": 2, "schema": "x"}',
        "[" * 50_000,
        '{"format": {}}',
    ):
        sink = pa.BufferOutputStream()
        schema = pa.schema([("n", pa.int64())], metadata={b"panestream": header})
        with pa.ipc.new_stream(sink, schema) as writer:
            writer.write_batch(pa.record_batch([pa.array([1, 2])], schema=schema))
        with pytest.raises(StateFormatError):
            payload.decode(sink.getvalue().to_pybytes())


@pytest.mark.parametrize("data", [b"", b"\xff\xff\xff\xff", b"\xff\xff\xff\xff\x10\0\0\0", b"PAR1" * 9, b"\x80\x04K\x01."])
def test_bytes_that_are_not_a_stream_are_refused(data):
    with pytest.raises(StateFormatError):
        payload.decode(data)


def test_extension_type_with_a_pickle_is_not_unpickled():
    """Arrow once unpickled extension types (CVE-2023-47248). The oldest allowed version does not."""
    said = {b"ARROW:extension:name": b"arrow.py_extension_type", b"ARROW:extension:metadata": pickle.dumps(Evil())}
    table = pa.Table.from_arrays([pa.array([1, 2])], schema=pa.schema([pa.field("n", pa.int64(), metadata=said)]))
    found, _ = payload.decode(stream_of(table))
    assert found.column("n").to_pylist() == [1, 2]
    saved = base64.b64encode(table.schema.serialize()).decode()
    assert recipe_of({"schema": saved}).names == ["n"]


# -- plans ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "harm",
    [
        {"is": "os.system"},
        {"is": "Popen", "args": "true"},
        {"tuple": {"is": "__import__"}},
        {"decimal": "x" * 100},
        {"schema": "AAAA"},
        {"is": "TumblingEventTimeWindows", "size": {"is": "eval"}},
        {"absent": "x", "a": "assigner"},
        {"map": [1]},
        ["TumblingEventTimeWindows", 3],
        None,
    ],
    ids=str,
)
def test_saved_plan_can_create_only_allowed_objects(harm):
    saved = json.loads(json.dumps(plan_json(pickling_query().plan)))
    RAN.clear()
    for place in (saved, saved["operator"]):
        for name in list(place):
            if name in {"format", "identity", "is"}:
                continue
            kept, place[name] = place[name], harm
            if harm is None:
                del place[name]
            with contextlib.suppress(PanestreamError):
                plan_of(saved)
            place[name] = kept
    assert RAN == []


def test_value_of_another_key_group_is_refused():
    from panestream.engine.storage.state import MemoryState

    store = MemoryState()
    SealedState(store, 3, "row").put("meta", 0, b"x")
    with pytest.raises(PanestreamError, match="is another one"):
        SealedState(store, 4, "row").get("meta", 0)
