"""Real Iceberg tables: exactly once whatever comes between the sink's commit and Spark's."""

from __future__ import annotations

import warnings
from datetime import datetime, timedelta, timezone

import pytest

import panestream as pst
from panestream import agg
from panestream.testing import MicroBatches

pytestmark = [pytest.mark.connectors, pytest.mark.iceberg]

SCHEMA = "user BIGINT, price BIGINT, ts TIMESTAMP"
START = datetime(2026, 1, 1, tzinfo=timezone.utc)
TABLES = iter(range(1000))


@pytest.fixture
def table(spark):
    name = f"ice.db.t{next(TABLES)}"
    yield name
    spark.sql(f"DROP TABLE IF EXISTS {name}")


@pytest.fixture
def clicks(spark, tmp_path):
    return Clicks(spark, tmp_path)


class Clicks:
    """A stream of four users' clicks, ten seconds a micro-batch, and its windows of as long."""

    def __init__(self, spark, folder):
        self.spark, self.checkpoint = spark, folder / "checkpoint"
        self.rows = MicroBatches(spark, folder / "in", SCHEMA)
        self.count = 0

    def add(self, count=1):
        for _ in range(count):
            at = [START + timedelta(seconds=10 * self.count + second) for second in range(10)]
            self.rows.add([(second % 4, second, when) for second, when in enumerate(at)])
            self.count += 1
        return self

    def windowed(self, rows=None):
        timed = pst.stream(self.rows.stream() if rows is None else rows).assign_timestamps(
            "ts", pst.WatermarkStrategy.for_monotonous_timestamps()
        )
        windows = timed.key_by("user").window(pst.TumblingEventTimeWindows.of("10 seconds"))
        return windows.key_groups(2).aggregate(agg.count().alias("n"), agg.sum("price").alias("total"))

    def run(self, sink):
        self.windowed().start(checkpoint=str(self.checkpoint), main=sink).await_termination()

    def take_back(self, batch_id):
        """As if Spark had been killed before it committed the micro-batch."""
        for number in range(batch_id, 100):
            (self.checkpoint / "commits" / str(number)).unlink(missing_ok=True)
            (self.checkpoint / "commits" / f".{number}.crc").unlink(missing_ok=True)

    @property
    def last(self):
        return max(int(path.name) for path in (self.checkpoint / "commits").iterdir() if path.name.isdigit())

    def expected(self, upto=None):
        """The windows that are over: all but the newest."""
        return 4 * ((self.count if upto is None else upto) - 1)


def rows_of(spark, table):
    found = [tuple(row) for row in spark.table(table).collect()]
    assert len(set(found)) == len(found), "rows are there twice"
    return len(found)


def snapshots(spark, table):
    return spark.sql(f"SELECT * FROM {table}.snapshots ORDER BY committed_at").collect()


def marks(spark, table):
    found = [row.summary.get("panestream-batch-id") for row in snapshots(spark, table)]
    return [int(number) for number in found if number is not None]


def test_a_micro_batch_that_is_run_again_is_passed_over(spark, table, clicks):
    clicks.add(3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a catalog of Iceberg's is known before the table is there
        clicks.run(pst.TableSink(table))
    assert rows_of(spark, table) == clicks.expected() == 8
    assert {row.operation for row in snapshots(spark, table)} == {"append"}
    written = marks(spark, table)
    clicks.take_back(clicks.last)
    clicks.add().run(pst.TableSink(table))
    assert rows_of(spark, table) == clicks.expected() == 12
    assert marks(spark, table) == [*written, clicks.last]
