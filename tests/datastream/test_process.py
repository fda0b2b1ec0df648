"""Keyed process functions on Spark: stream, restart, batch, outputs, refusals."""

from __future__ import annotations

import pytest

import panestream as pst
from panestream.errors import InvalidPlanError
from panestream.testing import MicroBatches

pytestmark = [pytest.mark.spark]

SECOND = 1_000_000


class Waiting(pst.functions.KeyedProcessFunction):
    """Emits prices in the order of time; high ones also at once."""

    def process_element(self, value, ctx):
        waiting = ctx.get_map_state(pst.state.MapStateDescriptor("waiting"))
        waiting.put(ctx.timestamp(), [*waiting.get(ctx.timestamp(), []), value.price])
        ctx.timer_service().register_event_time_timer(ctx.timestamp())
        if value.price > 90:
            ctx.output("high", value.price)

    def on_timer(self, timestamp, ctx):
        waiting = ctx.get_map_state(pst.state.MapStateDescriptor("waiting"))
        for price in sorted(waiting.get(timestamp)):
            yield timestamp, price
        waiting.remove(timestamp)


def waiting(df):
    keyed = pst.stream(df, time="ts", unit="seconds", out_of_orderness="3 seconds").key_by("user")
    return keyed.process(Waiting(), "at bigint, price bigint", side_outputs={"high": "price bigint"}, key_groups=2)


def test_stream_with_restart_gives_what_the_batch_gives(spark, tmp_path):
    prices = MicroBatches(spark, tmp_path / "in", "user string, ts bigint, price bigint")
    prices.add([("a", 1, 5), ("b", 2, 95), ("a", 0, 7)])
    for number in range(2):
        sinks = {tag: pst.ParquetSink(str(tmp_path / tag)) for tag in ("main", "high")}
        waiting(prices.stream()).start(**sinks, checkpoint=str(tmp_path / "checkpoint")).await_termination()
        prices.add([("a", 3, 99), ("b", 9, 1), ("c", 100, 2)]) if number == 0 else None
    expected = {("a", 0, 7), ("a", SECOND, 5), ("b", 2 * SECOND, 95), ("a", 3 * SECOND, 99), ("b", 9 * SECOND, 1)}
    columns = ["user", "at", "price"]
    assert {tuple(row) for row in spark.read.parquet(str(tmp_path / "main")).select(columns).collect()} == expected
    batch = waiting(prices.batch())
    assert {tuple(row) for row in batch.main.collect()} == {*expected, ("c", 100 * SECOND, 2)}
    high = {("a", 99), ("b", 95)}
    assert {tuple(row) for row in batch.output("high").collect()} == high
    assert {tuple(row) for row in spark.read.parquet(str(tmp_path / "high")).select("user", "price").collect()} == high
    state = pst.state.read_checkpoint(spark, str(tmp_path / "checkpoint"))
    assert [(row.key.user, row.name) for row in state.user_state.collect()] == [("c", "waiting")]
    assert [(row.key.user, row.kind) for row in state.timers.collect()] == [("c", "event")]


def test_wrong_arguments_are_refused_when_the_query_is_built(spark):
    df = spark.createDataFrame([], "user string, ts timestamp, price bigint")
    keyed = pst.stream(df, time="ts", out_of_orderness="3 seconds").key_by("user")
    for function, message in (
        (Waiting, r"not the class itself: Waiting\(\)"),
        (lambda key, context, rows: [], "extends KeyedProcessFunction.*window"),
    ):
        with pytest.raises(InvalidPlanError, match=message):
            keyed.process(function, "n bigint")
    with pytest.raises(InvalidPlanError, match="'user'"):
        keyed.process(Waiting(), "user string")
    with pytest.raises(InvalidPlanError, match="no option 'every_firing'"):
        keyed.process(Waiting(), "n bigint", every_firing=True)
    result = keyed.process(Waiting(), "n bigint")
    refused = {
        "trace": result.trace,
        "top": lambda: result.top(3, "n"),
        "with_firing": result.with_firing,
        "changelog": result.changelog,
    }
    for name, call in refused.items():
        with pytest.raises(InvalidPlanError, match=name):
            call()
