"""The states of triggers and functions. Empty state leaves no entry."""

from __future__ import annotations

from panestream.windowing.aggregate_function import AggregateFunction
from panestream.windowing.state import (
    AggregatingStateDescriptor,
    KeyedStateStore,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)


class Mean(AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]


def test_value_state_is_deleted_by_none():
    values = {}
    state = ValueStateDescriptor("v").bind(values)
    state.update(0)
    assert (state.value(), values) == (0, {"v": 0})
    state.update(None)
    assert (state.value(), values) == (None, {})


def test_reducing_and_aggregating_states_combine_values():
    values = {}
    largest, mean = ReducingStateDescriptor("r", max).bind(values), AggregatingStateDescriptor("a", Mean()).bind(values)
    assert (largest.get(), mean.get()) == (None, None)
    for value in (3, 1, 8):
        largest.add(value)
        mean.add(value)
    assert (largest.get(), mean.get(), values) == (8, 4.0, {"r": 8, "a": (12, 3)})
    largest.clear()
    mean.clear()
    mean.clear()
    assert (mean.get(), values) == (None, {})


def test_list_state_appends_and_clears():
    values = {}
    state = ListStateDescriptor("l").bind(values)
    assert state.get() == []
    state.add(1)
    state.add_all([2, 3])
    found = state.get()
    assert found == [1, 2, 3]
    found.append(4)
    assert state.get() == [1, 2, 3], "what was got is the caller's own"
    state.update(iter([5]))
    assert values == {"l": [5]}
    state.update([])
    assert values == {}


def test_map_state_puts_and_removes_entries():
    values = {}
    state = MapStateDescriptor("m").bind(values)
    assert (state.is_empty(), state.get("a"), state.get("a", 7), state.contains("a")) == (True, None, 7, False)
    state.put("a", 1)
    state.put("b", 2)
    assert (state.is_empty(), state.get("a", 7), state.contains("a"), list(state.items())) == (
        False,
        1,
        True,
        [("a", 1), ("b", 2)],
    )
    state.remove("a")
    state.remove("never")
    assert values == {"m": {"b": 2}}
    state.remove("b")
    assert values == {}


def test_state_store_shares_state_by_name():
    values = {}
    store = KeyedStateStore(values)
    store.get_state(ValueStateDescriptor("v")).update(1)
    store.get_reducing_state(ReducingStateDescriptor("r", max)).add(2)
    store.get_list_state(ListStateDescriptor("l")).add(3)
    store.get_map_state(MapStateDescriptor("m")).put("k", 4)
    store.get_aggregating_state(AggregatingStateDescriptor("a", Mean())).add(5)
    assert values == {"v": 1, "r": 2, "l": [3], "m": {"k": 4}, "a": (5, 1)}
