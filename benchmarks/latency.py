"""The time of a small micro-batch with and without sinks: ``python -m benchmarks.latency --write``.

Sum and count of sliding windows (10 s / 2 s), 1,000 keys. One window closes in each micro-batch, so that every sink has rows in
each. panestream and Spark's own ``window()`` run in turns, each in a separate process:

- ``main``, ``native``: into the noop sink;
- ``start spark``: ``result.start()`` with a SparkSink, Spark's own Parquet sink in one execution, without the fence;
- ``start one``: ``result.start()`` with one Parquet sink. Both filter out rows without event time, as Spark's own windows do;
- ``start``: the same with two Parquet sinks, the results and the rows without event time;
- ``native file``: Spark's own Parquet sink, which supports one output only;
- ``native two``: two Parquet outputs by ``foreachBatch``, the results and a selection of them, as Spark's guide describes.

Milliseconds are for whole micro-batches (``triggerExecution``) in the second half of the run. The JVM compiles in the first half.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import panestream as pst
from benchmarks.events import EPOCH_MS, SCHEMA, EventSpec, write
from benchmarks.harness import SETTINGS
from benchmarks.processes import ask, tell
from benchmarks.run import machine
from panestream import agg
from panestream.spark.session import BIRTH_SETTINGS, STREAM_SETTINGS

SIZE, SLIDE = "10 seconds", "2 seconds"
NO_TIME = "value % 20 = 0"
"""The condition of rows without event time, a twentieth of all."""
RESULTS = Path(__file__).parent / "results"


def windowed(events: DataFrame, *, keep_invalid: bool = True) -> pst.datastream.WindowedResult:
    """Return the query on panestream, with as many key groups as the session has shuffle partitions.

    Rows without event time go to an output, or must not exist.
    """
    delay = pst.WatermarkStrategy.for_bounded_out_of_orderness("1 second")
    timed = pst.stream(events).assign_timestamps("ts", delay)
    if keep_invalid:
        timed = timed.side_output_invalid("invalid")
    windows = timed.key_by("key").window(pst.SlidingEventTimeWindows.of(SIZE, SLIDE))
    return windows.aggregate(agg.sum("value").alias("total"), agg.count("value").alias("events"))


def natively(events: DataFrame) -> DataFrame:
    """Return the query on Spark's own windows."""
    grouped = events.withWatermark("ts", "1 second").groupBy(F.window("ts", SIZE, SLIDE), "key")
    results = grouped.agg(F.sum("value").alias("total"), F.count("value").alias("events"))
    return results.select("key", F.col("window.end").alias("window_end"), "total", "events")


def written(results: DataFrame, folder: str, sink: str) -> Any:
    """Start a Spark query."""
    writer = results.writeStream.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True)
    if sink == "parquet":
        return writer.format(sink).option("path", f"{folder}/main").start()
    return writer.format(sink).start()


def twice(folder: str) -> Callable[[DataFrame, int], None]:
    """Return a function that writes a micro-batch to two folders, idempotently."""

    def both(rows: DataFrame, batch_id: int) -> None:
        rows.persist()
        rows.write.mode("overwrite").parquet(f"{folder}/main/batch_id={batch_id}")
        rows.where("total % 20 = 0").write.mode("overwrite").parquet(f"{folder}/second/batch_id={batch_id}")
        rows.unpersist()

    return both


def start_sinks(events: DataFrame, folder: str) -> Any:
    """Start panestream with two sinks."""
    main, second = pst.ParquetSink(f"{folder}/main"), pst.ParquetSink(f"{folder}/second")
    return windowed(events).start(checkpoint=f"{folder}/checkpoint", main=main, invalid=second).query


def start_one(events: DataFrame, folder: str, sink: pst.sinks.Sink | None = None) -> Any:
    """Start panestream with one sink."""
    result = windowed(events.where("ts IS NOT NULL"), keep_invalid=False)
    return result.start(checkpoint=f"{folder}/checkpoint", main=sink or pst.ParquetSink(f"{folder}/main")).query


def start_spark(events: DataFrame, folder: str) -> Any:
    """Start panestream with one sink of Spark."""
    return start_one(events, folder, pst.sinks.SparkSink("parquet", {"path": f"{folder}/main"}))


def start_two(events: DataFrame, folder: str) -> Any:
    """Start a query with two hand-written sinks."""
    writer = natively(events).writeStream.foreachBatch(twice(folder)).trigger(availableNow=True)
    return writer.option("checkpointLocation", f"{folder}/checkpoint").start()


WAYS: dict[str, Callable[[DataFrame, str], Any]] = {
    "main": lambda events, folder: written(windowed(events).main, folder, "noop"),
    "native": lambda events, folder: written(natively(events), folder, "noop"),
    "start spark": start_spark,
    "start one": start_one,
    "start": start_sinks,
    "native two": start_two,
    "native file": lambda events, folder: written(natively(events), folder, "parquet"),
}
PEERS = {
    "main": ("native",),
    "start spark": ("native file",),
    "start one": ("native file", "native"),
    "start": ("native two", "native file", "native"),
}
"""The rivals of each way to run panestream."""


def measure(way: str, groups: int, cores: int, spec: EventSpec, data: str) -> dict[str, Any]:
    """Run once in this process. Return the milliseconds of the micro-batches that count, and the output."""
    source = write(spec, Path(data))
    settings = {**SETTINGS, **STREAM_SETTINGS, **BIRTH_SETTINGS, "spark.sql.shuffle.partitions": str(groups)}
    builder = SparkSession.builder.master(f"local[{cores}]").appName(way)
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    folder = tempfile.mkdtemp(prefix="benchmark-")
    try:
        read = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", spec.files_per_batch).parquet(str(source))
        query = WAYS[way](read.withColumn("ts", F.when(F.expr(f"not ({NO_TIME})"), F.col("ts"))), folder)
        query.awaitTermination()
        full = [each["durationMs"] for each in query.recentProgress if each["numInputRows"] == spec.rows_per_batch]
        if len(full) != spec.batches:
            raise RuntimeError(f"{len(full)} micro-batches, not {spec.batches}: files were cut otherwise")
        found: dict[str, Any] = {"ms": [each["triggerExecution"] for each in full[len(full) // 2 :]]}
        if Path(folder, "main").is_dir():
            # All contestants have these windows, although the others' watermark lags by a micro-batch.
            last = EPOCH_MS + 1000 * spec.rows // spec.rate - 20_000
            kept = spark.read.parquet(f"{folder}/main").where(F.col("window_end") <= F.timestamp_millis(F.lit(last)))
            found["answer"] = list(kept.agg(F.count("key"), F.sum("total"), F.sum("events")).collect()[0])
        return found
    finally:
        spark.stop()
        shutil.rmtree(folder, ignore_errors=True)


def run_once(way: str, options: argparse.Namespace) -> dict[str, Any]:
    """Run once in a separate process.

    Raises:
        RuntimeError: it failed.
    """
    given = [str(each) for each in (options.rows, options.batches, options.groups, options.cores)]
    words = [each for pair in zip(("--rows", "--batches", "--groups", "--cores"), given, strict=True) for each in pair]
    found: dict[str, Any] = ask("benchmarks.latency", "--run", way, "--data", options.data, *words)
    return found


def table(rounds: dict[str, list[float]]) -> list[str]:
    """Return the measurements in Markdown."""
    lines = ["| way | ms | rounds | ÷ its peer in the same round |", "|---|---:|---:|---|"]
    for way, each in rounds.items():
        beside = []
        for peer in [peer for peer in PEERS.get(way, ()) if peer in rounds]:
            ratios = [mine / theirs for mine, theirs in zip(each, rounds[peer], strict=True)]
            beside.append(f"`{peer}` **{statistics.median(ratios):.2f}** ({min(ratios):.2f} to {max(ratios):.2f})")
        lines.append(f"| `{way}` | {statistics.median(each):,.0f} | {min(each):,.0f} to {max(each):,.0f} | {'; '.join(beside)} |")
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, and with ``--write`` save the table."""
    parser = argparse.ArgumentParser(prog="benchmarks.latency", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000, help="of a micro-batch (default: %(default)s)")
    parser.add_argument(
        "--batches", type=int, default=200, help="of a run, the second half of which count (default: %(default)s)"
    )
    parser.add_argument("--groups", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ways", choices=list(WAYS), nargs="+", default=list(WAYS))
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--data", default=str(Path(tempfile.gettempdir()) / "panestream-benchmark"))
    parser.add_argument("--write", action="store_true", help=f"keep the table in {RESULTS.name}/latency.md")
    parser.add_argument("--run", choices=list(WAYS), help="this one alone, in this process")
    options = parser.parse_args(arguments)
    # A micro-batch has two seconds of event time, so a window closes in each.
    spec = EventSpec(options.rows, options.batches, 1_000, options.rows // 2, 1_000, options.cores)
    if options.run:
        tell(measure(options.run, options.groups, options.cores, spec, options.data))
        return
    about = machine()
    rounds: dict[str, list[float]] = {way: [] for way in options.ways}
    answers: dict[str, Any] = {}
    for number in range(options.rounds):
        for way, each in rounds.items():
            found = run_once(way, options)
            each.append(statistics.median(found["ms"]))
            answers |= {way: found["answer"]} if "answer" in found else {}
            print(f"  round {number + 1}  {way:12s} {each[-1]:,.0f} ms", flush=True)
    if len({json.dumps(answer) for answer in answers.values()}) > 1:
        raise AssertionError(f"the contestants differ: {answers}")
    shown = " and ".join(sorted({f"{answer[0]:,} rows" for answer in answers.values()})) or "not written"
    lines = [
        "# How long a small micro-batch takes",
        "",
        f"- Machine: {about['cpu']}, {about['cores']} cores, {about['memory_gb']} GB, {about['system']};",
        f"  load before the start {about['load_at_start']}. Python {about['python']}, Spark {about['pyspark']}.",
        f"- {options.rows:,} rows a micro-batch, {options.groups} key groups or shuffle partitions, `local[{options.cores}]`,",
        f"  Parquet in; {options.rounds} rounds in turns, {options.batches // 2} micro-batches of each that count; one has about",
        "  1,000 results, and of 20 rows one has no event time. Checkpoints and outputs on a local disk.",
        f"- Results of windows that all had to have: {shown}, the same of all that write them.",
        "- Ways: see `benchmarks/latency.py`.",
        "",
        *table(rounds),
        "",
    ]
    print("\n".join(lines))
    if options.write:
        (RESULTS / "latency.md").write_text("\n".join(lines))


if __name__ == "__main__":
    main()
