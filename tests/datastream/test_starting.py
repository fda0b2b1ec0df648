"""Triggers in the ways that PySpark's users write them."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace

import pytest

import panestream as pst
from panestream.datastream.starting import (
    check_ending,
    check_no_place,
    check_sink,
    is_bounded,
    spark_trigger,
    warn_of_missing_sinks,
)
from panestream.engine.plan import Capabilities
from panestream.errors import InvalidPlanError, PanestreamWarning, SinkError


@pytest.mark.parametrize(
    ("written", "spark"),
    [
        (None, {"availableNow": True}),
        ("availableNow", {"availableNow": True}),
        ("availablenow", {"availableNow": True}),
        ("available_now", {"availableNow": True}),
        ("availableNow=True", {"availableNow": True}),
        ({"availableNow": True}, {"availableNow": True}),
        ("once", {"once": True}),
        ({"once": True}, {"once": True}),
        ("10 seconds", {"processingTime": "10 seconds"}),
        ("500 ms", {"processingTime": "500 milliseconds"}),
        ("0 seconds", {"processingTime": "0 seconds"}),
        (timedelta(seconds=90), {"processingTime": "1 minute 30 seconds"}),
        ("processingTime='10 seconds'", {"processingTime": "10 seconds"}),
        ('processingTime = "10 seconds"', {"processingTime": "10 seconds"}),
        ("processingTime=10 seconds", {"processingTime": "10 seconds"}),
        ({"processingTime": "10 seconds"}, {"processingTime": "10 seconds"}),
        ({"processingTime": "interval 10 seconds"}, {"processingTime": "10 seconds"}),
        ({"processingTime": timedelta(minutes=1)}, {"processingTime": "1 minute"}),
    ],
)
def test_trigger_of_pyspark_is_accepted(written, spark):
    assert spark_trigger(written) == spark


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("availableNo", "'availableNow' (all available rows, then the query ends; the default)"),
        ("", "got ''"),
        ("10 parsecs", "got '10 parsecs'"),
        ("availableNow=False", "got {'availableNow': False}"),
        ({}, "got {}"),
        ({"availableNow": False}, "got {'availableNow': False}"),
        ({"availableNow": True, "once": True}, "is one of"),
        ({"processingtime": "10 seconds"}, "{'processingTime': '10 seconds'}; got"),
        ({"processingTime": 10}, "got {'processingTime': 10}"),
        (10, "got 10"),
        (True, "got True"),
        ("-1 second", "not negative"),
        ("1 microsecond", "a whole number of milliseconds"),
        ({"continuous": "1 second"}, "continuous processing does not take Python operators"),
        ("realTime='5 seconds'", "real-time mode does not take Python operators"),
        (pst.CountTrigger.of(3), "CountTrigger.of(3), belongs to the windows: .window(...).trigger(...)"),
        (pst.CountTrigger, "belongs to the windows"),
    ],
)
def test_wrong_trigger_is_refused(written, says):
    with pytest.raises(InvalidPlanError) as error:
        spark_trigger(written)
    assert says in str(error.value)
    assert "'10 seconds'" in str(error.value) or "milliseconds" in says or "negative" in says


def test_stream_of_another_object_is_refused():
    with pytest.raises(InvalidPlanError, match=r"needs a DataFrame .*, got 'clicks'"):
        pst.stream("clicks")


def plan(watermark=None, *, by_clock=False, processing_time=None, assigner=None):
    return SimpleNamespace(
        operator=SimpleNamespace(capabilities=Capabilities(uses_processing_time=by_clock)),
        processing_time=processing_time,
        watermark=watermark or pst.WatermarkStrategy.for_monotonous_timestamps(),
        assigner=assigner or pst.TumblingEventTimeWindows.of("1 minute"),
    )


CLOSING = pst.WatermarkStrategy.for_monotonous_timestamps().closing_after("1 second")
LIVE, ENDS = {"processingTime": "1 second"}, {"availableNow": True}


@pytest.mark.parametrize(
    ("asked", "when", "fire_at_end", "said"),
    [
        (plan(by_clock=True), ENDS, False, "need a running clock"),
        (plan(CLOSING, processing_time="received"), LIVE, False, "closing_after needs the clock"),
        (plan(), LIVE, True, "fire_at_end is for a query that ends"),
        (plan(by_clock=True, processing_time="received"), ENDS, True, "windows or triggers of processing time use the clock"),
        (plan(pst.WatermarkStrategy.no_watermarks()), ENDS, True, "no_watermarks"),
        (plan(assigner=pst.GlobalWindows.create()), ENDS, True, "fire_at_end closes windows of event time"),
    ],
    ids=["clock and end", "clock of rows", "no end", "processing time", "no watermarks", "no windows of time"],
)
def test_query_that_cannot_end_or_close_is_refused(asked, when, fire_at_end, said):
    with pytest.raises(InvalidPlanError, match=said):
        check_ending(asked, when, fire_at_end=fire_at_end)


def test_query_that_can_end_and_close_is_accepted():
    check_ending(plan(CLOSING), LIVE, fire_at_end=False)
    for when in (ENDS, {"once": True}):
        assert is_bounded(when)
        check_ending(plan(CLOSING), when, fire_at_end=True)
    check_ending(plan(CLOSING, processing_time="received"), ENDS, fire_at_end=True)
    assert not is_bounded(LIVE)


@pytest.mark.parametrize(
    ("places", "method", "said"),
    [
        (("out/main",), "start", r"write result\.start\(main=pst\.ParquetSink\('out/main'\), checkpoint='checkpoint'\)"),
        ((pst.MemorySink(),), "run", r"write result\.run\(main=MemorySink\(.*\)\)"),
    ],
)
def test_sink_without_the_name_of_its_output_is_refused_with_the_line_to_write(places, method, said):
    with pytest.raises(InvalidPlanError, match=said):
        check_no_place(method, places)


def test_folder_in_place_of_a_sink_is_refused_with_the_line_to_write():
    with pytest.raises(SinkError, match=r"got 'out/late': write late=pst\.ParquetSink\('out/late'\)"):
        check_sink("late", "out/late")
    check_sink("late", pst.MemorySink())


@pytest.mark.parametrize(
    ("sinks", "said"),
    [
        (["late"], r"the output 'main' has no sink.* result\.start\(main=pst\.ParquetSink\('out/main'\), \.\.\.\)"),
        (["main"], r"the output 'late' has no sink.* result\.start\(late="),
        ([], r"the outputs 'main', 'late' have no sink"),
    ],
)
def test_output_without_a_sink_is_warned_of_at_the_start(sinks, said):
    with pytest.warns(PanestreamWarning, match=said):
        warn_of_missing_sinks(["main", "late"], sinks, "start")


def test_outputs_that_all_have_a_sink_are_not_warned_of():
    warn_of_missing_sinks(["main", "late"], ["late", "main"], "start")
