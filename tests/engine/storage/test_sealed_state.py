"""Seals of stored values: the error for each kind of damage, the place that it names, and the formats that are distinguished."""

from __future__ import annotations

import pickle
import struct
from zlib import crc32

import pyarrow as pa
import pytest

from panestream.engine.storage.sealed_state import SEAL_VERSION, SealedState
from panestream.engine.storage.state import MemoryState
from panestream.errors import StateDamagedError, StateFormatError

pytestmark = pytest.mark.usefixtures("values_apart")


class NumberingStore(MemoryState):
    """A store that numbers its micro-batches, like Spark's."""

    number = 0

    @property
    def micro_batch(self):
        return self.number


def open_sealed(store: MemoryState, group: int = 3) -> SealedState:
    return SealedState(store, group, "sessions")


def store_after(batches: int = 2) -> tuple[NumberingStore, list[dict]]:
    """Return a store after micro-batches 10, 12, 14 …, and its contents after each."""
    store, contents_after = NumberingStore(), []
    for number in range(batches):
        store.number = 10 + 2 * number
        state = open_sealed(store)
        state.get("meta", 0)
        state.put("pages", 7, b"page %d" % number)
        state.put("pages", 8, b"other %d" % number)
        state.put("elements", number, b"elements %d" % number)
        state.put("meta", 0, b"record %d" % number)
        contents_after.append(dict(store.values))
    store.number += 2
    return store, contents_after


def error_message(store: MemoryState, *reads: tuple[str, int]) -> str:
    state = open_sealed(store)
    with pytest.raises(StateDamagedError) as caught:
        [state.get(space, key) for space, key in [("meta", 0), *reads]]
    return str(caught.value)


def test_sealed_values_are_read_back_and_missing_ones_are_none():
    store, _ = store_after()
    state = open_sealed(store)
    assert state.get("meta", 0) == b"record 1"
    assert (state.get("pages", 7), state.get("pages", 8), state.get("elements", 0)) == (b"page 1", b"other 1", b"elements 0")
    assert open_sealed(MemoryState()).get("meta", 0) is None


def test_sealed_state_reads_its_own_writes_before_and_after_a_commit():
    store = MemoryState()
    state = open_sealed(store)
    for number in range(3):
        state.put("pages", 1, b"%d" % number)
        assert state.get("pages", 1) == b"%d" % number
        state.put("meta", 0, b"x")
    state.remove("pages", 1)
    state.put("meta", 0, b"y")
    assert open_sealed(store).get("meta", 0) == b"y"


def test_equal_values_give_equal_bytes_in_any_order_of_writes():
    store, other = MemoryState(), MemoryState()
    for target, keys in ((store, (1, 2, 300)), (other, (300, 2, 1))):
        state = open_sealed(target)
        for key in keys:
            state.put("pages", key, b"same")
        state.put("meta", 0, b"record")
    assert store.values == other.values


def test_error_names_a_stale_page_and_both_micro_batches():
    store, contents_after = store_after()
    store.values["pages", 7] = contents_after[0]["pages", 7]
    assert error_message(store, ("pages", 8), ("pages", 7)) == (
        "the state of key group 3 (sessions) is damaged: value 7 of 'pages' is stale: it was written in micro-batch 10, where that "
        "of micro-batch 12 is expected; stop the query, and put back a copy of its checkpoint from before the damage, or start on "
        "a new checkpoint"
    )


def test_micro_batches_are_counted_if_the_store_does_not_number_them():
    store, contents_after = MemoryState(), []
    for number in range(3):
        state = open_sealed(store)
        state.get("meta", 0)
        state.put("pages", 7, b"%d" % number)
        state.put("meta", 0, b"record")
        contents_after.append(dict(store.values))
    store.values["pages", 7] = contents_after[0]["pages", 7]
    assert "written in micro-batch 0, where that of micro-batch 2 is expected" in error_message(store, ("pages", 7))


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (("meta", 0), "the meta record is stale: it was written in micro-batch 10, where that of micro-batch 12"),
        (("meta", 1), "value 1 of 'meta' is stale: it was written in micro-batch 10, where that of micro-batch 12"),
    ],
)
def test_stale_meta_record_or_witness_is_an_error(place, words):
    store, contents_after = store_after()
    store.values[place] = contents_after[0][place]
    assert words in error_message(store)


@pytest.mark.parametrize("place", [("meta", 0), ("meta", 1), ("pages", 8), ("elements", 1)])
def test_missing_value_is_an_error(place):
    store, _ = store_after()
    del store.values[place]
    assert "is missing; stop the query" in error_message(store, place)


def test_removing_a_missing_value_is_an_error():
    store, _ = store_after()
    del store.values["elements", 1]
    with pytest.raises(StateDamagedError, match="value 1 of 'elements' is missing"):
        open_sealed(store).remove("elements", 1)


def test_error_names_the_original_place_of_a_moved_value():
    store, _ = store_after()
    store.values["pages", 7] = store.values["pages", 8]
    assert "value 7 of 'pages' is another one: value 8 of 'pages' of key group 3" in error_message(store, ("pages", 7))
    other = MemoryState()
    open_sealed(other, group=4).put("elements", 1, b"elements 1")
    store.values["elements", 1] = other.values["elements", 1]
    assert "value 1 of 'elements' of key group 4" in error_message(store, ("elements", 1))


@pytest.mark.parametrize("place", [("meta", 0), ("meta", 1), ("pages", 7), ("elements", 1)])
def test_every_flipped_bit_and_every_truncation_is_found(place):
    store, _ = store_after()
    whole = store.values[place]
    for bit in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        store.values[place] = bytes(damaged)
        assert "checksum" in error_message(store, place) or "was not written by panestream" in error_message(store, place)
    for length in range(len(whole)):
        store.values[place] = whole[:length]
        error_message(store, place)


def of_version(value: bytes, version: int) -> bytes:
    """Return the value as another version of the format writes it. Only the first bytes matter."""
    head = value[:3] + bytes([version])
    return head + struct.pack("<I", crc32(value[8:], crc32(head))) + value[8:]


def test_other_format_is_not_reported_as_damage():
    store, _ = store_after()
    store.values["meta", 0] = of_version(store.values["meta", 0], SEAL_VERSION + 1)
    with pytest.raises(StateFormatError, match=r"state of key group 3 .*format 4.*written by a newer panestream"):
        open_sealed(store).get("meta", 0)
    store.values["meta", 0] = of_version(store.values["meta", 0], 1)
    with pytest.raises(StateFormatError, match="written by an older panestream"):
        open_sealed(store).get("meta", 0)


def test_state_of_the_first_format_without_seals_is_refused():
    table = pa.table({"n": [1]}).replace_schema_metadata({b"panestream": b'{"format":1,"identity":{}}'})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    store = MemoryState({("meta", 0): sink.getvalue().to_pybytes()})
    with pytest.raises(StateFormatError, match="format 1, this version of panestream reads 3: it was written by an older"):
        open_sealed(store).get("meta", 0)


def test_damage_error_keeps_its_place_when_pickled():
    store, _ = store_after()
    del store.values["pages", 7]
    state = open_sealed(store)
    state.get("meta", 0)
    with pytest.raises(StateDamagedError) as caught:
        state.get("pages", 7)
    back = pickle.loads(pickle.dumps(caught.value))
    assert (back.group, back.space, back.key, str(back)) == (3, "pages", 7, str(caught.value))


def test_counters_count_calls_and_bytes_of_the_store():
    store, _ = store_after()
    state = open_sealed(store)
    state.get("meta", 0)
    state.put("pages", 7, b"x")
    state.put("meta", 0, b"y")
    assert (state.counted.gets, state.counted.puts) == (2, 3)
    assert state.counted.bytes_written == sum(len(store.values[place]) for place in (("pages", 7), ("meta", 0), ("meta", 1)))
