"""Run the query once on one contestant in this process, and print a line of JSON at the end.

Started by :mod:`benchmarks.kafka.run`.
"""

from __future__ import annotations

import json
import shutil
import statistics
import sys
import tempfile
from dataclasses import asdict, dataclass
from typing import Any

import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import panestream as pst
from benchmarks.harness import SETTINGS
from benchmarks.processes import tell
from panestream import agg
from panestream.spark.kafka.source import PACKAGE
from panestream.spark.session import STREAM_SETTINGS

CLICK = "user BIGINT, item BIGINT, at BIGINT"
SIZE, SLIDE = "1 hour", "5 minutes"
BEHIND = 3600
"""The delay of the last partition in seconds."""
WARM_UP = 2
"""Warm-up micro-batches, in which the JVM compiles and workers start."""


@dataclass(frozen=True)
class Run:
    """One run.

    Attributes:
        contestant: ``panestream``, ``native``, or ``source``, which only reads and decodes and is the limit.
        servers, topic: the location of the clicks.
        records_per_batch: the records of a micro-batch.
        until: seconds. Both must have all windows that end up to this time.
        cores: of the local master.
    """

    contestant: str
    servers: str
    topic: str
    records_per_batch: int
    until: int
    cores: int = 2


@dataclass(frozen=True)
class Measured:
    """The measurements of one run.

    Attributes:
        rows_per_second: of each micro-batch that counts.
        rows, views: the number and the sum of the results of windows up to the bound.
    """

    contestant: str
    rows_per_second: list[float]
    rows: int = 0
    views: int = 0

    @property
    def median(self) -> float:
        """The median of the micro-batches' rates."""
        return statistics.median(self.rows_per_second)


class Counted:
    """Add up the output, at the same cost for both."""

    def __init__(self, until: int) -> None:
        self.until, self.rows, self.views = until, 0, 0

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        kept = df.where(F.unix_timestamp("window_end") <= self.until)
        row = kept.agg(F.count(F.lit(1)), F.coalesce(F.sum("views"), F.lit(0))).collect()[0]
        self.rows, self.views = self.rows + row[0], self.views + row[1]


def ours(spark: SparkSession, run: Run, counted: Counted, checkpoint: str) -> Any:
    """Run panestream, with a watermark for each partition that is a few seconds late."""
    clicks = pst.from_kafka(spark, run.servers, run.topic, schema=CLICK, records_per_batch=run.records_per_batch)
    timed = clicks.assign_timestamps("at", pst.WatermarkStrategy.for_bounded_out_of_orderness("5 seconds"), unit="seconds")
    windows = timed.key_by("item").window(pst.SlidingEventTimeWindows.of(SIZE, SLIDE)).options(key_groups=run.cores)
    result = windows.aggregate(agg.count().alias("views"))
    return result.start(checkpoint=checkpoint, main=pst.ForeachBatchSink(counted, idempotent=True)).query


def native(spark: SparkSession, run: Run, counted: Counted, checkpoint: str) -> Any:
    """Run Spark's own windows. Their single watermark must be as late as the slowest partition, or its rows are late."""
    clicks = decoded(spark, run).withWatermark("time", f"{BEHIND + 5} seconds")
    views = clicks.groupBy("item", F.window("time", SIZE, SLIDE)).agg(F.count(F.lit(1)).alias("views"))
    results = views.select("item", F.col("window.end").alias("window_end"), "views")
    return started(results, counted, checkpoint, "append")


def source(spark: SparkSession, run: Run, counted: Counted, checkpoint: str) -> Any:
    """Only read and decode."""
    read = decoded(spark, run).select(F.col("time").alias("window_end"), F.lit(1).alias("views"), "item")
    return started(read, counted, checkpoint, "append")


def decoded(spark: SparkSession, run: Run) -> DataFrame:
    """Return the clicks as Spark's users read them."""
    given = {"kafka.bootstrap.servers": run.servers, "subscribe": run.topic, "startingOffsets": "earliest"}
    records = spark.readStream.format("kafka").options(**given, maxOffsetsPerTrigger=str(run.records_per_batch)).load()
    fields = records.select(F.from_json(F.col("value").cast("string"), CLICK).alias("click")).select("click.*")
    return fields.withColumn("time", F.timestamp_seconds("at"))


def started(results: DataFrame, counted: Counted, checkpoint: str, mode: str) -> Any:
    """Start a Spark query."""
    writer = results.writeStream.foreachBatch(counted.__call__).outputMode(mode)
    return writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()


def measure(run: Run) -> Measured:
    """Run it, and measure."""
    settings = {**SETTINGS, **STREAM_SETTINGS, "spark.sql.shuffle.partitions": str(run.cores)}
    settings["spark.jars.packages"] = f"{PACKAGE}:{pyspark.__version__}"
    builder = SparkSession.builder.master(f"local[{run.cores}]").appName("kafka benchmark")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    folder, counted = tempfile.mkdtemp(prefix="kafka-benchmark-"), Counted(run.until)
    try:
        query = {"panestream": ours, "native": native, "source": source}[run.contestant](
            spark, run, counted, f"{folder}/checkpoint"
        )
        query.awaitTermination()
        batches = [each for each in query.recentProgress if each["numInputRows"]]
        rates = [batch["numInputRows"] / batch["durationMs"]["triggerExecution"] * 1000 for batch in batches]
        # The last micro-batch has only the remaining rows.
        return Measured(run.contestant, rates[WARM_UP:-1], counted.rows, counted.views)
    finally:
        spark.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    tell(asdict(measure(Run(**json.loads(sys.argv[1])))))
