"""How far a source was read, as a savepoint says it: parsed from what Spark and the sources write."""

import json

import pytest

from panestream.errors import CheckpointError
from panestream.spark.savepoint import positions
from panestream.spark.savepoint.positions import SourcePosition, as_saved, kind_of, of_saved


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
    '{"snapshot_id":4,"position":2}': "other",
    "[]": "other",
    " - ": "nothing",
    "": "other",
    "not JSON": "other",
}


@pytest.mark.parametrize(("offset", "kind"), OFFSETS.items())
def test_the_source_is_told_by_its_offset(offset, kind):
    assert kind_of(offset) == kind


def test_options():
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
        (delta(index=-20), "midst"),  # a change of the schema is at hand
        ('{"version":1,"snapshot_id":4,"position":2,"scan_all_files":false}', "Iceberg table.*stream-from-timestamp"),
        ("17", r"source 2 was read up to 17.*own_position=True"),
    ],
)
def test_where_a_source_cannot_begin(offset, why):
    with pytest.raises(CheckpointError, match=why):
        SourcePosition(2, kind_of(offset), offset).options()


def test_saved():
    positions = [SourcePosition(0, "files", '{"logOffset":7}', 8), SourcePosition(1, "nothing", "-")]
    assert of_saved(json.loads(json.dumps(as_saved(positions)))) == positions


@pytest.mark.parametrize(
    ("value", "are"),
    [({"0": 5, "1": 6}, True), ({"0": 5, "one": 6}, False), ({"0": 5, "1": "6"}, False), ({}, False), (5, False)],
)
def test_partitions_all_have_a_number_and_an_offset(value, are):
    assert positions._is_partitions(value) is are
