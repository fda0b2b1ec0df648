"""A backlog read in micro-batches of several sizes: ``python -m benchmarks.backlog --write``.

Sum and count of tumbling windows (10 s, 10,000 keys, ten rows of a key in a window). Every contestant reads the same events, cut
into micro-batches of 0.25, 1 and 4 million rows, and writes Parquet files. panestream runs as users start it, ``result.start()``,
and Spark's own ``window()`` with its own sink. Contestants take turns, each in a process of its own for each size and round.

Start-up is the time from ``start()`` to the end of the first micro-batch, which also compiles. The rate and the time of a
micro-batch are medians of the others without the last, which closes all windows.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import panestream as pst
from benchmarks.events import SCHEMA, EventSpec
from benchmarks.flink.spark_side import write_with_end
from benchmarks.harness import RESULT_MARK, SETTINGS, MemorySampler
from benchmarks.run import HERE, machine
from panestream import agg
from panestream.spark.session import STREAM_SETTINGS

RESULTS = Path(__file__).parent / "results"
SIZES = (250_000, 1_000_000, 4_000_000)
CONTESTANTS = ("panestream", "native")


def start(contestant: str, events: DataFrame, folder: Path) -> Any:
    """Start the query of a contestant."""
    if contestant == "panestream":
        keyed = pst.stream(events, time="ts", out_of_orderness="1 second").key_by("key")
        result = keyed.window(pst.tumbling("10 seconds")).aggregate(agg.sum("value").alias("total"), agg.count().alias("n"))
        return result.start(main=pst.ParquetSink(str(folder / "out")), checkpoint=str(folder / "checkpoint"))
    windows = events.withWatermark("ts", "1 second").groupBy("key", F.window("ts", "10 seconds"))
    writer = windows.agg(F.sum("value").alias("total"), F.count("*").alias("n")).writeStream.format("parquet")
    writer = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
    return writer.start(str(folder / "out"))


def measure(contestant: str, rows_per_batch: int, rows: int, data: Path) -> dict[str, Any]:
    """Return the figures of one run."""
    spec = EventSpec(rows_per_batch, rows // rows_per_batch)
    files = write_with_end(spec, data)
    builder = SparkSession.builder.master("local[2]").appName(f"backlog of {contestant}")
    for name, value in {**SETTINGS, **STREAM_SETTINGS, "spark.sql.shuffle.partitions": "2"}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    sampler = MemorySampler()
    sampler.start()
    with tempfile.TemporaryDirectory() as folder:
        source = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", spec.files_per_batch).parquet(str(files))
        begin = time.time()
        started = start(contestant, source, Path(folder))
        query = getattr(started, "query", started)
        query.awaitTermination()
        whole = time.time() - begin
        seconds = [json.loads(one.json)["durationMs"]["triggerExecution"] / 1000 for one in query.recentProgress]
        found = spark.read.parquet(f"{folder}/out").agg(F.count("*"), F.sum("total"), F.sum("n")).collect()[0]
    sampler.stop()
    spark.stop()
    steady = seconds[1 : spec.batches]
    return {
        "answer": list(found),
        "whole": whole,
        "rate": rows / whole,
        "start_up": whole - sum(seconds[1:]),
        "steady": rows_per_batch / statistics.median(steady),
        "micro_batch": statistics.median(steady),
        "closing": sum(seconds[spec.batches :]),
        "workers_mb": sampler.workers_peak / 2**20,
        "jvm_mb": sampler.jvm_peak / 2**20,
    }


def table(runs: dict[tuple[int, str], list[dict[str, Any]]]) -> list[str]:
    """Return a line for each size and contestant: medians of the rounds, and the range of the rate."""
    lines = [
        "| rows a micro-batch | contestant | rows/s, all | rows/s, steady | micro-batch | start-up | closing | workers | JVM |",
        "|---:|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for (size, contestant), done in runs.items():
        of = {name: statistics.median(one[name] for one in done) for name in done[0] if name != "answer"}
        rates = [one["rate"] for one in done]
        lines.append(
            f"| {size:,} | {contestant} | {of['rate']:,.0f} ({min(rates):,.0f} to {max(rates):,.0f}) | {of['steady']:,.0f} "
            f"| {of['micro_batch']:.2f} s | {of['start_up']:.1f} s | {of['closing']:.1f} s | {of['workers_mb']:,.0f} MB "
            f"| {of['jvm_mb']:,.0f} MB |"
        )
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    """Run all sizes in turns and print the table."""
    parser = argparse.ArgumentParser(prog="benchmarks.backlog", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=12_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--data", default=str(HERE / ".data"))
    parser.add_argument("--write", action="store_true", help="keep the table, in results/backlog.md")
    parser.add_argument("--one", nargs=2, metavar=("CONTESTANT", "SIZE"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.one:
        figures = measure(options.one[0], int(options.one[1]), options.rows, Path(options.data))
        print(RESULT_MARK + json.dumps(figures), flush=True)
        return
    runs: dict[tuple[int, str], list[dict[str, Any]]] = {(size, name): [] for size in SIZES for name in CONTESTANTS}
    for _ in range(options.rounds):
        for (size, name), done in runs.items():
            command = [sys.executable, "-m", "benchmarks.backlog", "--one", name, str(size)]
            command += ["--rows", str(options.rows), "--data", options.data]
            said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            done.append(json.loads(said.split(RESULT_MARK)[1]))
            print(size, name, done[-1], flush=True)
    answers = {tuple(one["answer"]) for done in runs.values() for one in done}
    if len(answers) != 1:
        raise SystemExit(f"the contestants do not have the same rows: {answers}")
    about = machine()
    lines = [
        "# A backlog, by the size of its micro-batches",
        "",
        f"- Machine: {about['cpu']}, {about['cores']} cores, {about['memory_gb']} GB, {about['system']};",
        f"  load {about['load_at_start']}. Python {about['python']}, Spark {about['pyspark']}, pyarrow {about['pyarrow']}.",
        f"- {options.rows:,} rows, {options.rounds} rounds in turns, each run in a process of its own. All gave the same rows.",
        "- Tumbling windows of 10 s, sum and count, 10,000 keys, ten rows of a key in a window; Parquet in, Parquet out.",
        "- `rows/s, all` counts start-up and closing; `steady` is the median micro-batch between. Medians (lowest to highest).",
        "",
        *table(runs),
    ]
    print("\n".join(lines))
    if options.write:
        (RESULTS / "backlog.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
