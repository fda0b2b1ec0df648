"""A query that starts from a savepoint continues at the old query's version of a Delta source, and in its Delta tables."""

from __future__ import annotations

import pytest

import panestream as pst
from panestream.errors import CheckpointError, PanestreamWarning, SinkError
from tests.connectors.delta import test_delta_source
from tests.connectors.delta.test_delta_source import SCHEMA, add, found, minutes, take_back_last_commit

pytestmark = [pytest.mark.connectors, pytest.mark.delta]

clicks = test_delta_source.clicks


def source(spark, **options):
    return spark.readStream.option("maxFilesPerTrigger", 1).options(**options).table("clicks")


def append_to_table():
    return {"main": pst.TableSink("minutes", "delta")}


def test_query_from_savepoint_continues_at_the_next_delta_version(spark, clicks, tmp_path):
    for minute in range(3):
        add(spark, minute)
    old, new = str(tmp_path / "old"), str(tmp_path / "new")
    minutes(source(spark)).start(checkpoint=old, **append_to_table()).await_termination()
    saved = pst.savepoint(spark, old, str(tmp_path / "saved"))
    # The next version, which does not exist yet.
    assert saved.source_options() == {"startingVersion": "4"}
    result = minutes(source(spark, **saved.source_options()))
    with pytest.warns(PanestreamWarning, match="up to version 4, exclusive. panestream cannot check if the stream starts there"):
        result.start(checkpoint=new, savepoint=saved.path, **append_to_table()).await_termination()
    for minute in range(3, 6):
        add(spark, minute)
    result.start(checkpoint=new, savepoint=saved.path, source_offsets="job", **append_to_table()).await_termination()
    expected = [row for row in found(minutes(spark.table("clicks")).main) if row[1].minute < 5]
    assert len(expected) == 10
    assert found(spark.table("minutes")) == expected


def test_savepoint_within_a_delta_version_is_refused(spark, clicks, tmp_path):
    add(spark, 0)
    add(spark, 1)
    old = str(tmp_path / "old")
    minutes(source(spark)).start(checkpoint=old, **append_to_table()).await_termination()
    saved = pst.savepoint(spark, old, str(tmp_path / "saved"), batch_id=0)
    with pytest.raises(CheckpointError, match="midst of the table as it was found"):
        saved.source_options()
    with pytest.raises(CheckpointError, match="midst of the table as it was found"):
        minutes(source(spark)).start(checkpoint=str(tmp_path / "new"), savepoint=saved.path, **append_to_table())


def test_stream_that_starts_before_the_savepoint_is_refused(spark, clicks, tmp_path):
    add(spark, 0)
    old, new = str(tmp_path / "old"), str(tmp_path / "new")
    minutes(source(spark)).start(checkpoint=old, **append_to_table()).await_termination()
    saved = pst.savepoint(spark, old, str(tmp_path / "saved"))
    add(spark, 1)
    before = found(spark.table("minutes"))
    with pytest.warns(PanestreamWarning, match="cannot check if the stream starts there"):
        query = minutes(source(spark)).start(checkpoint=new, savepoint=saved.path, **append_to_table())
    with pytest.raises(CheckpointError, match=r"begins before that.*startingVersion='2'"):
        query.await_termination()
    assert found(spark.table("minutes")) == before


@pytest.fixture
def killed(spark, tmp_path):
    """The savepoint of a query that was killed after its table had a micro-batch and before Spark committed it."""
    spark.sql(f"CREATE TABLE clicks ({SCHEMA}) USING delta")
    sinks = {"main": pst.TableSink("minutes", "delta")}
    for minute in range(2):
        add(spark, minute)
        minutes(source(spark)).start(checkpoint=str(tmp_path / "old"), **sinks).await_termination()
    take_back_last_commit(tmp_path / "old")
    yield pst.savepoint(spark, str(tmp_path / "old"), str(tmp_path / "saved"))
    for table in ("clicks", "minutes", "merged"):
        spark.sql(f"DROP TABLE IF EXISTS {table}")


def test_table_with_a_micro_batch_after_the_savepoint_is_refused(spark, killed, tmp_path):
    assert killed.batch_id == 0
    result, how = minutes(source(spark, **killed.source_options())), {"savepoint": killed.path, "source_offsets": "job"}
    with pytest.raises(SinkError, match=r"has micro-batch 1 of a query that this one succeeds.*[Ss]tart it again"):
        result.start(checkpoint=str(tmp_path / "new"), **how, **append_to_table())
    # The new query may write to another table, and the old query may continue.
    result.start(checkpoint=str(tmp_path / "newer"), main=pst.TableSink("merged", "delta"), **how).await_termination()
    minutes(source(spark)).start(checkpoint=str(tmp_path / "old"), **append_to_table()).await_termination()
    assert found(spark.table("minutes")) == found(spark.table("merged")) != []


def test_history_up_to_a_version_joins_the_stream_from_the_next(spark, clicks, tmp_path):
    """Minute 1 has rows on both sides of the border."""
    for minute in range(2):
        add(spark, minute)
    history = spark.read.option("versionAsOf", 2).table("clicks")
    result = minutes(source(spark, startingVersion="3"))
    saved = result.bootstrap(history, str(tmp_path / "saved"), **append_to_table())
    assert len(found(spark.table("minutes"))) == 2
    for minute in range(1, 3):
        add(spark, minute)
    result.start(checkpoint=str(tmp_path / "new"), savepoint=saved.path, **append_to_table()).await_termination()
    expected = [row for row in found(minutes(spark.table("clicks")).main) if row[1].minute < 2]
    assert [row[3] for row in expected if row[1].minute == 1] == [4, 2]
    assert found(spark.table("minutes")) == expected
