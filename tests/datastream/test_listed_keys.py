"""Listed keys that are filled without rows: how they are read, and that Spark's key groups each begin their own once."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

import panestream as pst
from panestream import agg
from panestream.datastream import listed_keys
from panestream.errors import InvalidPlanError
from panestream.testing import MicroBatches

pytestmark = [pytest.mark.spark, pytest.mark.full]

BEGIN = datetime(2026, 3, 1, tzinfo=timezone.utc)
SCHEMA = "tree string, place int, at timestamp"


def windows(df):
    stream = pst.stream(df, time="at", out_of_orderness="0 seconds").key_by("tree", "place")
    return stream.window(pst.tumbling("1 minute")).options(key_groups=3)


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        (("oak string", [("oak",)]), "keys has no column 'place'"),
        (("tree string, place long", [("oak", 1)]), "the column 'place' of keys is bigint, and the key is int: cast it"),
        (("tree string, place int", [("oak", None)]), "keys has a null in 'place'"),
        (("tree string, place int", [(f"oak {n}", n) for n in range(11)]), "more than 10 keys"),
        ([("oak",)], r"the key \('oak',\) of keys is not of the key columns \(tree, place\)"),
        ([("oak", "here")], r"another type than the key columns \(tree string, place int\)"),
        ("oak", "takes a DataFrame with the key columns, or a list of keys, got str"),
    ],
)
def test_wrong_listed_keys_are_refused(spark, monkeypatch, keys, told):
    monkeypatch.setattr(listed_keys, "MOST_KEYS", 10)
    given = spark.createDataFrame(keys[1], keys[0]) if isinstance(keys, tuple) else keys
    if isinstance(keys, tuple) and keys[0] == "oak string":
        given = given.toDF("tree")
    with pytest.raises(InvalidPlanError, match=told):
        windows(spark.createDataFrame([], SCHEMA)).fill("zero", keys=given)


def test_listed_keys_do_not_go_with_allowed_lateness_or_without_keys(spark):
    rows = spark.createDataFrame([], SCHEMA)
    late = windows(rows).allowed_lateness("1 minute").fill("zero", keys=[("oak", 1)])
    with pytest.raises(InvalidPlanError, match="leave out keys or allowed_lateness"):
        late.aggregate(agg.count())
    whole = pst.stream(rows, time="at", out_of_orderness="0 seconds").window_all(pst.tumbling("1 minute"))
    with pytest.raises(InvalidPlanError, match="this query has none"):
        whole.fill("zero", keys=["oak"])


def test_listed_keys_begin_once_and_keys_added_in_a_later_run_begin_there(spark, tmp_path):
    source, counts = MicroBatches(spark, tmp_path / "rows", SCHEMA), []
    keys = [(f"tree {n}", n) for n in range(6)]
    for run, minutes in enumerate([(0, 2), (4,)]):
        source.add([("oak", 1, BEGIN + timedelta(minutes=minute)) for minute in minutes])
        listed = spark.createDataFrame(keys[: 4 + 2 * run], "tree string, place int").selectExpr("place", "tree", "1 AS other")
        result = windows(source.stream()).fill("zero", keys=listed).aggregate(agg.count().alias("n"))
        sink = pst.ParquetSink(str(tmp_path / "out"))
        result.start(main=sink, checkpoint=str(tmp_path / "checkpoint")).await_termination()
        counts.append(spark.read.parquet(str(tmp_path / "out")).groupBy("tree").count().collect())
    at_first, later = ({row["tree"]: row["count"] for row in rows} for rows in counts)
    assert at_first == {"oak": 2, **{f"tree {n}": 2 for n in range(4)}}
    assert later == {"oak": 4, **{f"tree {n}": 4 for n in range(4)}, "tree 4": 2, "tree 5": 2}
