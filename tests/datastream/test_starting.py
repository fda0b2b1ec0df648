"""Triggers as PySpark's users write them."""

from __future__ import annotations

from datetime import timedelta

import pytest

import panestream as pst
from panestream.datastream.starting import spark_trigger
from panestream.errors import InvalidPlanError


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
def test_what_is_understood(written, spark):
    assert spark_trigger(written) == spark


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("availableNo", "'availableNow' (all that is there, then the query ends; the default)"),
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
        (pst.CountTrigger.of(3), "CountTrigger.of(3) does, belongs to the windows: .window(...).trigger(...)"),
        (pst.CountTrigger, "belongs to the windows"),
    ],
)
def test_what_is_not(written, says):
    with pytest.raises(InvalidPlanError) as error:
        spark_trigger(written)
    assert says in str(error.value)
    assert "'10 seconds'" in str(error.value) or "milliseconds" in says or "negative" in says


def test_a_stream_of_something_else():
    with pytest.raises(InvalidPlanError, match=r"wants a DataFrame .*, got 'clicks'"):
        pst.stream("clicks")
