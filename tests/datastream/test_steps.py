"""Every step that takes a function says at once that it cannot be called. (No step looks at the data for that: there are none here.)"""

from __future__ import annotations

import pytest

from panestream.datastream import WindowedStream
from panestream.datastream.inputs import no_aggregate
from panestream.engine.window_spec import WindowSpec
from panestream.errors import InvalidPlanError
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import TumblingEventTimeWindows
from panestream.windowing.evictors import Evictor
from panestream.windowing.functions import AggregateFunction
from panestream.windowing.triggers import Trigger

WINDOWED = WindowedStream(None, WindowSpec(TumblingEventTimeWindows(10)))


def four(a, b, c, d):
    raise AssertionError


class Average(AggregateFunction):
    def create_accumulator(self):
        raise AssertionError

    def add(self, value):
        raise AssertionError

    def get_result(self, accumulator):
        raise AssertionError


class Always(Trigger):
    def on_element(self, element):
        raise AssertionError

    on_event_time = on_processing_time = clear = on_element


class Nobody(Evictor):
    def evict_after(self, elements):
        raise AssertionError


@pytest.mark.parametrize(
    ("step", "given"),
    [
        (lambda: WINDOWED.reduce(four), "reduce: the function four takes (a, b, c, d), and will be given (a, b)"),
        (lambda: WINDOWED.reduce(max, then=four, schema="n int"), "then: the function four .* (key, context, results)"),
        (lambda: WINDOWED.apply(four, "n int"), "apply: .* (key, window, rows)"),
        (lambda: WINDOWED.process(four, "n int"), "process: .* (key, context, rows)"),
        (lambda: WINDOWED.apply_arrow(four, "n int"), "apply_arrow: .* (key, window, table)"),
        (lambda: WINDOWED.apply_arrow(four, "n int", all_windows=True), "all_windows=True: .* (table)"),
        (lambda: WINDOWED.apply_in_pandas(four, "n int"), "apply_in_pandas: .* (key, window, frame)"),
        (
            lambda: WINDOWED.aggregate(Average(), schema="n int"),
            "Average.add takes (value), and will be given (value, accumulator)",
        ),
        (lambda: WINDOWED.trigger(Always()), "Always.on_element takes (element), .* (element, timestamp, window, ctx)"),
        (lambda: WINDOWED.evictor(Nobody()), "Nobody.evict_after takes (elements), .* (elements, size, window, ctx)"),
    ],
)
def test_wrong_arity(step, given):
    escaped = given.replace("(", r"\(").replace(")", r"\)")
    with pytest.raises(InvalidPlanError, match=escaped):
        step()


@pytest.mark.parametrize("given", [[agg.count()], (agg.count(), agg.sum("price"))])
def test_a_list_of_aggregates_is_to_be_unpacked(given):
    assert "give them one by one, or unpack them, aggregate(*aggregates)" in str(no_aggregate(None, given))
