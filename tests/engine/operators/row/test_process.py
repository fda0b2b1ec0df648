"""Keyed process functions on the engine: beside their definition, and what Flink's operator promises."""

from __future__ import annotations

import pytest

import panestream as pst
from panestream.engine.operators.row import process
from panestream.engine.operators.row.contents import ProcessRows, RowPlan
from panestream.engine.operators.row.process import KeyedProcessOperator
from panestream.engine.plan import WindowQuery
from panestream.engine.storage.state import MemoryState
from panestream.errors import InvalidPlanError
from panestream.windowing.time import MAX_TIMESTAMP
from tests.costs import random_cases
from tests.engine.operators.row.naive_process import Scripted, batches, expected

LAST = pst.state.ValueStateDescriptor("last")


def plan(function):
    return RowPlan(WindowQuery(pst.GlobalWindows()), ProcessRows(function))


def run(function, given):
    """Return the operator of the last micro-batch, results and side output; each micro-batch has an operator of its own."""
    state, results, side = MemoryState(), [], []
    for batch in given:
        operator = KeyedProcessOperator(plan(function), state)
        output = operator.process(batch.rows, batch.watermark, batch.clock)
        operator.commit()
        results += output.fired
        side += output.side_outputs.get("side", [])
    return KeyedProcessOperator(plan(function), state), results, side


def compare(seed):
    given = batches(seed)
    operator, results, side = run(Scripted(), given)
    left = {owner.key: owner.window_states.get(None) for owner in operator.store.all_keys()}
    for key, (wanted, to_side, timers) in expected(given).items():
        assert [value for owner, _, value, _ in results if owner == key] == wanted, (seed, key)
        assert [value for owner, _, value, _ in side if owner == key] == to_side, (seed, key)
        window = left.get(key)
        found = set() if window is None else {("event", time) for time in window.event_timers.times}
        if window is not None and window.processing_timers is not None:
            found |= {("clock", time) for time in window.processing_timers.times}
        assert found == timers, (seed, key)


def test_random_programs_with_restarts_give_what_the_definition_gives():
    for seed in range(random_cases(2_000)):
        compare(seed)


@pytest.mark.full
def test_ten_thousand_random_programs_give_what_the_definition_gives():
    for seed in range(1_000, 11_000):
        compare(seed)


class Echo(pst.functions.KeyedProcessFunction):
    """As in Flink's tests: a row registers a timer, which emits what the key has stored."""

    def __init__(self, wait=5):
        self.wait = wait

    def process_element(self, value, ctx):
        ctx.get_state(LAST).update(value)
        ctx.timer_service().register_event_time_timer(ctx.timer_service().current_watermark() + self.wait)
        return [f"in {value}"]

    def on_timer(self, timestamp, ctx):
        state = ctx.get_state(LAST)
        value = state.value()
        state.clear()
        return [f"state {value}"]


def fresh(function):
    return KeyedProcessOperator(plan(function), MemoryState())


def values(output):
    return [(key, value, time) for key, _, value, time in output.fired]


def test_result_of_row_has_the_time_of_the_row_and_of_timer_the_time_of_the_timer():
    operator = fresh(Echo())
    operator.advance_watermark(0)
    assert values(operator.process([(17, 3, "a")])) == [(17, "in a", 3)]
    assert values(operator.process([], 5)) == [(17, "state a", 5)]


def test_timers_and_state_of_keys_are_apart():
    operator = fresh(Echo())
    operator.advance_watermark(1)
    operator.process([(17, 0, "a")])
    operator.advance_watermark(2)
    operator.process([(42, 0, "b")])
    assert values(operator.process([], 6)) == [(17, "state a", 6)]
    assert values(operator.process([], 7)) == [(42, "state b", 7)]


def test_timer_registered_twice_fires_once():
    operator = fresh(Echo())
    operator.advance_watermark(0)
    operator.process([("k", 0, "a"), ("k", 0, "b")])
    assert values(operator.process([], 9)) == [("k", "state b", 5)]


def test_timer_in_the_past_fires_when_the_watermark_next_moves():
    operator = fresh(Echo(wait=-3))
    operator.advance_watermark(10)
    assert values(operator.process([("k", 0, "a")], 10)) == [("k", "in a", 0)]
    assert values(operator.process([], 11)) == [("k", "state a", 7)]


def test_row_behind_the_watermark_is_processed():
    operator = fresh(Echo())
    operator.advance_watermark(100)
    output = operator.process([("k", 3, "old")])
    assert values(output) == [("k", "in old", 3)]
    assert output.late_dropped == 0


def test_key_without_state_and_timers_leaves_nothing():
    state = MemoryState()
    operator = KeyedProcessOperator(plan(Echo()), state)
    operator.advance_watermark(0)
    operator.process([(key, 0, "a") for key in range(100)])
    operator.commit()
    assert {space for space, _ in state.values} == {"meta", "pages"}
    operator = KeyedProcessOperator(plan(Echo()), state)
    operator.process([], 5)
    operator.commit()
    assert {space for space, _ in state.values} == {"meta"}


def test_expired_state_is_deleted_when_another_key_of_its_page_comes():
    seen = pst.state.MapStateDescriptor("seen", pst.state.StateTtlConfig(10))

    class Seen(pst.functions.KeyedProcessFunction):
        def process_element(self, value, ctx):
            ctx.get_map_state(seen).put(value, 1)

    state = MemoryState()
    for clock, key in ((1, "a"), (20, "b"), (21, "c"), (22, "d")):
        operator = KeyedProcessOperator(plan(Seen()), state)
        operator.process([(key, 0, "x")], processing_time=clock)
        operator.commit()
    left = {owner.key for owner in KeyedProcessOperator(plan(Seen()), state).store.all_keys()}
    assert left == {"b", "c", "d"}


def test_time_to_live_in_window_state_is_refused():
    with pytest.raises(InvalidPlanError, match="only the state of a KeyedProcessFunction"):
        pst.state.KeyedStateStore({}).get_state(pst.state.ValueStateDescriptor("a", pst.state.StateTtlConfig.of("1 hour")))


def test_time_to_live_that_is_added_later_begins_when_the_state_is_next_used():
    values = {"a": [1, 2]}
    pst.state.ListStateDescriptor("a", pst.state.StateTtlConfig(10)).bind(values, 100)
    assert pst.state.ListStateDescriptor("a", pst.state.StateTtlConfig(10)).bind(values, 109).get() == [1, 2]
    assert pst.state.ListStateDescriptor("a", pst.state.StateTtlConfig(10)).bind(values, 110).get() == []
    assert values == {}


@pytest.mark.parametrize("ttl", [0, -1, "1 hour"])
def test_wrong_time_to_live_is_refused(ttl):
    with pytest.raises(InvalidPlanError, match="positive"):
        pst.state.StateTtlConfig(ttl)


def test_processing_time_timer_of_function_that_did_not_declare_it_is_refused():
    class Undeclared(pst.functions.KeyedProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_processing_time_timer(5)

    operator = fresh(Undeclared())
    operator.process([("k", 0, 1)])
    with pytest.raises(InvalidPlanError, match="uses_processing_time"):
        operator.next_processing_time_timer()


def test_timers_without_end_are_refused_at_the_end_of_the_input(monkeypatch):
    class Endless(pst.functions.KeyedProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(ctx.timestamp())

        def on_timer(self, timestamp, ctx):
            ctx.timer_service().register_event_time_timer(timestamp + 1)

    monkeypatch.setattr(process, "MOST_TIMERS_AT_END", 100)
    with pytest.raises(InvalidPlanError, match=r"101 times for the key 'k' .* without end"):
        fresh(Endless()).process([("k", 0, 1)], MAX_TIMESTAMP)


@pytest.mark.parametrize("where", ["process_element", "on_timer"])
def test_error_of_function_names_method_and_key(where):
    class Failing(pst.functions.KeyedProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(5)
            if where == "process_element":
                raise KeyError("price")

        def on_timer(self, timestamp, ctx):
            raise KeyError("price")

    with pytest.raises(pst.functions.WindowFunctionError, match=rf"^{where} raised KeyError: 'price' \(at key 'ann'\)"):
        fresh(Failing()).process([("ann", 0, 1)], 9)


def test_string_as_result_is_refused():
    class Bare(pst.functions.KeyedProcessFunction):
        def process_element(self, value, ctx):
            return "text"

    with pytest.raises(pst.errors.PanestreamError, match="return a list of results"):
        fresh(Bare()).process([("k", 0, 1)])
