"""Splitting queries by distinct values, and combining the results of the parts."""

from __future__ import annotations

import pytest

from panestream.engine.plan import Split, WindowQuery
from panestream.engine.planner import plan_aggregates, split_of
from panestream.errors import InvalidPlanError
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import EventTimeSessionWindows, TumblingEventTimeWindows, TumblingProcessingTimeWindows
from tests.comparison import harness

TEN = WindowQuery(TumblingEventTimeWindows(10))
DISTINCT = agg.count_distinct("v").alias("users")


def split(*aggregates, windowing=TEN, parts=3):
    return split_of(parts, aggregates, plan_aggregates(windowing, aggregates, harness.TYPES, harness.KEYS))


def test_results_of_parts_are_combined_by_sum_min_or_max():
    plain = (agg.count().alias("n"), agg.sum("v").alias("s"), agg.min("v").alias("low"), agg.max("x").alias("high"))
    complete = agg.complete("s").alias("all")
    together = {"users": "sum", "n": "sum", "s": "sum", "low": "min", "high": "max", "all": "min"}
    assert split(DISTINCT, *plain, complete) == Split(3, "v", together)
    assert split(DISTINCT, agg.count_distinct("v").alias("again"), parts=7) == Split(7, "v", {"users": "sum", "again": "sum"})


FIRES = (
    "split_distinct combines a window when it fires in all key groups at once. It needs tumbling, sliding or cumulating windows "
    "of event time that fire once (default trigger, no allowed lateness), but these "
)


@pytest.mark.parametrize(
    ("aggregates", "windowing", "message"),
    [
        ([agg.count()], TEN, "split_distinct splits the values of one count_distinct, there is none: "),
        (
            [DISTINCT, agg.count_distinct("x").alias("others")],
            TEN,
            "split_distinct splits the values of one count_distinct, these are of v, x: ",
        ),
        (
            [DISTINCT, agg.mean("v"), agg.count(), agg.first("v")],
            TEN,
            "split_distinct cannot combine the parts of agg.mean('v'), agg.first('v') with count_distinct",
        ),
        ([DISTINCT], WindowQuery(TumblingEventTimeWindows(10), allowed_lateness=1), f"{FIRES}fire again"),
        ([DISTINCT], WindowQuery(TumblingProcessingTimeWindows(10)), f"{FIRES}fire again"),
        ([DISTINCT], WindowQuery(EventTimeSessionWindows(10)), f"{FIRES}run as sessions"),
    ],
)
def test_error_says_why_a_query_cannot_be_split(aggregates, windowing, message):
    with pytest.raises(InvalidPlanError) as error:
        split(*aggregates, windowing=windowing)
    assert str(error.value).startswith(message)
