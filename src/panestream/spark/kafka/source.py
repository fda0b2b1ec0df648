"""Spark's Kafka source for some topics."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from panestream.errors import InvalidPlanError, did_you_mean
from panestream.spark.compat import silence_analysis_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PACKAGE = "org.apache.spark:spark-sql-kafka-0-10_2.13"
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_SERVERS = re.compile(r"[^\s,]+:\d+(\s*,\s*[^\s,]+:\d+)*")


@dataclass(frozen=True)
class Topics:
    """The topics, and how to read them.

    Attributes:
        servers: ``host:port``, several separated by commas.
        topics: names, or a pattern.
        starting: the start position of a query without a checkpoint.
        records_per_batch: the maximum number of records in a micro-batch.
        headers: whether to read headers.
        options: options of Spark's source.
    """

    servers: str
    topics: str | Sequence[str]
    starting: str = "earliest"
    records_per_batch: int | None = None
    headers: bool = False
    options: Mapping[str, str] = field(default_factory=dict, repr=False)  # may contain passwords

    def __post_init__(self) -> None:
        check_servers(self.servers)
        names = [self.topics] if isinstance(self.topics, str) else list(self.topics)
        if not names or not all(isinstance(name, str) and name for name in names):
            raise InvalidPlanError(f"topics must be names of topics, got {self.topics!r}")
        for name in names if not self.pattern else ():
            check_topic(name)
        if self.records_per_batch is not None and (not isinstance(self.records_per_batch, int) or self.records_per_batch < 1):
            raise InvalidPlanError(f"records_per_batch must be a positive number, got {self.records_per_batch!r}")
        if self.starting not in ("earliest", "latest") and not str(self.starting).lstrip().startswith("{"):
            raise InvalidPlanError(f"starting is 'earliest', 'latest' or offsets in Spark's JSON, got {self.starting!r}")
        own = {
            "subscribe",
            "subscribepattern",
            "kafka.bootstrap.servers",
            "startingoffsets",
            "maxoffsetspertrigger",
            "includeheaders",
        }
        for name in self.options:
            if name.lower() in own:
                raise InvalidPlanError(f"the option {name!r} has an argument of its own in from_kafka: give that instead")

    @property
    def pattern(self) -> bool:
        """True if the topics are given by a pattern."""
        return isinstance(self.topics, str) and "*" in self.topics

    def expected(self, partitions: int | Mapping[str, int] | None) -> tuple[str, ...]:
        """Return the partitions, as ``TOPIC-NUMBER``, that exist from the start. ``partitions`` has a number per topic.

        Raises:
            InvalidPlanError: a number is invalid, or without a topic for a pattern, or its topic is not read.
        """
        if partitions is None:
            return ()
        names = [self.topics] if isinstance(self.topics, str) else list(self.topics)
        if not isinstance(partitions, Mapping):
            if self.pattern:
                raise InvalidPlanError(
                    f"partitions={partitions!r} is of each topic, and a pattern names none: give them by topic, {{'clicks': 4}}"
                )
            partitions = dict.fromkeys(names, partitions)
        for topic, number in partitions.items():
            if isinstance(number, bool) or not isinstance(number, int) or number < 1:
                raise InvalidPlanError(f"partitions is how many a topic has, a positive number; got {number!r} of {topic!r}")
            if not self.pattern and topic not in names:
                raise InvalidPlanError(f"partitions names the topic {topic!r}, which is not read; {did_you_mean(topic, names)}")
        return tuple(f"{topic}-{place}" for topic, number in partitions.items() for place in range(number))

    def frame(self, spark: SparkSession, *, batch: bool = False) -> DataFrame:
        """Return Spark's own columns: key, value, topic, partition, offset, timestamp, timestampType."""
        given = {"kafka.bootstrap.servers": self.servers, "startingOffsets": self.starting, **self.options}
        given["subscribePattern" if self.pattern else "subscribe"] = (
            self.topics if isinstance(self.topics, str) else ",".join(self.topics)
        )
        if self.records_per_batch is not None and not batch:
            given["maxOffsetsPerTrigger"] = str(self.records_per_batch)
        if self.headers:
            given["includeHeaders"] = "true"
        reader: Any = spark.read if batch else spark.readStream
        return asked(lambda: reader.format("kafka").options(**given).load())


def asked(ask: Any) -> DataFrame:
    """Return the result of ``ask`` after analysis. Raise InvalidPlanError if Spark lacks Kafka or refuses the options."""
    try:
        with silence_analysis_errors():
            df: DataFrame = ask()
            _ = df.columns
            return df
    except Exception as error:
        said = str(error)
        if "Failed to find data source: kafka" in said or "DATA_SOURCE_NOT_FOUND" in said or "deployment section" in said:
            raise InvalidPlanError(no_kafka()) from error
        if "IllegalArgumentException" in type(error).__name__ or "AnalysisException" in type(error).__name__:
            raise InvalidPlanError(f"Spark's Kafka source refuses: {said.strip().splitlines()[0]}") from error
        raise


def no_kafka() -> str:
    """Return advice for a Spark without Kafka."""
    import pyspark

    return (
        f"this Spark has no Kafka: start the session with .config('spark.jars.packages', '{PACKAGE}:{pyspark.__version__}'), or "
        "give that package to spark-submit --packages (docs/how-to/kafka.md says for which versions of Spark it was released)"
    )


def check_servers(servers: object) -> None:
    """Raise InvalidPlanError if it is not a list of servers."""
    if not isinstance(servers, str) or _SERVERS.fullmatch(servers.strip()) is None:
        raise InvalidPlanError(f"servers must be 'host:port', several with commas, got {servers!r}")


def check_topic(name: object) -> None:
    """Raise InvalidPlanError if it cannot be the name of a topic."""
    if not isinstance(name, str) or _TOPIC.fullmatch(name) is None:
        raise InvalidPlanError(f"a topic has a name of letters, digits, '.', '_' and '-', got {name!r}")
