"""Clicks of Taobao's shoppers in tiles of an hour: 30 days combined from tiles, and each buyer's actions before buying."""

from __future__ import annotations

import gzip
from collections import Counter
from datetime import timedelta

import pytest

import panestream as pst
from panestream import agg

pytestmark = pytest.mark.spark

DAY = 86_400
HOURS = pst.TumblingEventTimeWindows.of("1 hour")
AGGREGATES = (
    agg.count().alias("clicks"),
    agg.sum("viewed").alias("views"),
    agg.count_distinct("category").alias("categories"),
    agg.last("item").alias("item"),
)


@pytest.fixture(scope="module")
def history(event_data):
    """Read nine days of 114 users: user, item, category, behaviour, seconds."""
    with gzip.open(event_data / "taobao_userbehavior_9d_by_user.csv.gz", "rt") as lines:
        rows = [line.rstrip("\n").split(",") for line in lines]
    return [(int(user), int(item), int(category), behaviour, int(at)) for user, item, category, behaviour, at in rows]


@pytest.fixture(scope="module")
def clicks(spark, history):
    df = spark.createDataFrame(history, "user bigint, item bigint, category bigint, behaviour string, at bigint")
    return df.selectExpr("*", "int(behaviour = 'pv') AS viewed", "timestamp_seconds(at) AS ts").cache()


@pytest.fixture(scope="module")
def tiles(spark, clicks, tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("tiles") / "hours")
    keyed = pst.stream(clicks).assign_timestamps("ts", pst.WatermarkStrategy.for_monotonous_timestamps()).key_by("user")
    keyed.window(HOURS).panes(*AGGREGATES).run(main=pst.ParquetSink(folder))
    return spark.read.parquet(folder)


def test_thirty_days_from_tiles_equal_thirty_days_of_the_rows(history, tiles):
    found = pst.from_panes(tiles, *AGGREGATES).window(pst.SlidingEventTimeWindows.of("30 days", "1 day"))
    counted = {(row.user, int(row.window_end.timestamp())): (row.clicks, row.views, row.categories) for row in found.collect()}
    by_hand: dict = {}
    for user, _, category, behaviour, at in history:
        for day in range(30):
            end = (at // DAY + 1 + day) * DAY
            by_hand.setdefault((user, end), []).append((behaviour == "pv", category))
    assert counted == {
        place: (len(rows), sum(viewed for viewed, _ in rows), len({category for _, category in rows}))
        for place, rows in by_hand.items()
    }
    assert max(clicks for clicks, _, _ in counted.values()) == max(Counter(user for user, *_ in history).values()) == 404


def test_tiles_answer_what_each_buyer_did_before_buying(clicks, tiles, history):
    bought = clicks.where("behaviour = 'buy'").selectExpr(
        "monotonically_increasing_id() AS number", "user", "at", "ts", "item AS bought"
    )
    bought = bought.cache()
    questions = bought.collect()
    stored = pst.from_panes(tiles, *AGGREGATES, rows=clicks, event_time="ts")
    lengths = {"30d": 30 * DAY, "1d": DAY, "10m": 600}
    found = stored.as_of(bought, at="ts", windows={label: timedelta(seconds=length) for label, length in lengths.items()})
    answers = {row.number: row for row in found.collect()}
    assert len(answers) == len(questions) == 206
    for question in questions:
        for label, length in lengths.items():
            rows = [row for row in history if row[0] == question.user and question.at - length <= row[4] < question.at]
            answer = answers[question.number]
            expected = (len(rows), sum(row[3] == "pv" for row in rows) if rows else None, len({row[2] for row in rows}))
            assert tuple(answer[f"{name}_{label}"] for name in ("clicks", "views", "categories")) == expected
            latest = {row[1] for row in rows if row[4] == max(row[4] for row in rows)}
            assert answer[f"item_{label}"] in (latest or {None})
    # Most buyers look at an item first. If rows of the instant itself leaked in, the share would be 100 %.
    known = sum(question.bought == answers[question.number].item_10m for question in questions)
    assert 0 < known < len(questions)
