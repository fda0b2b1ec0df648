"""Kafka and Delta sources and sinks through Spark Connect, also for a repeated micro-batch."""

from __future__ import annotations

import json
from pathlib import Path

import pyspark
import pytest

import panestream as pst
from tests.processes import ANY_PORT, ran

pytestmark = [pytest.mark.connectors, pytest.mark.kafka, pytest.mark.delta]

SCRIPT = Path(__file__).with_name("through_connect.py")


def deduplicated_values(records):
    once = pst.sinks.KafkaDeduplicator()
    return [one.json for one in records if once.takes(one.topic, one.partition, one.headers)]


def test_kafka_and_delta_sinks_through_connect_survive_a_repeated_micro_batch(broker, topics, tmp_path):
    clicks, hours, late = topics.make(1), topics.make(2, "hours"), topics.make(1, "late")
    ran(SCRIPT, tmp_path, broker.servers, clicks, hours, late, **ANY_PORT)
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["session"] == "pyspark.sql.connect.session"
    assert "record at offset 9 of" in found["malformed"]
    # Each window fired once for each round that touched it, with numbers. The last micro-batch is in the topic twice, and a
    # reader takes it once.
    every = topics.read(hours)
    fired = sorted(
        (one["user"], int(one["window_start"][11:13]), one["n"], one["firing_number"]) for one in deduplicated_values(every)
    )
    assert fired == [("ann", 0, 1, 0), ("ann", 0, 2, 1), ("ann", 1, 2, 0), ("ann", 1, 3, 1), ("bob", 0, 1, 0), ("cid", 3, 1, 0)]
    assert len(every) > len(fired)
    assert [one["at"] for one in deduplicated_values(topics.read(late))] == [40]
    assert len(topics.read(late)) == 2
    # Spark 4.1.1 has the bug SPARK-55271. It fails after the repeated micro-batch, and the next start continues.
    assert found.get("failed_once") == ["topics", "tables"] or pyspark.__version__ != "4.1.1"
    # The appended table skips the micro-batch by its number. A MERGE has no number, so it merges again, which changes nothing.
    assert found["guarantees"] == {"main": "exactly once", "late": "exactly once"}
    assert found["appended"]["rows"] == [["ann", 40]]
    assert found["appended"]["transactions"] == [0, 1, 2]
    assert found["merged"]["rows"] == [["ann", 0, 2], ["ann", 3600, 3], ["bob", 0, 1], ["cid", 10800, 1]]
    assert found["merged"]["transactions"] == []
    assert found["merged"]["operations"].count("MERGE") == 4
