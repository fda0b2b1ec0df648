"""Every step that takes a function refuses one with the wrong number of parameters at once, without data."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from panestream.datastream import (
    CoGroupedStream,
    CoGroupedWindows,
    DataStream,
    IntervalJoin,
    IntervalPairs,
    KeyedStream,
    WindowedResult,
    WindowedStream,
)
from panestream.datastream.inputs import no_aggregate
from panestream.engine.plan import WindowQuery
from panestream.errors import InvalidPlanError, UnknownNameError
from panestream.spark.query import RunningQuery
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import TumblingEventTimeWindows
from panestream.windowing.evictors import Evictor
from panestream.windowing.foreign_names import WithForeignNames
from panestream.windowing.functions import AggregateFunction
from panestream.windowing.triggers import Trigger

WINDOWED = WindowedStream(None, WindowQuery(TumblingEventTimeWindows(10)))


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
            lambda: WINDOWED.aggregate_with(Average(), schema="n int"),
            "Average.add takes (value), and will be given (value, accumulator)",
        ),
        (lambda: WINDOWED.trigger(Always()), "Always.on_element takes (element), .* (element, timestamp, window, ctx)"),
        (lambda: WINDOWED.evictor(Nobody()), "Nobody.evict_after takes (elements), .* (elements, size, window, ctx)"),
    ],
)
def test_function_with_wrong_number_of_parameters_is_refused(step, given):
    escaped = given.replace("(", r"\(").replace(")", r"\)")
    with pytest.raises(InvalidPlanError, match=escaped):
        step()


@pytest.mark.parametrize("given", [[agg.count()], (agg.count(), agg.sum("price"))])
def test_list_of_aggregates_is_refused_with_the_unpacked_form(given):
    assert "give them one by one, or unpack them, aggregate(*aggregates)" in str(no_aggregate(None, given))


SOURCE = DataStream(None)
KEYED = KeyedStream(SOURCE, ("user",))
STEPS = WindowedStream(KEYED, WindowQuery(TumblingEventTimeWindows(10)), late_tag="late")
RESULT = WindowedResult(STEPS, None)
CO_GROUPED = CoGroupedStream(KEYED, KEYED)
QUERY = RunningQuery(SimpleNamespace(isActive=True, recentProgress=[], id="7", name="clicks"), None, None, None)


@pytest.mark.parametrize(
    ("step", "foreign", "own"),
    [
        (SOURCE, "groupBy", "group_by"),
        (SOURCE, "groupby", "group_by"),
        (SOURCE, "keyBy", "key_by"),
        (SOURCE, "withWatermark", "assign_timestamps"),
        (KEYED, "intervalJoin", "interval_join"),
        (STEPS, "agg", "aggregate"),
        (STEPS, "sideOutputLateData", "side_output_late_data"),
        (STEPS, "applyInPandas", "apply_in_pandas"),
        (RESULT, "withFiring", "with_firing"),
        (QUERY, "awaitTermination", "await_termination"),
    ],
)
def test_foreign_name_of_the_same_step_works(step, foreign, own):
    # (Python creates a bound method at each access and compares it by the value of its object.)
    assert getattr(step, foreign).__func__ is getattr(step, own).__func__
    assert foreign not in dir(step)


COMPLETE = [SOURCE, KEYED, STEPS, RESULT, CO_GROUPED, QUERY]


@pytest.mark.parametrize("step", COMPLETE, ids=lambda step: type(step).__name__)
def test_dir_lists_public_names_and_those_of_python_only(step):
    assert [name for name in dir(step) if name.startswith("_") and not (name.startswith("__") and name.endswith("__"))] == []
    assert {"__class__", "__dict__"} <= set(dir(step))
    public = {name for kind in type(step).__mro__ for name in vars(kind) if not name.startswith("_")}
    assert public - {"classes"} <= set(dir(step))


@pytest.mark.parametrize(
    "kind", sorted(WithForeignNames.classes.values(), key=lambda kind: kind.__name__), ids=lambda kind: kind.__name__
)
def test_object_whose_init_has_not_run_has_no_attributes_and_no_endless_recursion(kind):
    """Debuggers, copies and unpickling access attributes of such objects."""
    bare = object.__new__(kind)
    fields = getattr(kind, "__dataclass_fields__", {})
    for name in ("zebra", "late", *fields):
        if name in fields and hasattr(kind, name):
            continue  # it has a default
        with pytest.raises(AttributeError, match=" has no attribute "):
            getattr(bare, name)
    assert "zebra" not in dir(bare)


def test_foreign_name_of_a_result_whose_init_has_not_run_has_its_advice():
    with pytest.raises(UnknownNameError, match="'WindowedResult' object has no attribute 'groupBy': a result has outputs"):
        object.__new__(WindowedResult).groupBy  # noqa: B018


def test_sparks_names_of_a_running_query_work():
    assert (QUERY.isActive, QUERY.recentProgress, QUERY.lastProgress, QUERY.last_progress) == (True, [], None, None)
    assert (QUERY.id, QUERY.name) == ("7", "clicks")


HOUR = r"TumblingEventTimeWindows\.of\('1 hour'\)"


@pytest.mark.parametrize(
    ("step", "name", "said"),
    [
        (SOURCE, "window", rf"write \.key_by\('user'\)\.window\({HOUR}\), or \.window_all\({HOUR}\)"),
        (SOURCE, "filter", r"prepare the rows first, pst\.stream\(df\.filter\(\.\.\.\)\)"),
        (SOURCE, "toPandas", r"the rows are in \.df: write stream\.df\.toPandas\(\)"),
        (SOURCE, "columns", r"write stream\.df\.columns$"),
        (SOURCE, "count", r"first write \.key_by\('user'\)\.window\(.*\), then \.aggregate\(agg\.count\(\)\)"),
        (SOURCE, "agg", rf"that comes later: write \.key_by\('user'\)\.window\({HOUR}\)\.aggregate\(\.\.\.\)"),
        (KEYED, "key_by", r"write all columns at once, \.key_by\('user', 'page'\)|in one call"),
        (KEYED, "withWatermark", r"that comes earlier: write \.assign_timestamps\(\.\.\.\) before \.key_by\(\.\.\.\)"),
        (KEYED, "sum", r"first write \.window\(.*\), then \.aggregate\(agg\.sum\('price'\)\)"),
        (STEPS, "count", r"write \.aggregate\(agg\.count\(\)\)"),
        (STEPS, "median", r"write \.aggregate\(agg\.median\('price'\)\)"),
        (STEPS, "key_by", r"that comes earlier: write \.key_by\(\.\.\.\) before \.window\(\.\.\.\)"),
        (STEPS, "writeStream", r"first write \.aggregate\(agg\.count\(\)\), then result\.start\(main="),
        (STEPS, "outputMode", "output modes do not exist here"),
        (RESULT, "writeStream", r"write result\.start\(main=ParquetSink\('out/main'\), checkpoint='checkpoint'\)"),
        (RESULT, "trigger", r"start\(trigger='10 seconds'\) says when micro-batches run"),
        (RESULT, "outputMode", "output modes do not exist here"),
        (RESULT, "show", r"write result\.main\.show\(\) for a batch; the rows of a stream go to sinks"),
        (RESULT, "toPandas", r"write result\.main\.toPandas\(\)"),
        (RESULT, "columns", r"write result\.main\.columns for a batch"),
        (RESULT, "filter", r"write result\.main\.filter\(\.\.\.\)"),
        (RESULT, "late", r"that is an output: write result\.output\('late'\)"),
        (RESULT, "invalid", r"side_output_invalid\('invalid'\)"),
        (RESULT, "allowed_lateness", r"write \.allowed_lateness\(\.\.\.\) before \.aggregate\(\.\.\.\)"),
        (RESULT, "awaitTermination", r"write \.start\(.*\)\.await_termination\(\.\.\.\)"),
        (QUERY, "processAllAvailable", r"write query\.query\.processAllAvailable\(\)"),
        (QUERY, "show", "the rows are where the sinks wrote them"),
        (CO_GROUPED, "where", r"keys from \.key_by"),
        (CO_GROUPED, "aggregate", rf"write \.window\({HOUR}\)\.aggregate\(\.\.\.\)"),
        (IntervalJoin(CO_GROUPED), "pairs", r"write \.between\('-1 hour', '0 seconds'\)\.pairs\(\.\.\.\)"),
        (IntervalJoin(CO_GROUPED), "window", "an interval join does not have windows"),
        (IntervalPairs(None, 1, 2), "start", r"write \.pairs\(\)\.start\(\.\.\.\)"),
    ],
)
def test_name_of_pyspark_or_of_another_step_has_the_line_to_write(step, name, said):
    with pytest.raises(UnknownNameError, match=said):
        getattr(step, name)
    assert not hasattr(step, name)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: STEPS.trigger(processingTime="10 seconds"), r"start\(trigger={'processingTime': '10 seconds'}, \.\.\.\)"),
        (
            lambda: STEPS.aggregate(total=agg.sum("price"), n=agg.count()),
            r"write \.aggregate\(agg\.sum\('price'\)\.alias\('total'\), agg\.count\(\)\.alias\('n'\)\)",
        ),
        (
            lambda: STEPS.trigger("10 seconds"),
            r"got '10 seconds'; to set when micro-batches run, write start\(trigger='10 seconds', ",
        ),
        (lambda: STEPS.aggregate({"price": "sum"}), r"write \.aggregate\(agg\.sum\('price'\)\)"),
        (lambda: KEYED.window(TumblingEventTimeWindows(10)), r"write \.assign_timestamps\('ts', '5 minutes'\) before \.key_by"),
        (lambda: CoGroupedWindows(KEYED, STEPS.windowing).apply(len), "schema='n bigint, label string'"),
        (lambda: STEPS.apply(len), "schema='n bigint, label string'"),
        (lambda: STEPS.process(len), "schema='n bigint, label string'"),
        (lambda: STEPS.apply_arrow(len), "schema='n bigint, label string'"),
        (lambda: STEPS.apply_in_pandas(len), "schema='n bigint, label string'"),
        (lambda: KEYED.window("10 minutes"), r"write \.window\(TumblingEventTimeWindows\.of\('10 minutes'\)\)"),
        (lambda: KEYED.window("1 hour", "5 minutes"), r"write \.window\(SlidingEventTimeWindows\.of\('1 hour', '5 minutes'\)\)"),
        (lambda: KEYED.window(TumblingEventTimeWindows(10), "1 hour"), "window needs an assigner such as .*, got '1 hour'"),
    ],
)
def test_wrong_arguments_have_the_line_to_write(call, said):
    with pytest.raises(InvalidPlanError, match=said):
        call()
