"""How a console and a notebook show the parts of a query, and how queries are started."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F

import panestream as pst
from panestream import agg
from panestream.errors import InvalidPlanError
from panestream.spark.query import RunningQuery

pytestmark = pytest.mark.spark


class Silent:
    """A DataFrame or query that must not be used."""

    def __getattr__(self, name):
        raise AssertionError(f"a repr asked Spark for {name}")


def parts(df):
    strategy = pst.WatermarkStrategy.for_bounded_out_of_orderness("5 seconds")
    source = pst.stream(df).assign_timestamps("ts", strategy)
    keyed = source.key_by("user", F.lower("<b>").alias("bold"))
    windowed = keyed.window(pst.SlidingEventTimeWindows.of("1 hour", "5 minutes")).allowed_lateness("1 minute")
    windowed = windowed.trigger(pst.CountTrigger.of(3)).side_output_late_data("late")
    return source, keyed, windowed, windowed.aggregate(agg.count().alias("clicks"), agg.sum("price").alias("revenue"))


@pytest.fixture(scope="module")
def df(spark):
    return spark.readStream.format("rate").load().selectExpr("timestamp AS ts", "value AS price", "'u' AS user", "'x' AS `<b>`")


def test_reprs_are_one_short_line_and_ask_nothing(df):
    source, keyed, windowed, result = parts(df)
    query = RunningQuery(Silent(), result.plan, Silent(), Silent())
    object.__setattr__(source, "df", Silent())
    found = {type(part).__name__: repr(part) for part in (*parts_of(source, keyed, windowed, result), query)}
    assert found["DataStream"] == "<DataStream: event time ts, WatermarkStrategy.for_bounded_out_of_orderness('5 seconds')>"
    assert found["KeyedStream"].startswith("<KeyedStream: key user, lower(<b>) AS bold | event time ts")
    assert found["WindowedStream"].startswith(
        "<WindowedStream: windows SlidingEventTimeWindows.of('1 hour', '5 minutes') | trigger Count"
    )
    assert found["WindowedResult"].startswith(
        "<WindowedResult: results clicks int64, revenue int64 | operator row operator | windows Sl"
    )
    assert found["RunningQuery"].startswith(
        "<RunningQuery: results clicks int64, revenue int64 | windows SlidingEventTimeWindows"
    )
    assert all("\n" not in text and len(text) <= 162 for text in found.values())


def parts_of(*parts):
    return parts


def test_notebook_shows_parts_of_a_query_as_tables(df):
    *_, windowed, result = parts(df)
    html = result._repr_html_()
    assert html.startswith("<table>")
    assert "lower(&lt;b&gt;) AS bold" in html
    assert "<b>" not in html
    for part in ("SlidingEventTimeWindows.of(&#x27;1 hour&#x27;, &#x27;5 minutes&#x27;)", "1 minute", "late", "revenue int64"):
        assert part in html
    assert "CountTrigger.of(3)" in windowed._repr_html_()


def test_notebook_shows_plans_as_text(df):
    plan = parts(df)[-1].explain()
    assert isinstance(plan, str)
    assert repr(plan) == str(plan) == f"{plan}"
    assert repr(plan).splitlines()[0].startswith("windows ")
    assert plan._repr_html_().startswith("<pre>windows ")
    assert "<b>" not in plan._repr_html_()


def test_trigger_of_spark_is_not_read_as_an_output(df, tmp_path):
    result = parts(df)[-1]
    sink = pst.MemorySink()
    with pytest.raises(
        InvalidPlanError, match=r"processingTime is a trigger, not an output: write start\(trigger={'processingTime': '1 s"
    ):
        result.start(checkpoint=str(tmp_path), main=sink, processingTime="1 second")
    with pytest.raises(InvalidPlanError, match=r"[Ss]tart's trigger is one of 'availableNow'"):
        result.start(checkpoint=str(tmp_path), main=sink, trigger="now")
    with pytest.raises(InvalidPlanError, match=r"on_progress: the function .* will be given \(progress\)"):
        result.start(checkpoint=str(tmp_path), main=sink, on_progress=lambda: None)
    query = result.start(checkpoint=str(tmp_path), main=sink, late=pst.MemorySink(), trigger="once")
    assert repr(query).startswith("<RunningQuery: results clicks")
    assert query.await_termination(120)
