"""Broadcast rules on Spark: a stream with a restart, a batch, outputs, the state in the checkpoint, refusals."""

from __future__ import annotations

import pytest

import panestream as pst
from panestream.errors import InvalidPlanError
from panestream.testing import MicroBatches

pytestmark = [pytest.mark.spark]

SECOND = 1_000_000
LIMITS = pst.state.MapStateDescriptor("limits")
DELAYED = pst.WatermarkStrategy.for_bounded_out_of_orderness("3 seconds")


class Above(pst.functions.KeyedBroadcastProcessFunction):
    """Emits prices above the limit of their shop at once, and after two seconds those above the limit of that time."""

    def process_element(self, value, ctx):
        ctx.get_list_state(pst.state.ListStateDescriptor("prices")).add(value.price)
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 2 * SECOND)
        return self._above("at once", [value.price], ctx)

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(LIMITS).put(value.name, value)
        ctx.output("rules", (value.name, value.limit))

    def on_timer(self, timestamp, ctx):
        prices = ctx.get_list_state(pst.state.ListStateDescriptor("prices"))
        yield from self._above("later", prices.get(), ctx)
        prices.clear()

    @staticmethod
    def _above(when, prices, ctx):
        return [
            (when, name, price)
            for name, rule in ctx.get_broadcast_state(LIMITS).items()
            for price in prices
            if price > rule.limit
        ]


def above(prices, rules):
    keyed = pst.stream(prices, time="ts", unit="seconds", watermark=DELAYED).key_by("user")
    limits = pst.stream(rules, time="at", unit="seconds", watermark=DELAYED.with_idleness("1 minute"))
    sides = {"rules": "name string, limit bigint"}
    return keyed.connect(limits).process(Above(), "when string, name string, price bigint", side_outputs=sides, key_groups=3)


def inputs(spark, tmp_path):
    prices = MicroBatches(spark, tmp_path / "in prices", "user string, ts bigint, price bigint")
    rules = MicroBatches(spark, tmp_path / "in rules", "name string, at bigint, limit bigint")
    prices.add([("a", 1, 5), ("b", 2, 50), ("c", 1, 70)])
    rules.add([("high", 2, 40)])
    return prices, rules


def rows_of(df):
    return sorted(tuple(row) for row in df.collect())


AT_ONCE = [("a", "at once", "high", 45), ("a", "at once", "low", 45), ("b", "at once", "high", 50)]
LATER = [("a", "later", "low", 45), ("b", "later", "low", 50), ("c", "later", "high", 70), ("c", "later", "low", 70)]
TOLD = [(None, "high", 40), (None, "high", 60), (None, "low", 44)]


def add_more(prices, rules):
    prices.add([("a", 9, 45), ("b", 100, 1)])
    rules.add([("low", 8, 44), ("high", 100, 60)])


def test_stream_with_restart_gives_each_key_the_rules_of_its_time(spark, tmp_path):
    prices, rules = inputs(spark, tmp_path)
    for number in range(2):
        sinks = {tag: pst.ParquetSink(str(tmp_path / tag)) for tag in ("main", "rules")}
        query = above(prices.stream(), rules.stream()).start(**sinks, checkpoint=str(tmp_path / "checkpoint"))
        query.await_termination()
        if number == 0:
            add_more(prices, rules)
    main, told = (spark.read.parquet(str(tmp_path / tag)) for tag in ("main", "rules"))
    assert rows_of(main.select("user", "when", "name", "price")) == sorted([*AT_ONCE, *LATER])
    assert rows_of(told.select("user", "name", "limit")) == TOLD
    state = pst.state.read_checkpoint(spark, str(tmp_path / "checkpoint")).user_state
    assert [(row.of, row.name) for row in state.collect()] == [("broadcast", "limits")]


def test_batch_gives_what_the_stream_gives(spark, tmp_path):
    prices, rules = inputs(spark, tmp_path)
    add_more(prices, rules)
    batch = above(prices.batch(), rules.batch())
    assert rows_of(batch.main) == sorted([*AT_ONCE, *LATER])
    assert rows_of(batch.output("rules")) == TOLD


def test_wrong_rules_are_refused_when_the_query_is_built(spark):
    df = spark.createDataFrame([], "user string, ts timestamp, price bigint")
    keyed = pst.stream(df, time="ts", watermark=DELAYED).key_by("user")
    rules = pst.stream(df, time="ts", watermark=DELAYED.with_idleness("1 minute"))
    for wrong, message in (
        (df, "a stream without a key"),
        (rules.key_by("user"), "a stream without a key"),
        (pst.stream(df, time="ts", watermark=DELAYED), "with_idleness"),
    ):
        with pytest.raises(InvalidPlanError, match=message):
            keyed.connect(wrong)

    class Plain(pst.functions.KeyedProcessFunction):
        def process_element(self, value, ctx):
            return None

    with pytest.raises(InvalidPlanError, match=r"not the class itself: Above\(\)"):
        keyed.connect(rules).process(Above, "n bigint")
    with pytest.raises(InvalidPlanError, match="extends KeyedBroadcastProcessFunction"):
        keyed.connect(rules).process(Plain(), "n bigint")
    with pytest.raises(InvalidPlanError, match=r"for rules, write \.connect\(rules\)"):
        keyed.process(Above(), "n bigint")
    assert "to all" in keyed.connect(rules).process(Above(), "n bigint").explain()
