"""A query from a savepoint goes on at the version of a Delta table where the old one ended, and in its Delta tables."""

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


def appended():
    return {"main": pst.TableSink("minutes", "delta")}


def test_it_goes_on_at_the_version(spark, clicks, tmp_path):
    for minute in range(3):
        add(spark, minute)
    old, new = str(tmp_path / "old"), str(tmp_path / "new")
    minutes(source(spark)).start(checkpoint=old, **appended()).await_termination()
    saved = pst.savepoint(spark, old, str(tmp_path / "saved"))
    # The version to come, which is not there yet.
    assert saved.source_options() == {"startingVersion": "4"}
    result = minutes(source(spark, **saved.source_options()))
    with pytest.warns(PanestreamWarning, match="up to version 4, without it. Whether the stream begins there cannot be seen"):
        result.start(checkpoint=new, savepoint=saved.path, **appended()).await_termination()
    for minute in range(3, 6):
        add(spark, minute)
    result.start(checkpoint=new, savepoint=saved.path, source_offsets="job", **appended()).await_termination()
    expected = [row for row in found(minutes(spark.table("clicks")).main) if row[1].minute < 5]
    assert len(expected) == 10
    assert found(spark.table("minutes")) == expected


def test_the_midst_of_a_version_is_refused(spark, clicks, tmp_path):
    add(spark, 0)
    add(spark, 1)
    old = str(tmp_path / "old")
    minutes(source(spark)).start(checkpoint=old, **appended()).await_termination()
    saved = pst.savepoint(spark, old, str(tmp_path / "saved"), batch_id=0)
    with pytest.raises(CheckpointError, match="midst of the table as it was found"):
        saved.source_options()
    with pytest.raises(CheckpointError, match="midst of the table as it was found"):
        minutes(source(spark)).start(checkpoint=str(tmp_path / "new"), savepoint=saved.path, **appended())


def test_a_stream_that_begins_before_is_refused(spark, clicks, tmp_path):
    add(spark, 0)
    old, new = str(tmp_path / "old"), str(tmp_path / "new")
    minutes(source(spark)).start(checkpoint=old, **appended()).await_termination()
    saved = pst.savepoint(spark, old, str(tmp_path / "saved"))
    add(spark, 1)
    before = found(spark.table("minutes"))
    with pytest.warns(PanestreamWarning, match="cannot be seen"):
        query = minutes(source(spark)).start(checkpoint=new, savepoint=saved.path, **appended())
    with pytest.raises(CheckpointError, match=r"begins before that.*startingVersion='2'"):
        query.await_termination()
    assert found(spark.table("minutes")) == before


@pytest.fixture
def killed(spark, tmp_path):
    """The savepoint of a query that was killed when its table had a micro-batch which Spark had not committed."""
    spark.sql(f"CREATE TABLE clicks ({SCHEMA}) USING delta")
    sinks = {"main": pst.TableSink("minutes", "delta")}
    for minute in range(2):
        add(spark, minute)
        minutes(source(spark)).start(checkpoint=str(tmp_path / "old"), **sinks).await_termination()
    take_back_last_commit(tmp_path / "old")
    yield pst.savepoint(spark, str(tmp_path / "old"), str(tmp_path / "saved"))
    for table in ("clicks", "minutes", "merged"):
        spark.sql(f"DROP TABLE IF EXISTS {table}")


def test_what_a_table_has_beyond_the_savepoint_is_refused(spark, killed, tmp_path):
    assert killed.batch_id == 0
    result, how = minutes(source(spark, **killed.source_options())), {"savepoint": killed.path, "source_offsets": "job"}
    with pytest.raises(SinkError, match=r"has micro-batch 1 of a query that this one succeeds.*start it once more"):
        result.start(checkpoint=str(tmp_path / "new"), **how, **appended())
    # Elsewhere it may, and so may the old one.
    result.start(checkpoint=str(tmp_path / "newer"), main=pst.TableSink("merged", "delta"), **how).await_termination()
    minutes(source(spark)).start(checkpoint=str(tmp_path / "old"), **appended()).await_termination()
    assert found(spark.table("minutes")) == found(spark.table("merged")) != []


def test_history_of_a_version_and_the_stream_from_the_next(spark, clicks, tmp_path):
    """Minute 1 has rows on both sides of the seam."""
    for minute in range(2):
        add(spark, minute)
    history = spark.read.option("versionAsOf", 2).table("clicks")
    result = minutes(source(spark, startingVersion="3"))
    saved = result.bootstrap(history, str(tmp_path / "saved"), **appended())
    assert len(found(spark.table("minutes"))) == 2
    for minute in range(1, 3):
        add(spark, minute)
    result.start(checkpoint=str(tmp_path / "new"), savepoint=saved.path, **appended()).await_termination()
    expected = [row for row in found(minutes(spark.table("clicks")).main) if row[1].minute < 2]
    assert [row[3] for row in expected if row[1].minute == 1] == [4, 2]
    assert found(spark.table("minutes")) == expected
