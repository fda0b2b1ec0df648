"""The code of docs/how-to/iceberg.md and the job files of examples/ run, and the page's claims about reading are true."""

from __future__ import annotations

import re
import uuid
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

import panestream as pst
from panestream import agg
from panestream.jobs.loading import load_job
from panestream.jobs.runner import SessionRunner

pytestmark = pytest.mark.connectors

ROOT = Path(__file__).resolve().parents[3]
START = datetime(2026, 1, 1, tzinfo=timezone.utc)


def clicks(spark, hours):
    """Make clicks of two pages, one every twenty minutes."""
    rows = [
        (page, START + timedelta(minutes=minute)) for page in ("/a", "/b") for minute in range(60 * hours[0], 60 * hours[1], 20)
    ]
    return spark.createDataFrame(rows, "page STRING, clicked TIMESTAMP")


def run_job(spark, path):
    """Run a job file like ``panestream run``, in the existing session."""
    SessionRunner(load_job(path), spark).start(lambda progress: None).await_termination()


def hours_of(spark, table):
    spark.catalog.refreshTable(table)  # The query writes in another session, whose catalog has its own cache.
    return sorted(
        (row.page, row.window_start.hour, row.views)
        for row in spark.table(table).select("page", "window_start", "views").collect()
    )


def closed(hours):
    return [(page, hour, 3) for page in ("/a", "/b") for hour in range(hours)]


@pytest.mark.iceberg
def test_blocks_of_the_iceberg_page_run(spark, tmp_path):
    page = (ROOT / "docs" / "how-to" / "iceberg.md").read_text("utf-8")
    lake = f"lake_{uuid.uuid4().hex}"  # a catalog for this test alone

    def here(text):
        return re.sub(r"\blake\b(?=[.\"])", lake, text).replace("/data/", f"{tmp_path}/")

    session, reading, *rest = [here(block) for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL)]
    names = {}
    exec(session, names)  # the code of the page
    clicks(spark, (0, 3)).writeTo(f"{lake}.shop.clicks").create()
    exec(reading, names)
    for block in rest:
        exec(block, names)
    assert len(rest) == 3
    for table in ("views_appended", "views"):
        assert hours_of(spark, f"{lake}.shop.{table}") == closed(2)
    (job,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "job.toml").write_text(here(job))
    run_job(spark, tmp_path / "job.toml")
    assert hours_of(spark, f"{lake}.shop.views_of_job") == closed(2)


@pytest.mark.iceberg
def test_iceberg_source_continues_after_restart_and_can_be_read_as_of_a_snapshot(spark, tmp_path):
    table, out = f"ice.db.c_{uuid.uuid4().hex}", f"ice.db.v_{uuid.uuid4().hex}"

    def views(rows):
        timed = pst.stream(rows).assign_timestamps("clicked", pst.WatermarkStrategy.for_monotonous_timestamps())
        windows = timed.key_by("page").window(pst.TumblingEventTimeWindows.of("1 hour"))
        return windows.options(key_groups=1).aggregate(agg.count().alias("views"))

    def run():
        reader = spark.readStream.option("streaming-max-files-per-micro-batch", 10)
        views(reader.table(table)).start(checkpoint=str(tmp_path / "checkpoint"), main=pst.TableSink(out)).await_termination()

    clicks(spark, (0, 2)).coalesce(1).writeTo(table).create()
    run()
    assert hours_of(spark, out) == closed(1)
    then = spark.table(f"{table}.snapshots").collect()[0].snapshot_id
    clicks(spark, (2, 3)).coalesce(1).writeTo(table).append()
    spark.sql(
        f"CALL ice.system.rewrite_data_files(table => '{table.removeprefix('ice.')}', options => map('rewrite-all', 'true'))"
    )
    run()
    assert hours_of(spark, out) == closed(2)
    of_then = views(spark.read.option("versionAsOf", then).table(table)).main.select("page", "window_start", "views").collect()
    assert sorted((row.page, row.window_start.hour, row.views) for row in of_then) == closed(2)
    assert len(views(spark.read.table(table)).main.collect()) == 6


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=getattr(pytest.mark, kind)) for kind in ("iceberg", "delta")])
def test_iceberg_job_file_of_the_examples_runs(spark, tmp_path, kind):
    text = (ROOT / "examples" / f"{kind}_views.toml").read_text("utf-8")
    schema = f"views_{uuid.uuid4().hex}"
    where = f"ice.{schema}" if kind == "iceberg" else schema
    for name in ("clicks", "views", "late_clicks"):
        text = re.sub(rf'^table = "(lake\.shop\.)?{name}"', f'table = "{where}.{name}"', text, flags=re.MULTILINE)
    spark.sql(f"CREATE SCHEMA {where}")
    path = tmp_path / "job.toml"
    path.write_text(text)
    clicks(spark, (0, 3)).write.format(kind).saveAsTable(f"{where}.clicks")
    run_job(spark, path)
    assert hours_of(spark, f"{where}.views") == closed(2)
    # A late click of the first hour replaces its row.
    late = spark.createDataFrame([("/a", START + timedelta(minutes=5))], "page STRING, clicked TIMESTAMP")
    late.write.format(kind).mode("append").saveAsTable(f"{where}.clicks")
    run_job(spark, path)
    assert hours_of(spark, f"{where}.views") == sorted([("/a", 0, 4), *closed(2)[1:]])
    assert spark.table(f"{where}.late_clicks").count() == 0
