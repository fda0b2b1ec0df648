"""A backlog read in micro-batches of several sizes: ``python -m benchmarks.backlog --write``.

With ``--levers``, panestream runs with one setting after the other instead, in micro-batches of a million rows.

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
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import panestream as pst
from benchmarks.events import SCHEMA, EventSpec
from benchmarks.flink.spark_side import write_with_end
from benchmarks.harness import SETTINGS, MemorySampler
from benchmarks.processes import ask, tell
from benchmarks.run import HERE, machine
from panestream import agg
from panestream.spark.session import BIRTH_SETTINGS, STREAM_SETTINGS

RESULTS = Path(__file__).parent / "results"
SIZES = (250_000, 1_000_000, 4_000_000)


@dataclass(frozen=True)
class Contestant:
    """One way to run the query.

    Attributes:
        is_native: whether Spark's own ``window()`` runs it.
        settings: settings of the session.
        cores: how many tasks run at once.
        options: for ``.options()``.
        has_text_keys: whether the keys are texts of eleven letters instead of integers.
    """

    is_native: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)
    cores: int = 2
    options: Mapping[str, Any] = field(default_factory=lambda: {"key_groups": 2})
    has_text_keys: bool = False


CONTESTANTS = {"panestream": Contestant(), "native": Contestant(is_native=True)}
_ARROW, _PYTHON = "spark.sql.execution.arrow", "spark.python"
LEVERS = {
    "as users start it": Contestant(),
    "workers read ahead (`udf.pipelined.enabled`)": Contestant(settings={f"{_PYTHON}.udf.pipelined.enabled": "true"}),
    "Arrow batches compressed by LZ4": Contestant(settings={f"{_ARROW}.compression.codec": "lz4"}),
    "Arrow batches of 10,000 rows": Contestant(
        settings={f"{_ARROW}.maxRecordsPerBatch": "10000", f"{_ARROW}.maxBytesPerBatch": str(2**31 - 1)}
    ),
    "buffers of 1 MB to and from Python": Contestant(settings={"spark.sql.execution.python.udf.buffer.size": str(2**20)}),
    "four tasks on two cores": Contestant(cores=4),
    "32 key groups": Contestant(options={"key_groups": 32}),
    "32 key groups in 2 tasks": Contestant(options={"key_groups": 32, "tasks": 2}),
    "texts as keys": Contestant(has_text_keys=True),
    "no waiting for local data (`locality.wait`)": Contestant(settings={"spark.locality.wait": "0s"}),
    "shuffle and spill in memory (`spark.local.dir`)": Contestant(settings={"spark.local.dir": "/dev/shm"}),  # noqa: S108
    "native": Contestant(is_native=True),
    "native, texts as keys": Contestant(is_native=True, has_text_keys=True),
}
"""Settings and shapes that might matter, each alone."""


def start(contestant: Contestant, events: DataFrame, folder: Path) -> Any:
    """Start the query of a contestant."""
    if contestant.has_text_keys:
        events = events.withColumn("key", F.format_string("key %07d", "key"))
    if not contestant.is_native:
        keyed = pst.stream(events, time="ts", out_of_orderness="1 second").key_by("key")
        windows = keyed.window(pst.tumbling("10 seconds")).options(**contestant.options)
        result = windows.aggregate(agg.sum("value").alias("total"), agg.count().alias("n"))
        return result.start(main=pst.ParquetSink(str(folder / "out")), checkpoint=str(folder / "checkpoint"))
    grouped = events.withWatermark("ts", "1 second").groupBy("key", F.window("ts", "10 seconds"))
    writer = grouped.agg(F.sum("value").alias("total"), F.count("*").alias("n")).writeStream.format("parquet")
    writer = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
    return writer.start(str(folder / "out"))


def measure(name: str, rows_per_batch: int, rows: int, data: Path) -> dict[str, Any]:
    """Return the figures of one run."""
    contestant = {**CONTESTANTS, **LEVERS}[name]
    spec = EventSpec(rows_per_batch, rows // rows_per_batch, files_per_batch=contestant.cores)
    files = write_with_end(spec, data)
    builder = SparkSession.builder.master(f"local[{contestant.cores}]").appName("backlog")
    common = {**SETTINGS, **STREAM_SETTINGS, **BIRTH_SETTINGS, "spark.sql.shuffle.partitions": "2"}
    for setting, value in {**common, **contestant.settings}.items():
        builder = builder.config(setting, value)
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
    """Return a line for each size and contestant: medians of the rounds, and the range of the rates."""
    lines = [
        "| rows a micro-batch | contestant | rows/s, all | rows/s, steady | ÷ the first | micro-batch | start-up | closing "
        "| workers | JVM |",
        "|---:|---|---:|---:|---|---:|---:|---:|---:|---:|",
    ]
    first: dict[int, list[dict[str, Any]]] = {}
    for (size, contestant), done in runs.items():
        of = {name: statistics.median(one[name] for one in done) for name in done[0] if name != "answer"}
        ratios = [one["steady"] / other["steady"] for one, other in zip(done, first.setdefault(size, done), strict=True)]
        ratio = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        rates = [one["rate"] for one in done]
        lines.append(
            f"| {size:,} | {contestant} | {of['rate']:,.0f} ({min(rates):,.0f} to {max(rates):,.0f}) | {of['steady']:,.0f} "
            f"| {ratio} | {of['micro_batch']:.2f} s | {of['start_up']:.1f} s | {of['closing']:.1f} s "
            f"| {of['workers_mb']:,.0f} MB | {of['jvm_mb']:,.0f} MB |"
        )
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    """Run all sizes in turns and print the table."""
    parser = argparse.ArgumentParser(prog="benchmarks.backlog", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=12_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--data", default=str(HERE / ".data"))
    parser.add_argument("--levers", action="store_true", help="compare settings instead of sizes")
    parser.add_argument("--write", action="store_true", help="keep the table, in results/backlog.md or levers.md")
    parser.add_argument("--one", nargs=2, metavar=("CONTESTANT", "SIZE"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.one:
        tell(measure(options.one[0], int(options.one[1]), options.rows, Path(options.data)))
        return
    sizes, contestants = ((1_000_000,), LEVERS) if options.levers else (SIZES, CONTESTANTS)
    runs: dict[tuple[int, str], list[dict[str, Any]]] = {(size, name): [] for size in sizes for name in contestants}
    for _ in range(options.rounds):
        for (size, name), done in runs.items():
            words = ["--one", name, str(size), "--rows", str(options.rows), "--data", options.data]
            done.append(ask("benchmarks.backlog", *words))
            print(size, name, done[-1], flush=True)
    answers = {tuple(one["answer"]) for done in runs.values() for one in done}
    if len(answers) != 1:
        raise SystemExit(f"the contestants do not have the same rows: {answers}")
    about = machine()
    lines = [
        "# A backlog, with one setting after the other" if options.levers else "# A backlog, by the size of its micro-batches",
        "",
        f"- Machine: {about['cpu']}, {about['cores']} cores, {about['memory_gb']} GB, {about['system']};",
        f"  load {about['load_at_start']}. Python {about['python']}, Spark {about['pyspark']}, pyarrow {about['pyarrow']}.",
        f"- {options.rows:,} rows, {options.rounds} rounds in turns, each run in a process of its own. All gave the same rows.",
        "- Tumbling windows of 10 s, sum and count, 10,000 keys, ten rows of a key in a window; Parquet in, Parquet out.",
        "- `rows/s, all` counts start-up and closing; `steady` is the median micro-batch between. Medians (lowest to highest).",
        "- `÷ the first` compares the steady rate with that of the first line of the same size and round.",
        "",
        *table(runs),
    ]
    print("\n".join(lines))
    if options.write:
        (RESULTS / ("levers.md" if options.levers else "backlog.md")).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
