"""A job whose endpoint is scraped over HTTP while it runs, stops and starts again. It is also a script:

    scraped.py FOLDER    runs the job through Spark Connect, and writes the results to FOLDER/found.json

The outcome of every row is known. Of 11 rows, 7 are in windows (of five seconds, every ten), 2 are late, 1 is invalid, and 1 is
between two windows.
"""

from __future__ import annotations

import json
import sys
import time
import urllib.request
from dataclasses import asdict
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from prometheus_client.parser import text_string_to_metric_families

import panestream as pst
from panestream import agg
from tests.listening import listening

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
FILES = [
    [("a", 1), ("a", 30), ("b", 30), ("a", None)],
    [("a", 2), ("a", 60), ("b", 60), ("b", 67)],
    [("a", 3), ("a", 100), ("b", 100)],
]
SCHEMA = "part string, ts timestamp"
PATIENCE = 300


def write(folder: Path, number: int) -> None:
    """Write one file atomically."""
    rows = FILES[number]
    times = [None if second is None else START + timedelta(seconds=second) for _, second in rows]
    table = pa.table({"part": [part for part, _ in rows], "ts": pa.array(times, pa.timestamp("us", tz="UTC"))})
    folder.mkdir(exist_ok=True)
    pq.write_table(table, folder / f".{number}")
    (folder / f".{number}").rename(folder / f"{number}.parquet")


def scrape(url: str) -> dict[str, float]:
    """Return the endpoint's values for the query, by metric name and further labels. The counts of each scrape must add up."""
    with urllib.request.urlopen(url, timeout=30) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    found = {}
    for sample in (sample for family in families for sample in family.samples):
        labels = [value for label, value in sorted(sample.labels.items()) if label != "query"]
        if sample.labels.get("query", "clicks") == "clicks":
            found[" ".join([sample.name, *labels])] = sample.value
    if "panestream_rows_total" in found:
        parts = [found[f"panestream_{kind}_rows_total"] for kind in ("windowed", "late", "invalid", "outside")]
        assert found["panestream_rows_total"] == sum(parts), found
    return found


def scraped_until(query, url: str, **wanted: float) -> dict[str, float]:
    """Scrape until the metrics have these values, while the query runs."""
    deadline = time.monotonic() + PATIENCE
    while True:
        found = scrape(url)
        if all(found.get(f"panestream_{name}") == value for name, value in wanted.items()):
            return found
        assert time.monotonic() < deadline, f"{wanted} did not come: {found}"
        query.await_termination(0.2)


def run(spark, folder: Path) -> dict:
    """Run the job, and return the scraped values and the reported progress."""
    write(folder / "in", 0)
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    strategy = pst.WatermarkStrategy.for_bounded_out_of_orderness("5 seconds").per_partition("part")
    result = (
        pst.stream(stream)
        .assign_timestamps("ts", strategy)
        .side_output_invalid("invalid")
        .key_by("part")
        .window(pst.SlidingEventTimeWindows.of("5 seconds", "10 seconds"))
        .aggregate(agg.count().alias("n"))
    )
    metrics = pst.metrics.PrometheusMetrics(port=0)
    lines = pst.metrics.JsonLinesMetrics(folder / "metrics.jsonl")
    progress: list[pst.BatchProgress] = []

    def start(trigger: str):
        sinks = {tag: pst.ParquetSink(str(folder / tag)) for tag in ("main", "invalid")}
        checkpoint = str(folder / "checkpoint")
        return result.start(checkpoint=checkpoint, trigger=trigger, name="clicks", on_progress=progress.append, **sinks)

    with listening(spark, metrics, lines) as told_of:
        query = start("1 second")
        running = [scraped_until(query, metrics.url, query_active=1, rows_total=4)]
        write(folder / "in", 1)
        running.append(scraped_until(query, metrics.url, query_active=1, rows_total=8))
        query.stop()
        stopped = scraped_until(query, metrics.url, query_active=0)
        write(folder / "in", 2)
        query = start("availableNow")
        query.await_termination()
        ended = scraped_until(query, metrics.url, query_active=0, rows_total=11)
        told_of.wait()
    recent = [asdict(step) for step in query.recent_progress]
    metrics.close()
    written = [json.loads(line) for line in lines.path.read_text("utf-8").splitlines()]
    told = [asdict(step) for step in progress]
    return {"running": running, "stopped": stopped, "ended": ended, "recent": recent, "told": told, "lines": written}


def refused(spark, folder: Path) -> str:
    """Return the error of ``await_termination`` after ``on_progress`` raises."""

    def users_function(progress):
        raise ValueError(f"no more of {progress.rows}")

    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    timed = pst.stream(stream).assign_timestamps("ts", pst.WatermarkStrategy.no_watermarks()).side_output_invalid("invalid")
    result = timed.key_by("part").window(pst.TumblingEventTimeWindows.of("10 seconds")).aggregate(agg.count().alias("n"))
    query = result.start(
        checkpoint=str(folder / "other"),
        trigger="1 second",
        main=pst.ParquetSink(str(folder / "more")),
        invalid=pst.ParquetSink(str(folder / "bad")),
        on_progress=users_function,
    )
    try:
        query.await_termination(PATIENCE)
    except pst.errors.CallbackError as error:
        return str(error)
    return "nothing"


def main() -> None:
    folder = Path(sys.argv[1])
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    found = {"session": type(spark).__module__, **run(spark, folder), "refused": refused(spark, folder)}
    (folder / "found.json").write_text(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main()
