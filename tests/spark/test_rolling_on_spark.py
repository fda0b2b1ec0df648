"""Rolling values on Spark agree with Spark's own sliding windows, and a restarted stream agrees with the batch."""

from __future__ import annotations

import random
from datetime import datetime, timedelta, timezone

import pytest
from pyspark.sql import functions as F

import panestream as pst
from panestream import agg
from panestream.errors import InvalidPlanError
from panestream.testing import MicroBatches

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::panestream.errors.PanestreamWarning")]

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
SCHEMA = "user string, ts timestamp, price bigint"
WINDOWS = {"10m": "10 minutes", "30m": "30 minutes", "ever": None}
AGGREGATES = (agg.count().alias("n"), agg.sum("price").alias("total"))


def rows(seed, count):
    """Make rows of two hours for few keys. None is more than 30 seconds late."""
    rng = random.Random(seed)
    at = sorted(rng.randint(0, 3600) + 3600 * seed for _ in range(count))
    return [
        (
            rng.choice(["ann", "bob", None]),
            START + timedelta(seconds=one - rng.randint(0, 30)),
            rng.choice([None, rng.randint(-9, 9)]),
        )
        for one in at
    ]


def rolling_of(df, windows=WINDOWS, delay="30 seconds"):
    keyed = pst.stream(df, time="ts", out_of_orderness=delay).key_by("user")
    return keyed.rolling(windows, every="1 minute").side_output_late_data("late").aggregate(*AGGREGATES)


def by_user(found):
    """Return the rows of each user in the order of time."""
    users: dict = {}
    for row in sorted(found, key=lambda row: row.as_of):
        users.setdefault(row.user, []).append(tuple(row)[1:])
    return users


def changes(df, sizes):
    """Return the rows of Spark's sliding windows of one minute that differ from the row before."""
    values: dict = {}
    for label, size in sizes.items():
        window = F.window("ts", size, "1 minute")
        for row in df.groupBy("user", window).agg(F.count("*"), F.sum("price")).collect():
            values.setdefault(row.user, {}).setdefault(row.window.end, {})[label] = tuple(row)[2:]
    made: dict = {}
    for user, ends in values.items():
        end, last = min(ends), None
        while end <= max(ends) + timedelta(minutes=1):
            now = [value for label in sizes for value in ends.get(end, {}).get(label, (0, None))]
            if now != (last or [0, None] * len(sizes)):
                made.setdefault(user, []).append((end, *now))
            last, end = now, end + timedelta(minutes=1)
    return made


def test_rolling_values_in_a_batch_are_the_changes_of_sparks_sliding_windows(spark, tmp_path):
    df = MicroBatches(spark, tmp_path / "clicks", SCHEMA).add(rows(0, 60)).add(rows(1, 5)).batch()
    sizes = {"10m": "10 minutes", "30m": "30 minutes"}
    result = rolling_of(df, sizes)
    assert result.operator.name == "rolling values"
    assert result.main.columns == ["user", "as_of", "n_10m", "total_10m", "n_30m", "total_30m"]
    assert by_user(result.main.collect()) == changes(df, sizes)


def test_restarted_stream_of_rolling_values_agrees_with_the_batch(spark, tmp_path):
    """Only Spark shows that the state, with the values of all time, survives a restart."""
    clicks, closing = MicroBatches(spark, tmp_path / "clicks", SCHEMA), [("zoe", START + timedelta(days=1), 1)]
    for number, part in enumerate([rows(0, 60), rows(1, 5), closing, [("ann", START, 1)]]):
        clicks.add(part)
        result = rolling_of(clicks.stream())
        sinks = {"main": pst.ParquetSink(tmp_path / "main"), "late": pst.ParquetSink(tmp_path / "late")}
        if number != 1:  # two micro-batches in the second run
            result.start(checkpoint=tmp_path / "c", **sinks).await_termination()
    found = spark.read.schema(result.main.schema).parquet(str(tmp_path / "main")).select(result.main.columns).collect()
    expected = MicroBatches(spark, tmp_path / "again", SCHEMA).add(rows(0, 60)).add(rows(1, 5)).batch()
    theirs = by_user(rolling_of(expected).main.collect())
    for user, changed in by_user(found).items():
        assert changed == theirs.pop(user), user
    assert not theirs
    assert [row.user for row in spark.read.parquet(str(tmp_path / "late")).collect()] == ["ann"]


def test_unsupported_options_of_rolling_windows_are_refused(spark):
    df = spark.createDataFrame([], SCHEMA)
    keyed = pst.stream(df, time="ts", out_of_orderness="1 second").key_by("user")
    windowed = keyed.rolling({"1h": "1 hour"}, every="1 minute")
    for wrong, message in [
        (lambda: windowed.allowed_lateness("2 hours").aggregate(agg.count()), "allow at most 1 hour"),
        (lambda: windowed.trigger(pst.CountTrigger.of(1)).aggregate(agg.count()), "leave out the trigger"),
        (lambda: windowed.apply(lambda key, window, rows: [], "n int"), "functions of your own"),
        (lambda: windowed.aggregate(agg.count().alias("n")).top(3, by="n_1h"), "rank the rows of a table"),
        (lambda: windowed.aggregate(agg.count().alias("n")).with_firing(), "have no windows that fire"),
        (lambda: windowed.panes(agg.count()), "slices"),
        (lambda: keyed.join(keyed).window(pst.rolling({"1h": "1 hour"}, every="1 hour")).pairs(), "compute aggregates"),
        (
            lambda: keyed.windows({"a": pst.rolling({"1h": "1 hour"}, every="1 hour"), "b": pst.tumbling("1 hour")}).agg(
                agg.count()
            ),
            "not aligned windows",
        ),
        (
            lambda: (
                pst.stream(df, time="ts", out_of_orderness="1 s")
                .key_by("user AS as_of")
                .rolling({"1h": "1 h"}, every="1 h")
                .agg(agg.count())
            ),
            "another name",
        ),
    ]:
        with pytest.raises(InvalidPlanError, match=message):
            wrong()
