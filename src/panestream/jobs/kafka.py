"""``[source.kafka]`` of a job file: which topics, and how their records are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from panestream.errors import InvalidPlanError
from panestream.jobs.schema import Place, array, boolean, choice, ddl, duration, integer, reads, text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    import panestream as pst

FORMATS = ("json", "string", "binary", "none")


def check_names(place: Place, servers: str, key: str, topics: Sequence[str]) -> None:
    """Notes what can be no servers or no topics, where the job says so: the library would find it when Spark runs.

    Args:
        place: of the section.
        servers: its ``servers``.
        key: what it calls the topics.
        topics: their names.
    """
    from panestream.spark.kafka.source import check_servers, check_topic

    asked: list[tuple[str, Callable[[object], None], str]] = [("servers", check_servers, servers)]
    for name, check, value in [*asked, *((key, check_topic, topic) for topic in topics)]:
        try:
            check(value)
        except InvalidPlanError as error:
            place.at(name).note(str(error))


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSource:
    """``[source.kafka]``: for ``format = "kafka"``.

    Attributes:
        servers: ``host:port``, several with commas.
        topics: their names; a single string with ``*`` is a pattern, e.g. ``clicks-.*``.
        value_format: "json", whose fields ``source.schema`` names; "string" or "binary", in the column ``kafka_value``; "none".
        key_format: the same of the key, in the column ``kafka_key``.
        key_schema: the fields of a key in JSON, as Spark DDL.
        starting: where a job without a checkpoint begins: "earliest", "latest", or offsets in Spark's JSON.
        records_per_batch: how many records a micro-batch takes at most.
        headers: whether to read headers, into ``kafka_headers``.
        idle_after: after how long without records a partition stops holding the others back, where [watermark] does not say.
        partitions: how many partitions each topic has: those without records hold the watermark back from the start, until idle.
    """

    servers: str = field(metadata=reads(text))
    topics: tuple[str, ...] = field(metadata=reads(array(text)))
    value_format: str = field(default="json", metadata=reads(choice(*FORMATS)))
    key_format: str = field(default="string", metadata=reads(choice(*FORMATS)))
    key_schema: str | None = field(default=None, metadata=reads(ddl))
    starting: str = field(default="earliest", metadata=reads(text))
    records_per_batch: int | None = field(default=None, metadata=reads(integer(1)))
    headers: bool = field(default=False, metadata=reads(boolean))
    idle_after: str = field(default="5 minutes", metadata=reads(duration(zero=False)))
    partitions: int | None = field(default=None, metadata=reads(integer(1)))

    @property
    def pattern(self) -> bool:
        """Whether the topics are all that match a pattern."""
        return len(self.topics) == 1 and "*" in self.topics[0]

    def check(self, place: Place) -> None:
        """Servers and topics are some; keys in JSON have a schema, others none."""
        check_names(place, self.servers, "topics", () if self.pattern else self.topics)
        if self.key_format == "json" and self.key_schema is None:
            place.note("'key_schema' is missing: a key in JSON does not say the types of its fields")
        if self.key_format != "json" and self.key_schema is not None:
            place.at("key_schema").note(f"is for key_format 'json', not for {self.key_format!r}")
        if self.partitions is not None and self.pattern:
            place.at("partitions").note("is of topics that are named: a pattern names none")

    def stream(
        self, spark: SparkSession, schema: str | None, options: Mapping[str, str], *, invalid: bool, batch: bool
    ) -> pst.datastream.KafkaStream:
        """What the library makes of it.

        Args:
            spark: the session.
            schema: of values in JSON.
            options: of Spark's source.
            invalid: whether there is an output for rows that cannot be read.
            batch: whether it is a batch.
        """
        import panestream as pst

        names: Any = self.topics[0] if self.pattern else self.topics
        return pst.from_kafka(
            spark,
            self.servers,
            names,
            schema=schema,
            value_format=self.value_format,
            key_format=self.key_format,
            key_schema=self.key_schema,
            malformed="side_output" if invalid else "fail",
            starting=self.starting,
            records_per_batch=self.records_per_batch,
            headers=self.headers,
            idle_after=self.idle_after,
            partitions=self.partitions,
            batch=batch,
            options=options,
        )
