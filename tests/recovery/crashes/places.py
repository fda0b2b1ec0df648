"""The places where the struck queries write: each kind of sink, and how its page says to read it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import panestream as pst
from panestream.spark.sinks.base import Sink
from tests.recovery.crashes.queries import QUERIES, SCHEMA, Query, Row, collected

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SERVING = ("postgres", "redis")
SINKS = ("files", "delta", "iceberg", "kafka", *SERVING)
SECRET = "SERVING_PASSWORD"
"""The environment variable with the password of the serving stores."""


def suits(operator: str, sink: str) -> bool:
    """Return whether a sink can store the rows of an operator's query."""
    return sink not in SERVING or QUERIES[operator].by_key


@dataclass(frozen=True)
class Place:
    """The place where one query writes.

    Attributes:
        kind: One of :data:`SINKS`.
        name: A name that no other run uses, for topics and a catalog.
        folder: The folder of file sinks.
        servers: The address of Kafka, PostgreSQL or Redis.
    """

    kind: str
    name: str
    folder: Path
    servers: str = ""

    def merges(self, query: Query) -> bool:
        """Return whether the sink merges the rows of a key and window, and then holds the final results."""
        return self.kind in SERVING or (query.changes and self.kind in ("delta", "iceberg"))

    def sinks(self, spark: SparkSession, query: Query) -> dict[str, Sink]:
        """Return the sink of each output. Late rows are appended."""
        return {output: self._sink(spark, query, output) for output in query.outputs}

    def _sink(self, spark: SparkSession, query: Query, output: str) -> Sink:
        where = self._where(spark, output)
        if self.in_files(output):
            return pst.ParquetSink(where)
        if self.kind == "postgres":
            return pst.sinks.PostgresSink(self.servers, where, keys=["user"], password_variable=SECRET)
        if self.kind == "redis":
            return pst.sinks.RedisSink(self.servers, where, keys=["user"], password_variable=SECRET)
        if self.kind == "kafka":
            return pst.KafkaSink(self.servers, where, ["user"])
        return pst.MergeSink(where, ["user"]) if output == "main" and self.merges(query) else pst.TableSink(where)

    def in_files(self, output: str) -> bool:
        """Return whether an output is written as files. Late rows have no key that a serving store could keep."""
        return self.kind == "files" or (self.kind in SERVING and output != "main")

    def _where(self, spark: SparkSession, output: str) -> str:
        if self.in_files(output):
            return str(self.folder / output)
        if self.kind in SERVING:
            return self.name
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
        if self.in_files(output):
            return collected(spark.read.parquet(where).drop("batch_id"))
        return [_from_json(row) for row in stored(self)] if self.kind in SERVING else collected(spark.table(where))

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


def stored(place: Place) -> list[Row]:
    """Return all rows of a place in a serving store, with times as ISO 8601. No part of panestream reads them."""
    if place.kind == "postgres":
        import psycopg

        with psycopg.connect(place.servers, password=os.environ[SECRET], options="-c timezone=UTC") as connection:
            return [row for (row,) in connection.execute(f"SELECT to_jsonb(rows) FROM {place.name} AS rows")]
    import redis

    with redis.Redis.from_url(place.servers, password=os.environ[SECRET], decode_responses=True) as client:
        keys = [key for key in client.scan_iter(f"{place.name}:*") if not key.endswith("#fence")]
        return [json.loads(value) for value in client.mget(keys)]


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
