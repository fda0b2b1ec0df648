"""A watermark for each key on Spark: it survives a restart in the checkpoint, and the checkpoint explains it."""

from __future__ import annotations

import pytest

import panestream as pst
from panestream import agg
from panestream.testing import MicroBatches
from tests.spark.test_row_operator import MICROS, SCHEMA, at, keyed, row, run, shown

# Late rows are counted on purpose.
pytestmark = [pytest.mark.spark, pytest.mark.full, pytest.mark.filterwarnings("ignore::panestream.errors.PanestreamWarning")]

STRATEGY = pst.WatermarkStrategy.for_monotonous_timestamps().per_key(idle_after="100 seconds")


def test_key_that_uploads_after_a_restart_is_in_time_until_it_is_idle(spark, tmp_path):
    """Spark must call the key groups of silent keys, and keep their times with the rows."""
    rows, checkpoint = MicroBatches(spark, tmp_path / "in", SCHEMA), tmp_path / "checkpoint"

    def result(df):
        windows = keyed(df, STRATEGY).window(pst.TumblingEventTimeWindows.of("10 seconds"))
        return windows.side_output_late_data("late").aggregate(agg.sum("price").alias("total"))

    rows.add([row("van", 1, 1), row("car", 95, 2)])
    rows.add([row("car", 101, 4)])
    assert run(result(rows.stream()), checkpoint) == {1: [("car", 90, 100, 2)]}
    rows.add([row("van", 2, 8), row("van", 25, 16)])  # an upload
    rows.add([row("car", 145, 32)])  # it makes the van idle
    rows.add([row("van", 44, 64), row("van", 45, 128), row("van", 1, 256)])
    main, late = run(result(rows.stream()), checkpoint, "main", "late")
    assert {number: shown(found) for number, found in main.items()} == {
        2: [("van", 0, 10, 9)],
        3: [("car", 100, 110, 4), ("van", 20, 30, 16)],
    }
    assert {number: sorted(one.price for one in found) for number, found in late.items()} == {4: [256]}

    state = pst.state.read_checkpoint(spark, str(checkpoint))
    reached = [state.summary(keys).watermark for keys in ([], ["user=van"], ["user=car"])]
    assert [time - MICROS for time in reached] == [144_999_999, 44_999_999, 144_999_999]
    assert "The watermark of the key is at" in str(pst.tools.why(state, key="van", at=at(35)))
    batch = shown(result(rows.batch()).main.collect())
    assert batch[-3:] == [("van", 0, 10, 265), ("van", 20, 30, 16), ("van", 40, 50, 192)]
