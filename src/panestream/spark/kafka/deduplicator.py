"""What a reader of a topic does to see each record of a ``KafkaSink`` once. Without Spark, and without a client of Kafka."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field

from panestream.errors import StateFormatError
from panestream.spark.kafka.headers import BATCH, ID, WRITER


@dataclass
class KafkaDeduplicator:
    """Tells a reader of a topic which records of a :class:`KafkaSink` to take, so that it sees each once.

    The rule, for each partition and each writer (a query's output): of a micro-batch later than all before, take the record; of
    the same micro-batch, if its id was not there before; of an earlier one, pass it over. It holds since a query writes its
    micro-batches one after the other, and a record that is written again goes to the same partition with the same id. So it needs
    no more memory than the ids of one micro-batch of each writer. (A batch query is another writer each time that it runs.)

    A reader that may be started again keeps :meth:`to_json` together with its position, in one transaction with what it made of
    the records: a position alone does not say which of the records to come it has had. A reader that writes into something with a
    unique key needs none of this: the record's id is that key.

    Should a query go on from a checkpoint that is older than the topic (restored from a copy), the micro-batches that are there
    are passed over when they come again, even where they bring other rows now; as Delta does.

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
        """Whether the record is to be taken; to be asked once for each record, in the order of the partition.

        Args:
            topic: of the record.
            partition: of the record.
            headers: of the record, as clients of Kafka give them; of confluent-kafka ``message.headers()``. A record without ours
                is none of a ``KafkaSink``, and is taken.
        """
        # Of others' headers nothing is known, not even that they are text.
        ours = {name: value for name, value in headers or () if name in (WRITER, BATCH, ID)}
        writer, number, id_ = (_text(ours.get(name)) for name in (WRITER, BATCH, ID))
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
        """What it remembers, to be kept with the reader's position."""
        return json.dumps([[*place, batch, sorted(ids)] for place, (batch, ids) in sorted(self._seen.items())])

    @classmethod
    def from_json(cls, text: str) -> KafkaDeduplicator:
        """What :meth:`to_json` gave.

        Raises:
            StateFormatError: it did not.
        """
        try:
            return cls(
                {(topic, int(part), writer): (int(batch), set(ids)) for topic, part, writer, batch, ids in json.loads(text)}
            )
        except (ValueError, TypeError) as error:
            raise StateFormatError(f"this is nothing that KafkaDeduplicator.to_json gave: {text[:80]!r}") from error


def _text(value: bytes | str | None) -> str | None:
    return value.decode() if isinstance(value, bytes) else value
