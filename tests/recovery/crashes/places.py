"""The places where the struck queries write: each kind of sink, and how its page says to read it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import panestream as pst
from panestream.spark.sinks.base import Sink
from tests.recovery.crashes.queries import SCHEMA, Query, Row, collected

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SINKS = ("files", "delta", "iceberg", "kafka")


@dataclass(frozen=True)
class Place:
    """The place where one query writes.

    Attributes:
        kind: One of :data:`SINKS`.
        name: A name that no other run uses, for topics and a catalog.
        folder: The folder of file sinks.
        servers: The Kafka servers.
    """

    kind: str
    name: str
    folder: Path
    servers: str = ""

    def merges(self, query: Query) -> bool:
        """Return whether changes are merged into a table, which then holds the final results."""
        return query.changes and self.kind in ("delta", "iceberg")

    def sinks(self, spark: SparkSession, query: Query) -> dict[str, Sink]:
        """Return the sink of each output. Late rows are appended."""
        return {output: self._sink(spark, query, output) for output in query.outputs}

    def _sink(self, spark: SparkSession, query: Query, output: str) -> Sink:
        where = self._where(spark, output)
        if self.kind == "files":
            return pst.ParquetSink(where)
        if self.kind == "kafka":
            return pst.KafkaSink(self.servers, where, ["user"])
        return pst.MergeSink(where, ["user"]) if output == "main" and self.merges(query) else pst.TableSink(where)

    def _where(self, spark: SparkSession, output: str) -> str:
        if self.kind == "files":
            return str(self.folder / output)
        if self.kind == "delta":
            return f"delta.`{self.folder / output}`"
        if self.kind == "kafka":
            return self.topic(output)
        catalog = f"spark.sql.catalog.{self.name}"
        spark.conf.set(catalog, "org.apache.iceberg.spark.SparkCatalog")
        spark.conf.set(f"{catalog}.type", "hadoop")
        spark.conf.set(f"{catalog}.warehouse", str(self.folder))
        spark.conf.set(f"{catalog}.cache-enabled", "false")
        return f"{self.name}.db.{output}"

    def topic(self, output: str) -> str:
        return f"{self.name}-{output}"

    def read(self, spark: SparkSession, query: Query) -> dict[str, list[Row]]:
        """Return all rows of each output."""
        return {output: self._read(spark, output) for output in query.outputs}

    def _read(self, spark: SparkSession, output: str) -> list[Row]:
        where = self._where(spark, output)
        if self.kind == "kafka":
            return self._once(where)
        df = spark.read.parquet(where).drop("batch_id") if self.kind == "files" else spark.table(where)
        return collected(df)

    def _once(self, topic: str) -> list[Row]:
        """Return the records that a reader takes who follows the rule of the newest micro-batch."""
        from tests.connectors.kafka.kafka_topics import Topics

        rule = pst.sinks.KafkaDeduplicator()
        records = Topics(self.servers).read(topic)
        return [_from_json(one.json) for one in records if rule.takes(one.topic, one.partition, one.headers)]

    def source(self, spark: SparkSession, clicks: Path, rows: int) -> DataFrame:
        """Read the clicks as a stream from a topic or from files, with the same rows in each micro-batch."""
        if self.kind != "kafka":
            return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(clicks))
        options = {"kafka.bootstrap.servers": self.servers, "subscribe": self.topic("clicks"), "startingOffsets": "earliest"}
        records = spark.readStream.format("kafka").options(**options).option("maxOffsetsPerTrigger", rows).load()
        return records.selectExpr(f"from_json(string(value), '{SCHEMA}') AS row").select("row.*")


def _from_json(value: Mapping[str, Any]) -> Row:
    """Parse a record's value, with times as microseconds."""
    return {
        name: _micros(one) if name in ("ts", "at", "window_start", "window_end") and isinstance(one, str) else one
        for name, one in value.items()
    }


def _micros(text: str) -> int:
    time = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return round(time.timestamp() * 1_000_000)


def make_topics(servers: str, place: Place, query: Query, rows: list[list[tuple[Any, ...]]]) -> None:
    """Create the topics of a query: its clicks in one partition, which keeps their order, and its outputs."""
    from tests.connectors.kafka.kafka_topics import Topics

    topics = Topics(servers)
    topics.make_named(place.topic("clicks"), 1)
    for output in query.outputs:
        topics.make_named(place.topic(output), 2)
    names = ("user", "n", "price")
    records = (
        {"value": json.dumps({**dict(zip(names, row[:3], strict=True)), "ts": row[3].isoformat()}).encode()}
        for of_file in rows
        for row in of_file
    )
    topics.write(place.topic("clicks"), records)
