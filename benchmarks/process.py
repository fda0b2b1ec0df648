"""A keyed process function compared with the same written by hand for ``transformWithState``, as streams on Spark, in turns.

Run: ``python -m benchmarks.process [--rows 100000] [--keys 10000] [--batches 4] [--rounds 3]``. The first row of a key registers
a timer a minute later, rows are counted, and the timer emits the count and clears it. ``--rows`` is for one micro-batch. The
contestant by hand reads and writes its one state once for each key and micro-batch. Both write Parquet files, and the sums of
their counts must be the same. Each has a turn for warming up. The figures are medians of the rounds, with their range: seconds of
the clock, and of the processor in the JVM and its Python workers, which a busy machine disturbs less. ``--json FILE`` keeps them.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import psutil
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, StatefulProcessor, StatefulProcessorHandle, TimerValues

import panestream as pst

MINUTE_MS = 60_000
_SCHEMA = "key bigint, value bigint, ts timestamp"


class Counting(pst.functions.KeyedProcessFunction):
    """Counts the rows of a key from the first until its timer."""

    COUNT = pst.state.ValueStateDescriptor("count")

    def process_element(self, value: Any, ctx: Any) -> None:
        count = ctx.get_state(self.COUNT)
        known = count.value()
        if known is None:
            ctx.timer_service().register_event_time_timer(ctx.timestamp() + 1_000 * MINUTE_MS)
        count.update((known or 0) + 1)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[tuple[int]]:
        count = ctx.get_state(self.COUNT)
        yield (count.value(),)
        count.clear()


class CountingByHand(StatefulProcessor):
    """The same for ``transformWithState``."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.state = handle.getValueState("count", "n bigint")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:
        known = self.state.get()
        first, count = None, 0
        for row in rows:
            first = row.ts if first is None else first
            count += 1
        if known is None and first is not None:
            self.handle.registerTimer(int(first.timestamp() * 1000) + MINUTE_MS)
        self.state.update(((known[0] if known else 0) + count,))
        return iter(())

    def handleExpiredTimer(self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo) -> Iterator[Row]:
        known = self.state.get()
        count = known[0] if known else 0
        self.state.clear()
        return iter([Row(key=key[0], n=count)])

    def close(self) -> None:
        pass


def of_panestream(rows: DataFrame, folder: Path) -> None:
    """Run the function of panestream over a stream."""
    keyed = pst.stream(rows, time="ts", out_of_orderness="1 second").key_by("key")
    result = keyed.process(Counting(), "n bigint")
    result.start(main=pst.ParquetSink(str(folder / "out")), checkpoint=str(folder / "checkpoint")).await_termination()


def by_hand(rows: DataFrame, folder: Path) -> None:
    """Run the processor by hand over a stream."""
    answer = (
        rows.withWatermark("ts", "1 second")
        .groupBy("key")
        .transformWithState(CountingByHand(), "key bigint, n bigint", outputMode="Append", timeMode="EventTime")
    )
    sink = answer.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    sink.trigger(availableNow=True).start(str(folder / "out")).awaitTermination()


CONTESTANTS: dict[str, Callable[[DataFrame, Path], None]] = {"panestream": of_panestream, "by hand": by_hand}


def write_rows(spark: SparkSession, folder: Path, rows: int, keys: int, batches: int) -> None:
    """Write a file for each micro-batch, which covers 20 seconds, and one far ahead whose row lets all timers run."""
    start = 1_767_225_600
    for number in range(batches):
        at = F.timestamp_micros((F.lit((start + 20 * number) * 1_000_000) + F.col("id") * (20_000_000 // rows)).cast("bigint"))
        made = spark.range(0, rows, 1, 1).select(
            (F.col("id") * 7919 % keys).alias("key"), F.col("id").alias("value"), at.alias("ts")
        )
        made.write.mode("append").parquet(str(folder))
        time.sleep(1.1)  # Spark sorts files by the second of their time
    for later in (3600, 7200):
        spark.range(1).select(F.lit(-1).cast("bigint").alias("key"), F.col("id").alias("value")).withColumn(
            "ts", F.timestamp_seconds(F.lit(start + later))
        ).write.mode("append").parquet(str(folder))
        time.sleep(1.1)


def processor_seconds() -> float:
    """Return the processor time of the JVM and its workers so far."""
    total = 0.0
    for process in psutil.Process().children(recursive=True):
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


def measured(spark: SparkSession, run: Callable[[DataFrame, Path], None], source: Path) -> tuple[float, float, int]:
    """Return seconds of the clock and of the processor, and the sum of the counts of the keys."""
    folder = Path(tempfile.mkdtemp())
    begun, processor = time.perf_counter(), processor_seconds()
    run(spark.readStream.schema(_SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(source)), folder)
    taken = time.perf_counter() - begun, processor_seconds() - processor
    counted = spark.read.parquet(str(folder / "out")).where("key >= 0").agg(F.sum("n")).collect()[0]
    return *taken, int(counted[0])


def main() -> None:
    """Measure, compare the answers, print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("rows", 100_000), ("keys", 10_000), ("batches", 4), ("rounds", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    spark = pst.build_session("benchmark", {"spark.sql.shuffle.partitions": "4"})
    source = Path(tempfile.mkdtemp()) / "rows"
    write_rows(spark, source, asked.rows, asked.keys, asked.batches)
    found: dict[str, list[tuple[float, float, int]]] = {name: [] for name in CONTESTANTS}
    for turn in range(asked.rounds + 1):
        for name, run in CONTESTANTS.items():
            answer = measured(spark, run, source)
            if answer[2] != asked.rows * asked.batches:
                raise SystemExit(f"{name} counted {answer[2]} rows of {asked.rows * asked.batches}")
            if turn:
                found[name].append(answer)
            print(turn, name, [round(part, 2) for part in answer], flush=True)
    for place, what in enumerate(("clock", "processor")):
        ours, theirs = ([one[place] for one in found[name]] for name in CONTESTANTS)
        ratios = [b / a for a, b in zip(ours, theirs, strict=True)]
        print(
            f"{what}: panestream {median(ours):.1f} s, by hand {median(theirs):.1f} s, "
            f"ratio {median(ratios):.1f} ({min(ratios):.1f} to {max(ratios):.1f})"
        )
    if asked.json is not None:
        asked.json.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
