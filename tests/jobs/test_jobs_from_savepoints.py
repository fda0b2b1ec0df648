"""A job that starts from a savepoint passes the start position to its source, without Spark."""

from __future__ import annotations

import pytest

from panestream.errors import CheckpointError, JobError
from panestream.jobs.loading import Overrides, load_job
from panestream.jobs.runner import from_savepoint
from panestream.spark.checkpoint.lineage import RestoredFrom
from panestream.spark.savepoint import restore
from panestream.spark.savepoint.manifest import SavepointManifest
from panestream.spark.savepoint.saved import Savepoint
from panestream.spark.savepoint.source_offsets import SourcePosition, positions_as_saved

REST = """
key = ["user"]
[event_time]
column = "at"
[watermark]
strategy = "monotonous"
[window]
type = "tumbling"
size = "1 hour"
[aggregate]
n = "count"
[sinks.main]
format = "console"
"""
KAFKA = """
[source]
format = "kafka"
schema = "user STRING, at TIMESTAMP"
[source.kafka]
servers = "localhost:9092"
topics = ["clicks"]
"""
DELTA = """
[source]
format = "delta"
table = "clicks"
options = { startingVersion = "0", ignoreDeletes = "true" }
"""
FILES = """
[source]
format = "parquet"
path = "in"
schema = "user STRING, at TIMESTAMP"
"""
VERSION = '{"sourceVersion":1,"reservoirId":"r","reservoirVersion":7,"index":%d,"isStartingVersion":false}'


@pytest.fixture
def start_job(tmp_path, monkeypatch):
    """Return a function that starts a job with such a source from a savepoint with such a position. It returns the job and the start
    options.
    """

    def begin(source, position, mode="stream"):
        (tmp_path / "job.toml").write_text(f'mode = "{mode}"' + REST + source)
        loaded = load_job(tmp_path / "job.toml", Overrides(savepoint="saved"))
        sources = positions_as_saved([position] if position else [])
        found = Savepoint("saved", SavepointManifest({}, [], {}, sources=sources), None)
        monkeypatch.setattr(restore, "savepoint_for", lambda *_: found)
        return from_savepoint(loaded, None)

    return begin


def test_kafka_source_starts_at_the_offsets_of_the_savepoint(start_job):
    loaded, how = start_job(KAFKA, SourcePosition(0, "kafka", '{"clicks":{"0":23}}'))
    assert loaded.job.source.kafka.starting == '{"clicks":{"0":23}}'
    assert how == {"savepoint": "saved"}  # start checks whether the source started there


def test_delta_source_starts_at_the_version_of_the_savepoint(start_job):
    loaded, how = start_job(DELTA, SourcePosition(0, "delta", VERSION % -1))
    assert loaded.job.source.options == {"startingVersion": "7", "ignoreDeletes": "true"}
    assert how == {"savepoint": "saved", "source_offsets": "job"}
    with pytest.raises(CheckpointError, match="midst of version 7"):
        start_job(DELTA, SourcePosition(0, "delta", VERSION % 3))


def test_source_is_unchanged_without_a_position_or_after_a_checkpoint(start_job, tmp_path, monkeypatch):
    for source, position in ((FILES, SourcePosition(0, "files", '{"logOffset":3}', 4)), (KAFKA, None)):
        loaded, how = start_job(source, position)
        assert loaded.job == load_job(tmp_path / "job.toml").job
        assert how == {"savepoint": "saved"}
    # The checkpoint is newer, so the savepoint is not read.
    loaded = load_job(tmp_path / "job.toml", Overrides(savepoint="saved"))
    monkeypatch.setattr(restore, "savepoint_for", lambda *_: RestoredFrom("name", "saved"))
    assert from_savepoint(loaded, None) == (loaded, {"savepoint": "saved"})
    without = load_job(tmp_path / "job.toml")
    assert from_savepoint(without, None) == (without, {})


def test_batch_job_refuses_a_savepoint(start_job):
    with pytest.raises(JobError, match="--savepoint is for streams"):
        start_job(FILES, None, mode="batch")
