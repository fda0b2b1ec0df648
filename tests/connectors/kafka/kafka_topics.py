"""An independent Kafka client that creates topics, and writes and reads records."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic


@dataclass
class Record:
    """A record as a reader gets it."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]]

    @property
    def json(self) -> Any:
        return None if self.value is None else json.loads(self.value)


@dataclass
class Topics:
    """The topics of one broker."""

    servers: str
    admin: AdminClient = field(init=False)

    def __post_init__(self) -> None:
        self.admin = AdminClient({"bootstrap.servers": self.servers})

    def make(self, partitions: int = 1, name: str = "clicks", **settings: str) -> str:
        """Create a new topic with a unique name."""
        topic = f"{name}-{uuid.uuid4().hex[:8]}"
        self.make_named(topic, partitions, **settings)
        return topic

    def make_named(self, topic: str, partitions: int, **settings: str) -> None:
        for made in self.admin.create_topics([NewTopic(topic, partitions, 1, config=settings)]).values():
            made.result(timeout=60)

    def grow(self, topic: str, partitions: int) -> None:
        for made in self.admin.create_partitions([NewPartitions(topic, partitions)]).values():
            made.result(timeout=60)

    def write(self, topic: str, records: Iterable[dict[str, Any]]) -> None:
        """Write records.

        Each has ``value`` (bytes, or an object to encode as JSON) and optional ``key``, ``partition``, ``timestamp``, ``headers``.
        """
        producer = Producer({"bootstrap.servers": self.servers, "enable.idempotence": True, "linger.ms": 5})
        failed: list[str] = []
        for record in records:
            given = dict(record)
            if not isinstance(given.get("value"), (bytes, type(None))):
                given["value"] = json.dumps(given["value"]).encode()
            while True:
                try:
                    producer.produce(topic, on_delivery=lambda error, _: failed.append(str(error)) if error else None, **given)
                    break
                except BufferError:
                    producer.poll(0.1)
        assert producer.flush(60) == 0
        assert not failed, failed[:3]

    def read(self, topic: str) -> list[Record]:
        """Return all records of a topic, partition by partition."""
        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": uuid.uuid4().hex, "enable.auto.commit": False})
        try:
            partitions = consumer.list_topics(topic, timeout=60).topics[topic].partitions
            found: list[Record] = []
            for partition in sorted(partitions):
                low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=60)
                consumer.assign([TopicPartition(topic, partition, low)])
                while low < high:
                    message = consumer.poll(60)
                    assert message is not None
                    assert message.error() is None, message.error()
                    found.append(
                        Record(topic, partition, message.offset(), message.key(), message.value(), message.headers() or [])
                    )
                    low = message.offset() + 1
            return found
        finally:
            consumer.close()
