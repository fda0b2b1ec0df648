"""The lateness advisor on Spark, compared with its definition and with a real run. Rows are in many partitions, ordered by columns
or by files.
"""

from __future__ import annotations

import random
import re
from datetime import datetime, timedelta, timezone

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

import panestream as pst
from panestream import agg
from panestream.errors import InvalidPlanError
from tests.insight.brute_force import Row, late, most_open

pytestmark = pytest.mark.spark

EPOCH = datetime(2026, 1, 1, tzinfo=timezone.utc)
MINUTE = 60
MICROS = 1_000_000


@pytest.fixture(scope="module")
def rows():
    """Return about 400 rows in the order of arrival, from two source partitions, ten to a micro-batch. Times are whole seconds."""
    draw = random.Random(14)
    return [
        Row(20 * n - min(int(draw.expovariate(1 / 300)), 3000), draw.choice("ab"), n // 10, draw.randrange(3)) for n in range(400)
    ]


@pytest.fixture(scope="module")
def many_partitions(spark):
    """Use small tasks that Spark does not coalesce."""
    before = {name: spark.conf.get(name) for name in ("spark.sql.shuffle.partitions", "spark.sql.adaptive.enabled")}
    spark.conf.set("spark.sql.shuffle.partitions", "5")
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    yield spark
    for name, value in before.items():
        spark.conf.set(name, value)


@pytest.fixture(autouse=True)
def many_ranges(monkeypatch):
    monkeypatch.setattr("panestream.insight.lateness.ROWS_IN_A_RANGE", 70)


@pytest.fixture(scope="module")
def df(many_partitions, rows, tmp_path_factory):
    """Return the rows shuffled, some of them without event time. Only ``number`` has the order of arrival."""
    times = [EPOCH + timedelta(seconds=row.time) for row in rows] + [None] * 3
    number = len(rows) + 3
    table = pa.table(
        {
            "ts": pa.array(times, pa.timestamp("us", tz="UTC")),
            "part": [*(row.partition for row in rows), "a", "a", "a"],
            "at": [*(row.at for row in rows), 0, 20, 39],
            "user": [*(row.key for row in rows), 0, 0, 0],
            "number": range(number),
        }
    )
    folder = tmp_path_factory.mktemp("rows")
    order = list(range(number))
    random.Random(1).shuffle(order)
    for n in range(4):
        pq.write_table(table.take(order[n::4]), folder / f"{n}.parquet")
    return many_partitions.read.parquet(str(folder))


def in_micros(rows, *, partitions=False, at_once=False):
    return [Row(row.time * MICROS, row.partition if partitions else "", row.at if at_once else None, row.key) for row in rows]


@pytest.mark.parametrize("partitions", [False, True])
def test_late_rows_match_definition_for_each_delay(df, rows, partitions):
    found = pst.tools.lateness(df, "ts", "number", partition="part" if partitions else None, delays=["7 minutes"])
    definition = in_micros(rows, partitions=partitions)
    assert (found.rows, found.invalid, found.partitions) == (400, 3, 2 if partitions else 1)
    assert found.behind == late(definition, 0, [], 0)
    assert timedelta(minutes=7) in [cost.delay for cost in found.costs]
    for cost in found.costs:
        delay = cost.delay // timedelta(microseconds=1)
        assert (cost.late, cost.kept) == (late(definition, delay, [], 0), 400 - cost.late)
    assert late(definition, found.delay(0.99) // timedelta(microseconds=1), [], 0) <= 4
    assert found.costs[-1].late == 0
    assert found.delay(1.0) == found.costs[-1].delay == found.furthest


def test_costs_match_definition_with_windows_lateness_and_rows_that_arrive_together(df, rows):
    windows = pst.SlidingEventTimeWindows.of("10 minutes", "5 minutes")
    found = pst.tools.lateness(
        df.withColumn("seconds", F.unix_micros("ts") / 1e6), "seconds", "at", unit="seconds", windows=windows, together=True,
        allowed_lateness="1 minute", key="user",
    )  # fmt: skip
    definition = in_micros(rows, at_once=True)
    sizes = [(10 * MINUTE * MICROS, 5 * MINUTE * MICROS)]
    for cost in found.costs:
        assert cost.late == late(definition, cost.delay // timedelta(microseconds=1), sizes, MINUTE * MICROS)
    # Open rows are counted in steps. The definition can count them at whole seconds.
    seconds = [Row(row.time, at=row.at, key=row.key) for row in rows]
    for cost in found.costs:
        if not cost.delay.microseconds:
            delay = int(cost.delay.total_seconds())
            least = most_open(seconds, delay, [(600, 300)], MINUTE)
            assert least <= cost.open_rows <= least + 3
            least = most_open(seconds, delay, [(600, 300)], MINUTE, panes=True)
            assert least <= cost.open_panes <= least + 1
            assert cost.open_panes <= cost.open_rows


def test_advisor_takes_time_column_and_order_from_a_result(df, rows):
    strategy = pst.WatermarkStrategy.for_bounded_out_of_orderness("1 minute").per_partition("part")
    result = (
        pst.stream(df.where("ts IS NOT NULL"))
        .assign_timestamps("ts", strategy)
        .arrival_order("number")
        .key_by("user")
        .window(pst.TumblingEventTimeWindows.of("10 minutes"))
        .allowed_lateness("2 minutes")
        .aggregate(agg.count().alias("n"))
    )
    found = pst.tools.lateness(result)
    definition = in_micros(rows, partitions=True)
    sizes = [(10 * MINUTE * MICROS,) * 2]
    for cost in found.costs:
        assert cost.late == late(definition, cost.delay // timedelta(microseconds=1), sizes, 2 * MINUTE * MICROS)
    assert found.costs[0].open_panes is not None
    with pytest.raises(InvalidPlanError, match="the event time is the result's own"):
        pst.tools.lateness(result, "ts")


def test_rows_arrive_in_the_order_of_their_files(spark, rows, tmp_path):
    for n in range(8):
        times = [EPOCH + timedelta(seconds=row.time) for row in rows[50 * n : 50 * n + 50]]
        pq.write_table(pa.table({"ts": pa.array(times, pa.timestamp("us", tz="UTC"))}), tmp_path / f"{n}.parquet")
    found = pst.tools.lateness(spark.read.parquet(str(tmp_path)), "ts", pst.order.FILE)
    assert found.behind == late(in_micros(rows), 0, [], 0)
    at_once = [Row(row.time, at=place // 50) for place, row in enumerate(rows)]
    found = pst.tools.lateness(spark.read.parquet(str(tmp_path)), "ts", pst.order.FILE, together=True)
    assert found.behind == late(at_once, 0, [], 0)


def test_missing_or_unsuitable_arguments_are_refused(spark, df):
    with pytest.raises(InvalidPlanError, match="in which order the rows arrived"):
        pst.tools.lateness(df, "ts")
    with pytest.raises(InvalidPlanError, match="needs the column of the event time"):
        pst.tools.lateness(df, arrival="number")
    with pytest.raises(InvalidPlanError, match="batch DataFrame"):
        pst.tools.lateness("clicks", "ts", "number")
    with pytest.raises(InvalidPlanError, match=r"are not aligned windows\. Without windows"):
        pst.tools.lateness(df, "ts", "number", windows=pst.EventTimeSessionWindows.with_gap("1 minute"))
    with pytest.raises(InvalidPlanError, match="nothing is late by the clock"):
        pst.tools.lateness(df, "ts", "number", windows=pst.TumblingProcessingTimeWindows.of("1 minute"))
    with pytest.raises(InvalidPlanError, match="must not be negative"):
        pst.tools.lateness(df, "ts", "number", delays=["-1 second"])
    with pytest.raises(InvalidPlanError, match=r"[Gg]ive it a batch"):
        pst.tools.lateness(spark.readStream.format("rate").load(), "timestamp", "value")
    none = pst.tools.lateness(df.where("ts IS NULL"), "ts", "number")
    assert (none.rows, none.invalid, none.costs, str(none).splitlines()[0]) == (0, 3, (), "No row has an event time.")
    with pytest.raises(InvalidPlanError, match="do not have a delay"):
        none.delay(0.99)


def test_advice_prints_as_text_and_html(df):
    found = pst.tools.lateness(df, "ts", "number", windows="10 minutes")
    text = str(found)
    assert re.match(
        r"Of 400 rows [\d.]+ % came behind others, by up to .*: a delay of .* keeps [\d.]+ %.* and .* keeps 100 % of them\.", text
    )
    assert re.search(r"^delay +keeps +late rows +rows open +windows open of a key$", text, re.MULTILINE)
    html = found._repr_html_()
    assert html.count("<svg") == 2
    assert "rows open" in html
