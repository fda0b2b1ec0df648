"""Errors name damaged files in the logs that Spark keeps in a checkpoint. Without Spark's JVM."""

from __future__ import annotations

import shutil

import pytest
from pyspark.errors import PySparkException

from panestream.errors import OperatorError, StateDamagedError
from panestream.spark.checkpoint.spark_logs import WAY_OUT, damage_of_logs, explained, named
from tests.spark.plain_files import PlainSpark

METADATA = '{"id":"12345678-90ab-4def-8123-4567890abcde"}'
OFFSETS = 'v1\n{"batchWatermarkMs":0,"conf":{}}\n{"logOffset":%d}'
SOURCE = 'v1\n{"path":"file:///in/%d.json","timestamp":1,"batchId":%d}'


@pytest.fixture
def spark(monkeypatch):
    return PlainSpark(monkeypatch)


@pytest.fixture
def checkpoint(tmp_path):
    """The logs of a query that committed micro-batches 0 to 3, one file each."""
    folder = tmp_path / "cp of a query"
    texts = {"metadata": METADATA}
    for number in range(4):
        texts |= {f"offsets/{number}": OFFSETS % number, f"commits/{number}": 'v1\n{"nextBatchWatermarkMs":0}'}
        texts[f"sources/0/{number}"] = SOURCE % (number, number)
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_whole_logs_have_no_damage(spark, checkpoint):
    assert damage_of_logs(spark, str(checkpoint)) is None
    (checkpoint / "commits/3").unlink()  # the last micro-batch was planned but not committed, as in an ordinary restart
    assert damage_of_logs(spark, str(checkpoint)) is None
    assert damage_of_logs(spark, str(checkpoint / "of nobody")) is None


def test_log_without_its_oldest_entries_has_no_damage(spark, checkpoint):
    for name in ("offsets/0", "commits/0", "offsets/1", "commits/1"):
        (checkpoint / name).unlink()
    assert damage_of_logs(spark, str(checkpoint)) is None


def test_compacted_source_log_replaces_earlier_entries(spark, checkpoint):
    for number in (0, 1):
        (checkpoint / f"sources/0/{number}").unlink()
    assert damage_of_logs(spark, str(checkpoint)) == "sources/0/0 is gone"
    (checkpoint / "sources/0/1.compact").write_text(SOURCE % (0, 0) + "\n" + (SOURCE % (1, 1)).partition("\n")[2])
    assert damage_of_logs(spark, str(checkpoint)) is None


def test_offsets_of_any_source_are_whole_lines(spark, checkpoint):
    (checkpoint / "offsets/3").write_text('v1\n{"conf":{}}\n-\n17\nmine, {of my own}\n{"topic":{"0":23}}')
    (checkpoint / "sources/0/3").write_text('\0v1\n{"topic":{"0":0}}')
    assert damage_of_logs(spark, str(checkpoint)) is None


@pytest.mark.parametrize("name", ["metadata", "offsets/3", "offsets/2", "commits/3", "sources/0/3", "sources/0/0"])
def test_cut_or_empty_log_file_is_named(spark, checkpoint, name):
    file = checkpoint / name
    file.write_text(file.read_text()[:-3])
    assert damage_of_logs(spark, str(checkpoint)) == f"{name} is cut off or was changed"
    file.write_text("")
    assert damage_of_logs(spark, str(checkpoint)) == f"{name} is empty"


def test_metadata_with_another_letter_is_named(spark, checkpoint):
    (checkpoint / "metadata").write_text(METADATA.replace("90ab", "90<b"))
    assert damage_of_logs(spark, str(checkpoint)) == "metadata is cut off or was changed"


@pytest.mark.parametrize("name", ["offsets/3", "commits/3", "sources/0/3"])
def test_log_file_that_ends_within_its_first_lines_is_named(spark, checkpoint, name):
    (checkpoint / name).write_text("v1\n")
    assert damage_of_logs(spark, str(checkpoint)) == f"{name} is cut off or was changed"
    (checkpoint / name).write_text("w1\n{}")
    assert damage_of_logs(spark, str(checkpoint)) == f"{name} does not begin with a version"


@pytest.mark.parametrize(
    ("gone", "said"),
    [
        ("offsets/3", "offsets/3 is gone"),
        ("offsets/2", "offsets/2 is gone"),
        ("sources/0/3", "sources/0/3 is gone"),
        ("sources/0/1", "sources/0/1 is gone"),
        ("offsets", "offsets is gone"),
        ("metadata", "metadata is gone"),
        ("commits", "commits is gone"),
        ("sources", "sources is gone"),
    ],
)
def test_missing_log_file_is_named(spark, checkpoint, gone, said):
    path = checkpoint / gone
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert damage_of_logs(spark, str(checkpoint)) == said


def test_missing_offsets_and_commits_are_named(spark, checkpoint):
    for log in ("offsets", "commits"):
        shutil.rmtree(checkpoint / log)
    assert damage_of_logs(spark, str(checkpoint)) == "offsets is gone"


def test_log_file_with_another_checksum_is_named(spark, checkpoint, monkeypatch):
    def refuse(session, pattern):
        raise PySparkException(f"Job aborted\nCaused by: Checksum error: file:{checkpoint}/commits/2 at 0 exp: 7 got: 8")

    monkeypatch.setattr("panestream.spark.checkpoint.spark_logs.read_files", refuse)
    assert damage_of_logs(spark, str(checkpoint)) == "commits/2 was changed, its checksum (.crc) is another"


def test_failure_with_a_damaged_log_names_file_and_way_out(spark, checkpoint):
    (checkpoint / "sources/0/2").unlink()
    error = PySparkException("batch 2 doesn't exist\n=== Streaming Query ===\nLogical Plan: ...")
    found = named(spark, str(checkpoint), error)
    assert type(found) is StateDamagedError
    assert str(found) == (
        f"Spark's log in the checkpoint {checkpoint} is damaged: sources/0/2 is gone (batch 2 doesn't exist). {WAY_OUT}"
    )


def test_failure_with_a_known_reason_is_explained(spark, checkpoint):
    (checkpoint / "sources/0/2").unlink()
    found = named(spark, str(checkpoint), PySparkException("Job aborted\nCaused by: No space left on device"))
    assert type(found) is OperatorError
    assert str(found).startswith(f"the query on the checkpoint {checkpoint} failed: a disk is full: ")
    assert len(str(found).splitlines()) == 1


def test_failure_with_whole_logs_stays_sparks_own(spark, checkpoint, monkeypatch):
    assert named(spark, str(checkpoint), PySparkException("the topic is gone")) is None
    (checkpoint / "sources/0/2").unlink()
    assert named(spark, str(checkpoint), ValueError("not of Spark")) is None
    assert named(spark, str(checkpoint), PySparkException("SparkContext was shut down")) is None

    def refuse(session, pattern):
        raise PySparkException("no such bucket")

    monkeypatch.setattr("panestream.spark.checkpoint.spark_logs.list_files", refuse)
    assert named(spark, str(checkpoint), PySparkException("no such bucket")) is None


def test_error_of_a_start_is_explained_and_keeps_sparks(spark, checkpoint):
    (checkpoint / "metadata").write_text('{"id":"6f')
    error = PySparkException("Unexpected end-of-input: was expecting closing quote\n\tat com.fasterxml.jackson")
    said = r"is damaged: metadata is cut off or was changed \(Unexpected"
    with pytest.raises(StateDamagedError, match=said) as raised, explained(spark, str(checkpoint)):
        raise error
    assert raised.value.spark_error is error
    for other in (PySparkException("the topic is gone"), ValueError("mine")):
        (checkpoint / "metadata").write_text(METADATA)
        with pytest.raises(type(other)) as raised, explained(spark, str(checkpoint)):
            raise other
        assert raised.value is other
