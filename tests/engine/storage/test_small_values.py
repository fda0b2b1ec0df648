"""Small values in the meta record: they need no call, return after a restart, and are as safe from damage as the record."""

from __future__ import annotations

import struct
from zlib import crc32

import pytest

from panestream.engine.storage.sealed_state import SealedState, SmallValues
from panestream.engine.storage.state import MemoryState
from panestream.errors import StateDamagedError
from tests.comparison import harness
from tests.engine.storage.test_damage import PLANS, stream

SMALL, LARGE = b"small", bytes(SmallValues.MAX_BYTES + 1)


def opened(store: MemoryState) -> SealedState:
    state = SealedState(store, 3, "sessions")
    state.get("meta", 0)
    return state


def store_with(*values: bytes) -> MemoryState:
    store = MemoryState()
    state = opened(store)
    for key, value in enumerate(values):
        state.put("panes", key, value)
    state.put("meta", 0, b"record")
    return store


def test_small_value_is_read_back_without_a_call():
    state = opened(store_with(SMALL, b""))
    calls = state.counted.calls
    assert (state.get("panes", 0), state.get("panes", 1)) == (SMALL, b"")
    state.remove("panes", 1)
    assert state.counted.calls == calls == 2
    state.put("meta", 0, b"record")
    with pytest.raises(StateDamagedError, match="value 1 of 'panes' is missing"):
        opened(state.counted.inner).get("panes", 1)


def test_meta_record_holds_values_up_to_a_size_and_a_total():
    fit = SmallValues.MAX_ALL_BYTES // SmallValues.MAX_BYTES
    store = store_with(LARGE, *[LARGE[1:]] * (fit + 1))
    assert sorted(store.values) == [("meta", 0), ("meta", 1), ("panes", 0), ("panes", fit + 1)]
    state = opened(store)
    state.remove("panes", 1)
    state.put("panes", fit + 2, LARGE[1:])
    assert ("panes", fit + 2) not in store.values, "a value that is removed makes room"


def test_page_moves_as_it_grows_and_shrinks():
    store = MemoryState()
    for value in (SMALL, LARGE, LARGE[2:], LARGE, b""):
        state = opened(store)
        state.put("pages", 7, value)
        assert state.get("pages", 7) == value
        state.put("meta", 0, b"record")
        assert opened(store).get("pages", 7) == value
        assert (("pages", 7) in store.values) == (value == LARGE)


def test_record_that_is_read_again_has_its_values_once():
    state = opened(store_with(SMALL))
    assert state.get("meta", 0) == b"record"
    assert (state._small._bytes, state.get("panes", 0)) == (len(SMALL), SMALL)


def test_other_values_of_meta_stay_in_the_store():
    """Readers of broadcast state look for them there."""
    store = MemoryState()
    opened(store).put("meta", 2, SMALL)
    assert ("meta", 2) in store.values


def test_equal_small_values_give_equal_bytes_in_any_order_of_writes():
    store, other = MemoryState(), MemoryState()
    for target, places in ((store, [("b", 1), ("a", 2), ("b", -3)]), (other, [("b", -3), ("b", 1), ("a", 2)])):
        state = opened(target)
        for space, key in places:
            state.put(space, key, SMALL)
        state.put("meta", 0, b"record")
    assert store.values == other.values


def test_every_flipped_bit_and_every_truncation_of_a_record_with_values_is_found():
    store = store_with(SMALL)
    whole = store.values["meta", 0]
    damaged = [
        bytes(whole[:place] + bytes([whole[place] ^ 1 << bit]) + whole[place + 1 :])
        for place in range(len(whole))
        for bit in range(8)
    ]
    for value in [*damaged, *(whole[:length] for length in range(len(whole)))]:
        store.values["meta", 0] = value
        with pytest.raises(StateDamagedError):
            opened(store)


def sealed_value(body: bytes) -> bytes:
    """Return bytes that begin as a value of panestream does, with the right checksum."""
    head = b"PST\x03"
    return head + struct.pack("<I", crc32(body, crc32(head))) + body


@pytest.mark.parametrize("key", [0, 1])
@pytest.mark.parametrize(
    "value",
    [
        *(sealed_value(bytes(length)) for length in (0, 20)),
        sealed_value(struct.pack("<qiqB", 0, 3, 1, 4) + b"\xff\xfe\xfd\xfc"),
        *(sealed_value(struct.pack("<qiqB", 0, 3, 1, 4) + b"meta" + bytes(length)) for length in (0, 3, 5)),
    ],
)
def test_record_or_witness_with_an_impossible_form_is_damaged(key, value):
    store = store_with(SMALL)
    store.values["meta", key] = value
    with pytest.raises(StateDamagedError):
        opened(store)


def sealed_record(beginning: bytes) -> MemoryState:
    """Return a store with an intact record that begins as given, as an attacker can write it."""
    store = MemoryState()
    state = opened(store)
    written = state._put("meta", 0, beginning)
    state._put("meta", 1, struct.pack("<I", written.checksum))
    return store


OUTGROWS_IT = {"panes", "panes, late firings", "rolling values", "rules"}
"""Plans whose values have more than 32 KiB together, or rules, which are not in the record."""


@pytest.mark.parametrize("name", [name for name in PLANS if name not in OUTGROWS_IT])
def test_key_group_with_little_state_makes_four_calls(name):
    """The meta record and its witness are read and written."""
    state, calls = MemoryState(), []
    for batch in stream(0):
        output = PLANS[name]().operator.for_group(PLANS[name](), state, 0).process(harness.group_input(PLANS[name](), batch))
        calls.append(output.metrics.state_calls)
    assert max(calls) == 4, calls
    assert sorted(state.values) == [("meta", 0), ("meta", 1)]


NO_PAGES = struct.pack("<I", 0)


@pytest.mark.parametrize(
    "beginning",
    [
        b"",
        struct.pack("<I", 2**32 - 1),
        NO_PAGES,
        NO_PAGES + struct.pack("<I", 2**32 - 1),
        NO_PAGES + struct.pack("<IBqI", 1, 5, 0, 3) + b"panes" + b"ab",
        NO_PAGES + struct.pack("<IBqI", 1, 5, 0, 2**32 - 1) + b"panes",
        NO_PAGES + struct.pack("<IBqI", 1, 2, 0, 0) + b"\xff\xff",
    ],
)
def test_record_with_an_impossible_beginning_is_damaged(beginning):
    with pytest.raises(StateDamagedError, match="the meta record has an unreadable beginning"):
        opened(sealed_record(beginning))
