"""A query from a savepoint must start its sources at the savepoint's positions, judged by Spark's logs. Without its JVM."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from panestream.errors import CheckpointError, InvalidPlanError, PanestreamWarning
from panestream.spark.checkpoint.lineage import RestoredFrom
from panestream.spark.savepoint.history import instant_of, rows_like, sources_of
from panestream.spark.savepoint.source_offsets import SourcePosition, Sources, positions_as_saved
from tests.spark.plain_files import PlainSpark

CLICKS = SourcePosition(1, "kafka", '{"clicks":{"0":23,"1":4}}')


def delta(version, name="r", **changed):
    told = {"sourceVersion": 1, "reservoirId": name, "reservoirVersion": version, "index": -1, "isStartingVersion": False}
    return json.dumps({**told, **changed})


TABLE = SourcePosition(2, "delta", delta(7))


@pytest.fixture
def spark(monkeypatch):
    return PlainSpark(monkeypatch)


def begun(folder: Path, offsets: str = "v1\n{}\n-", **sources) -> str:
    """Make a checkpoint whose first micro-batch is planned."""
    files = {"offsets/0": offsets, **{f"sources/{name[1:]}/0": text for name, text in sources.items()}}
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return str(folder)


def test_sources_come_from_the_savepoint_of_the_checkpoint():
    born = RestoredFrom("one", "/saved", None, positions_as_saved([CLICKS, TABLE]), own_position=True)
    assert Sources.of(born, "cp") == Sources((CLICKS, TABLE), "/saved", "cp", True)
    assert Sources.of(None, "cp") == Sources((), "", "cp", False)


def test_kafka_source_at_the_offsets_of_the_savepoint_is_accepted(spark, tmp_path):
    files = 'v1\n{"path":"file:/a","timestamp":1,"batchId":0}\n{"path":"file:/b","timestamp":1,"batchId":0}'
    there = begun(tmp_path, s0=files, s1='v1\n{"clicks":{"0":23,"1":4,"2":0},"views":{"0":0}}', s2="v1\nodd", s3='v1\n{"a":3}')
    Sources((CLICKS,), "/saved", there).check_begun(spark)
    # Another source of the query may also read the topic.
    Sources((SourcePosition(0, "kafka", CLICKS.offset),), "/saved", there).check_begun(spark)
    Sources((), "/saved", str(tmp_path / "nowhere")).check_begun(spark)


@pytest.mark.parametrize(
    ("log", "where"),
    [
        (
            '{"clicks":{"0":22,"1":4}}',
            "partition 0 of the topic clicks up to offset 23, and the stream begins at offset 22: .* twice",
        ),
        (
            '{"clicks":{"0":24,"1":4}}',
            "partition 0 of the topic clicks up to offset 23, and the stream begins at offset 24: .* lost",
        ),
        ('{"clicks":{"0":23}}', "partition 1 of the topic clicks up to offset 4, and the stream begins nowhere: .* lost"),
        (
            '{"views":{"0":23}}',
            r"source 1 of the savepoint /saved is the topic clicks of Kafka, which the query does not read\. If",
        ),
        ('{"clicks":5}', "which the query does not read"),
        ("[1]", "which the query does not read"),
    ],
)
def test_kafka_source_at_other_offsets_is_refused(spark, tmp_path, log, where):
    there = begun(tmp_path, s1=f"v1\n{log}")
    with pytest.raises(CheckpointError, match=where) as caught:
        Sources((CLICKS,), "/saved", there).check_begun(spark)
    assert str(caught.value).endswith("If this is intended, write start(…, source_offsets='job')")
    if "partition" in where:
        options = (
            """startingOffsets='{"clicks":{"0":23,"1":4}}' (of from_kafka: starting=), and start on another new checkpoint"""
        )
        assert f"pst.state.read_savepoint(spark, '/saved').source_options(1)), which is {options}" in str(caught.value)
    Sources((CLICKS,), "/saved", there, own=True).check_begun(spark)


def test_source_with_the_same_number_is_checked_first(spark, tmp_path):
    there = begun(tmp_path, s0='{"clicks":{"0":1,"1":1}}', s1='{"clicks":{"0":23,"1":4}}')
    Sources((CLICKS,), "/saved", there).check_begun(spark)
    with pytest.raises(CheckpointError, match="begins at offset 1"):
        Sources((SourcePosition(0, "kafka", CLICKS.offset),), "/saved", there).check_begun(spark)


def test_kafka_topic_that_the_query_does_not_read_is_refused(spark, tmp_path):
    with pytest.raises(CheckpointError, match="which the query does not read"):
        Sources((CLICKS,), "/saved", str(tmp_path)).check_begun(spark)


@pytest.mark.parametrize(
    ("lines", "refused"),
    [
        ((delta(7),), False),
        ((delta(9),), False),
        ((delta(7, index=-100),), False),
        ((delta(6),), True),
        ((delta(9, isStartingVersion=True),), True),
        ((delta(3, "other"),), False),
        ((delta(3, "other"), delta(6)), True),
        (("-",), False),
        (("-", '{"logOffset":3}'), False),
    ],
)
def test_delta_source_before_the_version_of_the_savepoint_is_refused(spark, tmp_path, lines, refused):
    there = begun(tmp_path, "\n".join(["v1", "{}", *lines]))
    sources = Sources((TABLE,), "/saved", there)
    if refused:
        said = "has the Delta table of source 2 up to version 7, without it, and the stream begins before that: rows would come"
        with pytest.raises(CheckpointError, match=said):
            sources.check_begun(spark)
        Sources((TABLE,), "/saved", there, own=True).check_begun(spark)
    else:
        sources.check_begun(spark)


def test_delta_source_is_warned_of_before_the_start(spark):
    with pytest.warns(PanestreamWarning) as caught:
        Sources((CLICKS, TABLE), "/saved", "cp").check(None)
    (one,) = caught
    assert "source 2 of the savepoint /saved is a Delta table, read up to version 7, exclusive." in str(one.message)
    assert ".options(**pst.state.read_savepoint(spark, '/saved').source_options(2))" in str(one.message)
    Sources((CLICKS, TABLE), "/saved", "cp", own=True).check(None)
    odd = SourcePosition(0, "other", "17")
    with pytest.raises(CheckpointError, match="source 0 was read up to 17"):
        Sources((odd,), "/saved", "cp").check(None)
    Sources((odd,), "/saved", "cp", own=True).check(None)


def test_delta_setting_is_made_only_for_a_delta_source(spark):
    made = {}
    spark.conf.set = made.__setitem__
    Sources((CLICKS,), "/saved", "cp").prepare(spark)
    assert made == {}
    Sources((CLICKS, TABLE), "/saved", "cp").prepare(spark)
    assert made == {"spark.databricks.delta.changeDataFeed.timestampOutOfRange.enabled": "true"}


def test_stream_is_unchanged_if_no_file_was_read():
    stream = object()
    none = SourcePosition(0, "files", '{"logOffset":0}', 0)
    some = SourcePosition(0, "files", '{"logOffset":0}', 3)
    assert Sources((none, CLICKS), "/saved", "cp").unread(stream) is stream
    assert Sources((some, CLICKS), "/saved", "cp", own=True).unread(stream) is stream
    assert Sources((some, CLICKS, none), "/saved", "cp")._file_sources == [some]


# -- history for bootstrap ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("until", "micros"),
    [
        ("1970-01-01T00:00:00.000001", 1),
        (" 1970-01-01T00:00:01z ", 1_000_000),
        ("1969-12-31T23:59:59Z", -1_000_000),
        ("1970-01-01T00:00:00-02:30", 9_000_000_000),
    ],
)
def test_until_of_bootstrap_is_parsed_as_a_time(until, micros):
    assert instant_of(until) == micros


@pytest.mark.parametrize("until", [None, 3, "now", "", "1970-01-01TZ"])
def test_until_of_bootstrap_that_is_not_a_time_is_refused(until):
    with pytest.raises(InvalidPlanError) as caught:
        instant_of(until)
    assert str(caught.value).startswith(f"bootstrap: until must be a time, got {until!r}; write until='2026-11-01T00:00:00Z', or")


def test_position_of_bootstrap_becomes_source_positions():
    one, other = {"clicks": {"0": 23}}, {"views": {"0": 7}}
    assert [(each["number"], each["offset"]) for each in sources_of((one, other), streams=2)] == [
        (0, '{"clicks": {"0": 23}}'),
        (1, '{"views": {"0": 7}}'),
    ]
    assert sources_of((None, None), streams=2) == []
    for position in (one, (one,), (one, other, None)):
        with pytest.raises(InvalidPlanError, match="this query has two streams: give the position of each"):
            sources_of(position, streams=2)
    for wrong in ({}, 3, "x", {"clicks": 3}, {"clicks": {"x": 1}}, (one,), {"logOffset": 3}):
        with pytest.raises(InvalidPlanError, match=r"position must be the first offset of each partition .*got "):
            sources_of(wrong)
    with pytest.raises(InvalidPlanError, match=r"got 3$"):
        sources_of((None, 3), streams=2)


def test_history_that_is_not_a_data_frame_is_refused():
    with pytest.raises(InvalidPlanError, match="bootstrap needs history as a DataFrame, got list"):
        rows_like([], None)
