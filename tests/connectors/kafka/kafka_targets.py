"""Kafka targets of the kills, and how to read them by the rules of docs/how-to/kafka.md."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

import panestream as pst
from tests.connectors.kafka.kafka_topics import Record, Topics
from tests.connectors.kills import Target

SERVERS = "PANESTREAM_TEST_KAFKA"
"""The environment variable with the broker's address, for the job that is killed."""


COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "1000"}
"""The broker then removes superseded records while the job runs."""


def topic_of(folder: Path, name: str, settings: Mapping[str, str] | None = None) -> str:
    """Return the topic of a job's folder. Create it if it does not exist."""
    topic = f"{name}-{hashlib.sha256(str(folder).encode()).hexdigest()[:8]}"
    topics = Topics(os.environ[SERVERS])
    if topic not in topics.admin.list_topics(timeout=60).topics:
        topics.make_named(topic, 3, **(settings or {}))
    return topic


def records(folder: Path, name: str) -> list[Record]:
    return Topics(os.environ[SERVERS]).read(topic_of(folder, name))


def once(folder: Path, name: str) -> list[tuple[str]]:
    """Return the records that a reader takes who follows the rule of the newest micro-batch."""
    rule = pst.sinks.KafkaDeduplicator()
    return [
        (one.value.decode(),) for one in records(folder, name) if rule.takes(one.topic, one.partition, one.headers)
    ]  # fmt: skip


def as_table(folder: Path, name: str) -> list[tuple[str]]:
    """Return the last record of each key, without deleted keys."""
    last = {one.key: one.value for one in records(folder, name)}
    return [(value.decode(),) for value in last.values() if value is not None]


def sink(folder: Path, name: str, *keys: str, compacted: bool = False) -> pst.KafkaSink:
    topic = topic_of(folder, name, COMPACTED if compacted else None)
    return pst.KafkaSink(os.environ[SERVERS], topic, keys, compacted=compacted)


LOG = Target(
    lambda spark, folder: {"main": sink(folder, "log", "user"), "late": sink(folder, "late")},
    lambda spark, folder: [*once(folder, "log"), *once(folder, "late")],
)
TABLE = Target(
    lambda spark, folder: {"main": sink(folder, "table", "user", compacted=True)},
    lambda spark, folder: as_table(folder, "table"),
    changes=True,
    sessions=True,
)
