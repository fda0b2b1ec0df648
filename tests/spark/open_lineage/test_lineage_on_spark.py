"""Lineage of real queries: the numbers of the events are those of the sinks, over a restart. Only Spark has sources and progress."""

from __future__ import annotations

import pytest

import panestream as pst
from panestream import agg
from panestream.errors import PanestreamWarning, SinkError
from tests.spark.open_lineage.validation import faults

pytestmark = pytest.mark.spark


def result_over(clicks):
    return (
        pst.stream(clicks)
        .assign_timestamps("ts", pst.WatermarkStrategy.for_bounded_out_of_orderness("10 seconds"))
        .key_by("user")
        .window(pst.TumblingEventTimeWindows.of("1 minute"))
        .side_output_late_data("late")
        .options(key_groups=2)
        .aggregate(agg.count().alias("clicks"))
    )


def write(spark, folder, first):
    """Add a file with 300 rows, of which 2 are later than the watermark if an earlier file has times up to ``first``."""
    rows = f"timestamp_seconds(1767225600 + {first} + id - IF(id % 150 = 149, 280, 0)) AS ts"
    spark.range(300).selectExpr("id % 7 AS user", rows).coalesce(1).write.mode("append").parquet(folder)


def test_events_of_a_restarted_query_agree_with_its_sinks(spark, tmp_path):
    source, main, late, checkpoint = (str(tmp_path / name) for name in ("clicks", "main", "late", "checkpoint"))
    write(spark, source, 0)
    write(spark, source, 300)
    events = []
    lineage = pst.tools.OpenLineage(events.append, namespace="shop", job="clicks", every="1 hour")
    sinks = {"main": pst.ParquetSink(main), "late": pst.ParquetSink(late)}
    clicks = spark.readStream.schema("user BIGINT, ts TIMESTAMP").option("maxFilesPerTrigger", 1).parquet(source)
    for first in (600, 900):
        result_over(clicks).start(outputs=sinks, checkpoint=checkpoint, lineage=lineage).await_termination()
        write(spark, source, first)
    assert [fault for event in events for fault in faults(event)] == []
    assert lineage.errors == 0
    assert [event["eventType"] for event in events] == ["START", "COMPLETE"] * 2
    runs = [event["run"]["runId"] for event in events]
    assert (runs[0], runs[2]) == (runs[1], runs[3])
    assert runs[0] != runs[2]
    ends = events[1::2]
    assert len({end["run"]["facets"]["panestream_windows"]["queryId"] for end in ends}) == 1
    windows = [end["run"]["facets"]["panestream_windows"] for end in ends]
    assert [each["microBatches"] for each in windows] == [2, 1]
    assert [each["rows"] for each in windows] == [600, 300]
    assert [[(one["name"], one["inputFacets"]["inputStatistics"]["rowCount"]) for one in end["inputs"]] for end in ends] == [
        [(source, 600)],
        [(source, 300)],
    ]
    written = {main: spark.read.parquet(main), late: spark.read.parquet(late)}
    counted = dict.fromkeys(written, 0)
    for end in ends:
        for output in end["outputs"]:
            counted[output["name"]] += output["outputFacets"]["outputStatistics"]["rowCount"]
    assert counted == {path: rows.count() for path, rows in written.items()}
    assert counted[late] == sum(each["lateRows"] for each in windows) > 0
    for output in ends[0]["outputs"]:
        fields = {each["name"]: each["type"] for each in output["facets"]["schema"]["fields"]}
        columns = dict(written[output["name"]].dtypes)
        assert fields == {name: columns[name] for name in fields}
        assert {*columns} - {*fields} <= {"batch", "panestream_batch", "batch_id"}


def test_failed_and_stopped_queries_and_tables_have_their_own_ends(spark, tmp_path):
    source, checkpoint = str(tmp_path / "clicks"), str(tmp_path / "checkpoint")
    write(spark, source, 0)
    events = []
    lineage = pst.tools.OpenLineage(events.append, job="clicks", every="1 second")
    clicks = spark.readStream.schema("user BIGINT, ts TIMESTAMP").parquet(source)
    table = f"lineage_{tmp_path.name.replace('-', '_')}"

    def fail(df, batch_id):
        raise ValueError("password=SECRET is refused")

    query = result_over(clicks).start(
        outputs={"main": pst.ForeachBatchSink(fail, idempotent=True), "late": pst.MemorySink()},
        checkpoint=checkpoint,
        lineage=lineage,
    )
    with pytest.raises(SinkError):
        query.await_termination()
    try:
        with pytest.warns(PanestreamWarning, match="at least once"):
            query = result_over(clicks).start(
                outputs={"main": pst.TableSink(table), "late": pst.MemorySink()},
                checkpoint=f"{checkpoint}-2",
                processing_time="100 milliseconds",
                lineage=lineage,
            )
        query.query.processAllAvailable()
        query.stop()
        location = next(row[1] for row in spark.sql(f"DESCRIBE TABLE EXTENDED {table}").collect() if row[0] == "Location")
    finally:
        spark.sql(f"DROP TABLE IF EXISTS {table}")
    assert [fault for event in events for fault in faults(event)] == []
    kinds = [event["eventType"] for event in events if event["eventType"] != "RUNNING"]
    assert kinds == ["START", "FAIL", "START", "ABORT"]
    failed, stopped = (event for event in events if event["eventType"] in ("FAIL", "ABORT"))
    assert "SECRET" not in str(failed)
    assert "password=***" in failed["run"]["facets"]["errorMessage"]["message"]
    assert [each["name"] for each in failed["outputs"]] == ["clicks.main", "clicks.late"]
    assert f"file:{stopped['outputs'][0]['name']}" == location.replace("file:///", "file:/")
    assert stopped["run"]["facets"]["panestream_windows"]["rows"] == 300
