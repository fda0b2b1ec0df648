"""Values in Spark's state store carry the number of the micro-batch that wrote them."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone

import pytest

import panestream as pst
from panestream import agg
from panestream.engine.exchange.group_run import METRICS
from panestream.engine.runtime.group_io import GroupMetrics
from panestream.engine.storage.sealed_state import SealedState
from panestream.engine.storage.state import MemoryState
from panestream.errors import StateDamagedError
from panestream.spark.compat import group_values
from panestream.spark.operator.task_functions import OPERATED_SCHEMA
from panestream.spark.query import SinkWriter
from panestream.spark.sinks.outputs import open_outputs
from panestream.testing import MicroBatches

pytestmark = pytest.mark.spark

NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)


def test_values_in_sparks_store_are_sealed_with_their_micro_batch(spark, tmp_path):
    clicks = MicroBatches(spark, tmp_path / "clicks", "user string, ts timestamp")
    for number in range(3):
        clicks.add([(user, NOON + timedelta(seconds=number)) for user in ("ann", "bob", "cyd", "dan")])
    strategy = pst.WatermarkStrategy.for_bounded_out_of_orderness("5 seconds")
    stream = pst.stream(clicks.stream()).assign_timestamps("ts", strategy).key_by("user")
    result = stream.window(pst.EventTimeSessionWindows.with_gap("1 minute")).aggregate(agg.count().alias("n"))
    query = result.start(
        main=pst.ParquetSink(str(tmp_path / "main")), checkpoint=str(tmp_path / "c"), trigger={"availableNow": True}
    )
    query.await_termination()

    rested = spark.read.format("statestore").option("stateVarName", "panestream").load(str(tmp_path / "c"))
    groups: dict[int, MemoryState] = {}
    for row in rested.collect():
        state = groups.setdefault(group_values(query.plan.groups).index(row.key.group), MemoryState())
        state.put(row.user_map_key.space, row.user_map_key.key, bytes(row.user_map_value.value))
    assert set(groups) == set(range(query.plan.groups))
    for number, values in groups.items():
        state = SealedState(values, number, "sessions")
        assert state.get("meta", 0) is not None
        assert state.micro_batch == 3, "one more than the last, which was micro-batch 2"
        assert all(state.get(space, key) for space, key in values.values if space == "pages")


def test_rows_of_inconsistent_key_groups_reach_no_sink(spark, tmp_path):
    clicks = MicroBatches(spark, tmp_path / "clicks", "user string, ts timestamp")
    stream = pst.stream(clicks.stream()).assign_timestamps("ts", pst.WatermarkStrategy.no_watermarks()).key_by("user")
    result = stream.window(pst.EventTimeSessionWindows.with_gap("1 minute")).aggregate(agg.count().alias("n"))
    written: list[int] = []
    metrics = [GroupMetrics(key_group=group, state_of=micro_batch) for group, micro_batch in ((0, 14), (1, 11))]
    bodies = [(METRICS, bytearray(json.dumps(one.to_json()).encode())) for one in metrics]
    sink = pst.ForeachBatchSink(lambda frame, batch_id: written.append(batch_id), idempotent=True)
    outputs = open_outputs(spark, result.plan, {"main": sink}, str(tmp_path / "checkpoint"))
    with pytest.raises(StateDamagedError, match="key group 1 is damaged: all of it is that of micro-batch 11"):
        SinkWriter(result.plan, outputs, late_kept=False)(spark.createDataFrame(bodies, OPERATED_SCHEMA), 0)
    assert not written
