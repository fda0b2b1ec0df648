"""In a query with several stateful operators, the state of each plan is read."""

import datetime as dt

import pytest

import panestream as pst
from panestream import agg
from panestream.errors import PlanMismatchError
from panestream.testing import MicroBatches

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::panestream.errors.PanestreamWarning")]

START = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
MONOTONOUS = pst.WatermarkStrategy.for_monotonous_timestamps()


def at(seconds):
    return START + dt.timedelta(seconds=seconds)


def counts(df, size="10 seconds"):
    keyed = pst.stream(df).assign_timestamps("at", MONOTONOUS).key_by("item")
    return keyed.window(pst.TumblingEventTimeWindows.of(size)).options(key_groups=2).aggregate(agg.count().alias("n"))


def test_state_of_each_chained_operator_is_read(spark, tmp_path):
    rows = MicroBatches(spark, tmp_path / "clicks", "item string, at timestamp")
    rows.add([("a", at(1)), ("b", at(2)), ("a", at(3)), ("a", at(3)), ("a", at(12)), ("b", at(14))]).add([("a", at(21))])
    # The query also has an operator of Spark, which removes duplicates.
    stream = rows.stream().dropDuplicates(["item", "at"])
    first = counts(stream)
    ends = pst.stream(first.main.select("n", "window_end")).assign_timestamps("window_end - INTERVAL 1 MICROSECOND", MONOTONOUS)
    second = ends.window_all(pst.TumblingEventTimeWindows.of("1 minute")).aggregate(agg.max("n").alias("most"), agg.count())
    checkpoint = str(tmp_path / "checkpoint")
    second.start(main=pst.MemorySink(), checkpoint=checkpoint).await_termination()

    def shown(state):
        return sorted((*row.results, row.window_start.second) for row in state.windows.collect())

    # start() was called on the second. Windows that end at 10 and 20 have fired, with two results each.
    assert shown(pst.state.read_checkpoint(spark, checkpoint)) == [(2, 4, 0)]
    assert shown(pst.state.read_checkpoint(spark, checkpoint, 0)) == [(2, 2, 0)]
    found = pst.state.read_checkpoint(spark, checkpoint, plan=first.plan)
    assert [row.key.item for row in found.windows.collect()] == ["a"]
    assert shown(found) == [(1, 20)]
    assert shown(pst.state.read_checkpoint(spark, checkpoint, 0, plan=first.plan)) == [(1, 10), (1, 10)]
    with pytest.raises(PlanMismatchError, match=r"is of another plan .there -> given.:\n  windows: .*'10 seconds'.*'20 seconds'"):
        pst.state.read_checkpoint(spark, checkpoint, plan=counts(stream, "20 seconds").plan)
