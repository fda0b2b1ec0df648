"""Two queries for tests of metrics listeners, one from ``start()`` and one from ``.main``. Not a test module, but also a script:

told.py FOLDER     through Spark Connect, writes the results to FOLDER/found.json
"""

from __future__ import annotations

import json
import sys
import urllib.request
from datetime import datetime, timedelta, timezone
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

import panestream as pst
from panestream import agg
from panestream.spark.session import session_settings, settings_for
from panestream.testing import MicroBatches
from tests.listening import listening

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
SECONDS = ([1, 2], [30, None], [3, 41])
"""Four of six rows are in windows of ten seconds, one is late and one lacks a time. Three windows close."""
COUNTED = ("rows", "windowed_rows", "late_rows", "invalid_rows", "outside_rows", "dropped_rows", "micro_batches")


def result_of(rows: MicroBatches) -> pst.datastream.WindowedResult:
    """Count by user without an output for late rows, so that they are dropped and counted."""
    timed = pst.stream(rows.stream()).assign_timestamps("at", pst.WatermarkStrategy.for_monotonous_timestamps())
    keyed = timed.side_output_invalid("invalid").key_by("user")
    return keyed.window(pst.TumblingEventTimeWindows.of("10 seconds")).options(key_groups=2).aggregate(agg.count().alias("n"))


def scrape(url: str) -> dict[str, dict[str, float]]:
    """Return the counters with only the label of the query, by query."""
    with urllib.request.urlopen(url, timeout=30) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    found: dict[str, dict[str, float]] = {}
    for sample in (sample for family in families for sample in family.samples):
        name = sample.name.removeprefix("panestream_").removesuffix("_total")
        if name in COUNTED:
            found.setdefault(sample.labels["query"], {})[name] = sample.value
    return found


def run(spark, folder: Path) -> dict:
    """Run both queries to their ends. Return the scraped metrics and the written lines."""
    rows = MicroBatches(spark, folder / "in", "user string, at timestamp")
    for batch in SECONDS:
        rows.add([(user, None if one is None else START + timedelta(seconds=one)) for user, one in zip("ab", batch, strict=True)])
    metrics, lines = pst.metrics.PrometheusMetrics(port=0), pst.metrics.JsonLinesMetrics(folder / "metrics.jsonl")
    with listening(spark, metrics, lines) as told:
        sinks = {tag: pst.ParquetSink(str(folder / tag)) for tag in ("main", "invalid")}
        result_of(rows).start(checkpoint=str(folder / "c"), name="started", **sinks).await_termination()
        with session_settings(spark, settings_for(spark, 2)):
            writer = result_of(rows).main.writeStream.queryName("from_main").option("checkpointLocation", str(folder / "d"))
            writer.trigger(availableNow=True).format("parquet").start(str(folder / "own")).awaitTermination()
        told.wait()
        found = scrape(metrics.url)
    metrics.close()
    written = [json.loads(line) for line in lines.path.read_text("utf-8").splitlines()]
    return {"scraped": found, "lines": [[line["query"], line["rows"], line["windowed_rows"]] for line in written]}


def main() -> None:
    from pyspark.sql import SparkSession

    folder = Path(sys.argv[1])
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    found = {"session": type(spark).__module__, **run(spark, folder)}
    (folder / "found.json").write_text(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main()
