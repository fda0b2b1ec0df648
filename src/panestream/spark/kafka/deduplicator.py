"""Deduplication for readers of a ``KafkaSink``'s topic, without Spark and without a Kafka client."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field

from panestream.errors import StateFormatError

ID = "panestream-id"
"""The record's unique id, which stays the same if it is written again. 32 hexadecimal digits."""
WRITER = "panestream-writer"
"""Query and output: ``QUERY/OUTPUT``."""
BATCH = "panestream-batch"
"""The number of the micro-batch."""


@dataclass
class KafkaDeduplicator:
    """Selects the records of a :class:`KafkaSink` that a reader of its topic should take, so that it sees each once.

    The rule applies per partition and writer (a query's output). Take a record of a later micro-batch than all before. In the
    same micro-batch, take it if its id is new. Skip a record of an earlier micro-batch. This is correct because a query writes
    its micro-batches in order, and a rewritten record has the same partition and id. The memory holds only the ids of one
    micro-batch per writer. (Each run of a batch query is another writer.)

    A reader that may restart must store :meth:`to_json` with its position, in one transaction with its results: the position
    alone does not show which of the following records it has seen. A reader that writes to a store with a unique key can use the
    record's id as key instead.

    If a query resumes from a checkpoint that is older than the topic (a restored copy), its repeated micro-batches are skipped,
    even if they now have other rows. Delta does the same.

    >>> once = KafkaDeduplicator()
    >>> def record(batch, id):
    ...     return [("panestream-writer", b"q/main"), ("panestream-batch", batch), ("panestream-id", id)]
    >>> [once.takes("hot", 0, record(b"7", one)) for one in (b"a", b"b", b"a", b"b", b"c")]
    [True, True, False, False, True]
    >>> once.takes("hot", 0, record(b"8", b"d")), once.takes("hot", 0, record(b"7", b"e"))
    (True, False)
    """

    _seen: dict[tuple[str, int, str], tuple[int, set[str]]] = field(default_factory=dict)

    def takes(self, topic: str, partition: int, headers: Iterable[tuple[str, bytes | str | None]] | None) -> bool:
        """Return whether to take a record. Call this once for each record, in the order of the partition.

        Args:
            topic: the record's topic.
            partition: the record's partition.
            headers: the record's headers from a Kafka client, e.g. ``message.headers()`` of confluent-kafka. A record without the
                headers of a ``KafkaSink`` is always taken.
        """
        # Other headers may not even be text.
        own = {name: value for name, value in headers or () if name in (WRITER, BATCH, ID)}
        writer, number, id_ = (_text(own.get(name)) for name in (WRITER, BATCH, ID))
        if writer is None or number is None or id_ is None:
            return True
        place, batch = (topic, partition, writer), int(number)
        newest, ids = self._seen.get(place, (-2, set()))
        if batch < newest or (batch == newest and id_ in ids):
            return False
        if batch > newest:
            ids = set()
            self._seen[place] = batch, ids
        ids.add(id_)
        return True

    def to_json(self) -> str:
        """Return the memory, to be stored with the reader's position."""
        return json.dumps([[*place, batch, sorted(ids)] for place, (batch, ids) in sorted(self._seen.items())])

    @classmethod
    def from_json(cls, text: str) -> KafkaDeduplicator:
        """Restore the result of :meth:`to_json`. Raise StateFormatError for any other text."""
        try:
            return cls(
                {(topic, int(part), writer): (int(batch), set(ids)) for topic, part, writer, batch, ids in json.loads(text)}
            )
        except (ValueError, TypeError) as error:
            raise StateFormatError(f"this text is not from KafkaDeduplicator.to_json: {text[:80]!r}") from error


def _text(value: bytes | str | None) -> str | None:
    return value.decode() if isinstance(value, bytes) else value
