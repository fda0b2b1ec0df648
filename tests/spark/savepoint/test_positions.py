"""The positions of sources in a savepoint, parsed from the logs of Spark and the sources."""

import json
import re
from types import SimpleNamespace

import pytest

from panestream.errors import CheckpointError
from panestream.spark.savepoint import source_offsets
from panestream.spark.savepoint.source_offsets import (
    SourcePosition,
    kind_of,
    positions_as_saved,
    positions_of_saved,
    read_positions,
)


def delta(**changed):
    told = {"sourceVersion": 1, "reservoirId": "r", "reservoirVersion": 3, "index": -1, "isStartingVersion": False}
    return json.dumps({**told, **changed})


OFFSETS = {
    '{"logOffset":7}': "files",
    '{"clicks":{"0":23,"1":-2},"views":{"0":0}}': "kafka",
    delta(): "delta",
    '{"version":1,"snapshot_id":4,"position":2,"scan_all_files":false}': "iceberg",
    "-": "nothing",
    "17": "other",
    '{"offset":17}': "other",
    "{}": "other",
    '{"clicks":{"zero":23}}': "other",
    '{"clicks":{"0":23},"views":5}': "other",
    '{"views":5,"clicks":{"0":23}}': "other",
    '{"clicks":{}}': "other",
    '{"logOffset":7,"clicks":{"0":23}}': "other",
    '{"reservoirId":"r","reservoirVersion":3}': "other",
    '{"reservoirId":"r","reservoirVersion":3,"index":-1}': "delta",
    '{"snapshot_id":4,"position":2,"scan_all_files":false}': "iceberg",
    '{"snapshot_id":4,"position":2}': "other",
    "[]": "other",
    " - ": "nothing",
    "": "other",
    "not JSON": "other",
}


@pytest.mark.parametrize(("offset", "kind"), OFFSETS.items())
def test_kind_of_source_is_recognised_by_its_offset(offset, kind):
    assert kind_of(offset) == kind


def test_position_gives_the_options_of_its_source():
    kafka = SourcePosition(0, "kafka", '{"views": {"0": 0}, "clicks": {"1": 4, "0": 23}}')
    assert kafka.options() == {"startingOffsets": '{"clicks":{"0":23,"1":4},"views":{"0":0}}'}
    assert SourcePosition(0, "delta", delta()).options() == {"startingVersion": "3"}
    assert SourcePosition(0, "delta", delta(sourceVersion=3, index=-100)).options() == {"startingVersion": "3"}
    assert SourcePosition(0, "files", '{"logOffset":7}', 8).options() == SourcePosition(1, "nothing", "-").options() == {}


@pytest.mark.parametrize(
    ("offset", "why"),
    [
        (delta(index=0), r"up to the midst of version 3 \(file 0\).*trigger='availableNow'"),
        (delta(index=5, isStartingVersion=True), "up to the midst of the table as it was found"),
        (delta(index=-20), "midst"),  # a change of the schema is pending
        ('{"version":1,"snapshot_id":4,"position":2,"scan_all_files":false}', "Iceberg table.*stream-from-timestamp"),
        ("17", r"source 2 was read up to 17.*source_offsets='job'"),
    ],
)
def test_position_at_which_a_source_cannot_start_is_refused(offset, why):
    with pytest.raises(CheckpointError, match=why):
        SourcePosition(2, kind_of(offset), offset).options()


def test_positions_survive_json():
    positions = [SourcePosition(0, "files", '{"logOffset":7}', 8), SourcePosition(1, "nothing", "-")]
    assert positions_of_saved(json.loads(json.dumps(positions_as_saved(positions)))) == positions


@pytest.mark.parametrize(
    ("value", "are"),
    [({"0": 5, "1": 6}, True), ({"0": 5, "one": 6}, False), ({"0": 5, "1": "6"}, False), ({}, False), (5, False)],
)
def test_kafka_offsets_need_a_number_and_an_offset_for_each_partition(value, are):
    assert source_offsets._is_partitions(value) is are


class Logs:
    """A session that reads the offset logs of one checkpoint, by name."""

    def __init__(self, **logs):
        self.logs = {f"cp/offsets/{name.removeprefix('of_')}": text for name, text in logs.items()}
        self.read = self

    def text(self, path, wholetext=False):
        lines = [self.logs[path]] if wholetext else self.logs[path].splitlines()
        return SimpleNamespace(collect=lambda: [SimpleNamespace(value=line) for line in lines])


@pytest.fixture(autouse=True)
def listed(monkeypatch):
    monkeypatch.setattr(source_offsets, "list_files", lambda spark, path: [path] if path in spark.logs else [])


def test_each_line_after_sparks_header_is_a_source():
    spark = Logs(of_3='v1\n{"batchTimestampMs":1}\n{"logOffset":7}\n-\n{"clicks":{"0":23}}', of_4="v1\n\n17\n", of_5="v1\n{}")
    assert read_positions(spark, "cp", 3) == [
        SourcePosition(0, "files", '{"logOffset":7}'),
        SourcePosition(1, "nothing", "-"),
        SourcePosition(2, "kafka", '{"clicks":{"0":23}}'),
    ]
    assert read_positions(spark, "cp", 4) == [SourcePosition(0, "other", "17")]
    assert read_positions(spark, "cp", 5) == []


@pytest.mark.parametrize(("batch_id", "why"), [(3, "begins with 'v2'"), (4, "is gone"), (5, "is gone")])
def test_missing_or_unknown_offset_log_is_refused(batch_id, why):
    said = f"after micro-batch {batch_id} are unknown: Spark's log, cp/offsets/{batch_id}, {why}; the supported version is v1"
    with pytest.raises(CheckpointError, match=re.escape(said)):
        read_positions(Logs(of_3='v2\n{}\n{"logOffset":7}', of_4=""), "cp", batch_id)


def test_position_of_an_old_manifest_has_zero_files():
    assert positions_of_saved([{"number": 1, "kind": "kafka", "offset": "{}"}]) == [SourcePosition(1, "kafka", "{}", 0, {})]
