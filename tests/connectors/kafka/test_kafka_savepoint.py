"""A query that starts from a savepoint reads topics on from the old query's offsets, and readers see it as the same writer."""

from __future__ import annotations

import json

import pytest

import panestream as pst
from panestream.errors import CheckpointError
from tests.connectors.kafka.test_kafka_source import HOUR, SCHEMA, count_by_hour, events, run

pytestmark = [pytest.mark.connectors, pytest.mark.kafka]

FIRST = [(0, "ann", 10), (1, "bob", 20), (0, "ann", HOUR + 10), (1, "bob", HOUR + 5)]
THEN = [(0, "ann", HOUR + 20), (1, "bob", HOUR + 30), (0, "ann", 2 * HOUR + 1), (1, "bob", 2 * HOUR + 2)]


@pytest.mark.filterwarnings("ignore::panestream.errors.PanestreamWarning")
def test_query_from_savepoint_continues_at_the_old_kafka_offsets(spark, topics, broker, tmp_path):
    source, target = topics.make(2), topics.make(1, "hours")
    sinks = {"main": pst.KafkaSink(broker.servers, target, ["user"])}

    def clicks(starting="earliest"):
        return pst.from_kafka(spark, broker.servers, source, schema=SCHEMA, starting=starting, malformed="side_output")

    topics.write(source, events(FIRST))
    run(count_by_hour(clicks()), tmp_path / "old", **sinks)
    saved = pst.savepoint(spark, str(tmp_path / "old"), str(tmp_path / "saved"))
    assert saved.source_options() == {"startingOffsets": json.dumps({source: {"0": 2, "1": 2}}, separators=(",", ":"))}
    before = topics.read(target)
    topics.write(source, events(THEN))
    for starting, why in (("earliest", "come twice"), (json.dumps({source: {"0": 2, "1": 3}}), "be lost")):
        with pytest.raises(CheckpointError, match=rf"offset 2, and the stream begins at offset \d: records between would {why}"):
            run(count_by_hour(clicks(starting)), tmp_path / why, savepoint=saved.path, **sinks)
    assert topics.read(target) == before
    run(count_by_hour(clicks(saved.source_options()["startingOffsets"])), tmp_path / "new", savepoint=saved.path, **sinks)
    # The old query emits hour 0. The new query emits hour 1, which includes a row of each user from before.
    written = topics.read(target)
    assert sorted((record.json["user"], record.json["first"], record.json["n"]) for record in written) == [
        ("ann", 10, 1),
        ("ann", HOUR + 10, 2),
        ("bob", 20, 1),
        ("bob", HOUR + 5, 2),
    ]
    headers = [dict(record.headers) for record in written]
    assert len({header["panestream-writer"] for header in headers}) == 1
    assert [int(header["panestream-batch"]) for header in headers] == sorted(
        int(header["panestream-batch"]) for header in headers
    )
    assert len({header["panestream-batch"] for header in headers}) == 2
    once = pst.sinks.KafkaDeduplicator()
    assert all(once.takes(target, 0, record.headers) for record in written)


@pytest.mark.filterwarnings("ignore::panestream.errors.PanestreamWarning")
def test_history_from_a_table_joins_the_stream_from_its_end_offsets(spark, topics, broker, tmp_path):
    """Hour 1 has rows of both. A stream that starts at other offsets is refused, and the output then has only history."""
    source, target = topics.make(2), topics.make(1, "hours")
    sinks = {"main": pst.KafkaSink(broker.servers, target, ["user"])}

    def clicks(starting="earliest", **how):
        return pst.from_kafka(spark, broker.servers, source, schema=SCHEMA, starting=starting, malformed="side_output", **how)

    topics.write(source, events(FIRST))
    clicks(batch=True).df.write.parquet(f"{tmp_path}/archive")
    topics.write(source, events(THEN))
    archive = spark.read.parquet(f"{tmp_path}/archive")
    saved = count_by_hour(clicks()).bootstrap(
        archive, f"{tmp_path}/saved", position={source: {"0": 2, "1": 2}}, **sinks, invalid=pst.MemorySink()
    )
    assert saved.source_options() == {"startingOffsets": json.dumps({source: {"0": 2, "1": 2}}, separators=(",", ":"))}
    for starting, why in (("earliest", "come twice"), (json.dumps({source: {"0": 3, "1": 2}}), "be lost")):
        with pytest.raises(CheckpointError, match=rf"offset 2, and the stream begins at offset \d: records between would {why}"):
            run(count_by_hour(clicks(starting)), tmp_path / why, savepoint=saved.path, **sinks)
    assert sorted(record.json["user"] for record in topics.read(target)) == ["ann", "bob"]
    run(count_by_hour(clicks(saved.source_options()["startingOffsets"])), tmp_path / "new", savepoint=saved.path, **sinks)
    assert sorted((record.json["user"], record.json["first"], record.json["n"]) for record in topics.read(target)) == [
        ("ann", 10, 1),
        ("ann", HOUR + 10, 2),
        ("bob", 20, 1),
        ("bob", HOUR + 5, 2),
    ]
