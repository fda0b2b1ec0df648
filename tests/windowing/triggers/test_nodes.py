"""Nodes of composed triggers: shared timers, and separate states."""

from __future__ import annotations

from operator import add

from panestream.windowing.state import ReducingStateDescriptor, ValueStateDescriptor
from panestream.windowing.triggers.nodes import TimerSet, placed


def waiting():
    registered = set()
    state = ValueStateDescriptor("timers").bind({})
    return TimerSet(state, registered.add, registered.discard), registered, state


def test_timer_stays_registered_while_a_node_waits_for_it():
    timers, registered, state = waiting()
    timers.add("a.", 5)
    timers.add("b.", 5)
    timers.add("a.", 5)
    timers.discard("a.", 5)
    assert registered == {5}
    timers.discard("b.", 5)
    assert registered == set()
    assert state.value() is None


def test_all_timers_of_one_node_can_be_discarded():
    timers, registered, _ = waiting()
    for place, time in (("a.", 5), ("a.", 6), ("b.", 6), ("b.", 7)):
        timers.add(place, time)
    timers.discard("a.")
    assert registered == {6, 7}
    assert [timers.take(5), timers.take(6)] == [[], ["b."]]


def test_waiting_nodes_are_returned_once():
    timers, _, state = waiting()
    timers.add("a.", 5)
    timers.add("b.", 5)
    assert timers.take(5) == ["a.", "b."]
    assert timers.take(5) == []
    assert state.value() is None
    timers.discard("a.", 5)


def test_cleared_timers_leave_no_state():
    timers, registered, state = waiting()
    timers.add("a.", 5)
    timers.add("b.", 9)
    timers.clear()
    assert registered == set()
    assert state.value() is None


def test_state_descriptors_get_the_name_of_their_node():
    class Adds:
        """A function object that cannot be hashed."""

        __hash__ = None

        def __call__(self, a, b):
            return a + b

    for function in (add, Adds()):
        values = {}
        descriptor = placed(ReducingStateDescriptor("n", function), "early.")
        descriptor.bind(values).add(1)
        descriptor.bind(values).add(2)
        assert values == {"early.n": 3}
