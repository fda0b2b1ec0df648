"""A stream of events from Kafka: records as columns, and what is right for a source that has partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Column

from panestream.datastream.keyed import DataStream, KeyedStream
from panestream.errors import InvalidPlanError
from panestream.spark.columns import column_of
from panestream.spark.kafka.records import ARRIVAL, SIDE_OUTPUT, SOURCE, Reading, filtered, read_records
from panestream.spark.kafka.source import Topics
from panestream.spark.session import check_version
from panestream.windowing.time import Duration
from panestream.windowing.watermarks import WatermarkStrategy

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from panestream.datastream.windowed import WindowedStream
    from panestream.windowing.assigners import WindowAssigner

IDLE_AFTER = "5 minutes"
"""Longer than a producer's restart, in which nothing must become late; shorter than anybody waits for a result."""


def from_kafka(
    spark: SparkSession,
    servers: str,
    topics: str | Sequence[str],
    *,
    schema: str | None = None,
    value_format: str = "json",
    value_options: Mapping[str, str] | None = None,
    key_format: str = "string",
    key_schema: str | None = None,
    malformed: str = "fail",
    columns: Mapping[str, str | Column] | None = None,
    where: str | Column | None = None,
    starting: str = "earliest",
    records_per_batch: int | None = None,
    headers: bool = False,
    idle_after: Duration | None = IDLE_AFTER,
    partitions: int | Mapping[str, int] | None = None,
    batch: bool = False,
    options: Mapping[str, str] | None = None,
) -> KafkaStream:
    """A stream of events from Kafka, read so that each partition has a watermark of its own.

    It is Spark's Kafka source (package ``org.apache.spark:spark-sql-kafka-0-10_2.13``, which the session must have) with what has
    to be written out beside ``readStream``: the records decoded, those that cannot be named or kept; a watermark for each
    partition of each topic, where Spark has one for all; a partition that falls silent lets the others go on; rows in the order
    of their offsets where that counts.

    Columns: the fields of the value (of other formats ``kafka_value``); ``kafka_key``; ``kafka_topic``, ``kafka_partition``,
    ``kafka_offset``; ``kafka_timestamp`` with ``kafka_timestamp_type``, ``create`` (the producer's time) or ``log_append`` (the
    broker's); ``kafka_source``, topic and partition as one text. With ``headers``, ``kafka_headers``.

    Args:
        spark: the session, classic or Connect.
        servers: ``host:port``, several with commas.
        topics: their names; a string with ``*`` is a pattern as Java has it, e.g. ``"clicks-.*"``.
        schema: the fields of a value in JSON, as Spark DDL. A field that a record lacks is null.
        value_format: ``json``, ``string``, ``binary``, or ``none``: not read.
        value_options: of Spark's ``from_json``, e.g. ``{"timestampFormat": "..."}``.
        key_format: as of the value. Of ``json`` the column is a struct.
        key_schema: the fields of a key in JSON.
        malformed: a record without a value, or one that is not of that format: ``"fail"``, a :class:`MalformedRecordError` that
            says which; ``"side_output"``: it goes to the output of :meth:`DataStream.side_output_invalid`, with its place and its
            bytes in ``kafka_malformed``.
        columns: derived columns, by name; later ones may use earlier ones.
        where: only rows for which this is true are part of the stream, and those that cannot be read. As Flink's ``filter``
            before ``assignTimestampsAndWatermarks``: what it leaves out moves no watermark, and a partition of which it leaves
            out all is silent.
        starting: where a query that has no checkpoint begins: ``"earliest"``, ``"latest"``, or offsets in Spark's JSON.
        records_per_batch: how many records a micro-batch takes at most, of each partition in proportion to what it has. (Spark's
            ``maxOffsetsPerTrigger``.)
        headers: whether to read the headers.
        idle_after: after how long without records a partition no longer holds the watermark back, where the strategy says nothing
            of it (:meth:`WatermarkStrategy.with_idleness`). None: it holds it back for ever, Flink's default.
        partitions: how many partitions the topics have, each of them or by topic. Then one that has no records yet holds the
            watermark back from the start, until it is idle, as in Flink, which asks the broker; without it, nobody knows of a
            partition before its first record. A query that is started for what is there (``availableNow``) waits for such a
            partition as for one that has fallen silent: it may never find it idle. More partitions may come later.
        batch: reads what is there now, as a batch.
        options: further ones of Spark's source, e.g. ``{"kafka.security.protocol": "SSL", "minPartitions": "16"}``.

    Raises:
        InvalidPlanError: a format, schema or option that is none; Spark has no Kafka source here.
        EnvironmentNotReadyError: Spark is too old.
    """
    check_version(spark)
    if malformed not in ("fail", SIDE_OUTPUT):
        raise InvalidPlanError(f"malformed is 'fail' or '{SIDE_OUTPUT}', not {malformed!r}")
    key, value = Reading("key", key_format, key_schema), Reading("value", value_format, schema, value_options or {})
    source = Topics(servers, topics, starting, records_per_batch, headers, options or {})
    expected = source.expected(partitions)
    df = read_records(source.frame(spark, batch=batch), key, value, malformed)
    for name, given in (columns or {}).items():
        df = df.withColumn(name, column_of(df, given, f"the column {name!r}"))
    if where is not None:
        df = filtered(df, column_of(df, where, "where"))
    return KafkaStream(df, order=ARRIVAL, malformed=malformed, idle_after=idle_after, expected=expected)


@dataclass(frozen=True, eq=False, repr=False)
class KafkaStream(DataStream):
    """Events from Kafka, as :func:`from_kafka` gives them: a :class:`DataStream` that knows of partitions.

    Attributes:
        malformed: what becomes of records that cannot be read.
        idle_after: when a partition no longer holds the watermark back.
        expected: partitions that hold it back before their first record, as ``kafka_source`` calls them.
    """

    malformed: str = "fail"
    idle_after: Duration | None = IDLE_AFTER
    expected: tuple[str, ...] = ()

    def assign_timestamps(
        self, column: str | Column, strategy: WatermarkStrategy | Duration, *, unit: str | None = None
    ) -> DataStream:
        """As :meth:`DataStream.assign_timestamps`, with a watermark for each partition of each topic.

        A strategy that names its own partitions, or its own idleness, keeps them.

        Args:
            column: e.g. a field of the value, or ``kafka_timestamp``.
            strategy: a strategy, or how late rows may be, e.g. ``"5 seconds"``.
            unit: of a number.
        """
        strategy = WatermarkStrategy.given_as(strategy)
        if strategy.delay is not None or strategy.generator is not None:
            if strategy.partition_column is None:
                strategy = strategy.per_partition(SOURCE, self.expected)
            if strategy.idle_timeout is None and self.idle_after is not None:
                strategy = strategy.with_idleness(self.idle_after)
        return super().assign_timestamps(column, strategy, unit=unit)

    def key_by(self, *keys: str | Column) -> KeyedStream:
        self._check_told_apart()
        return super().key_by(*keys)

    def window_all(self, assigner: WindowAssigner) -> WindowedStream:
        self._check_told_apart()
        return super().window_all(assigner)

    def count_window_all(self, size: int, slide: int | None = None) -> WindowedStream:
        self._check_told_apart()
        return super().count_window_all(size, slide)

    def _check_told_apart(self) -> None:
        """Records that cannot be read have no event time: without one nothing would keep them from being counted as nulls."""
        if self.malformed == SIDE_OUTPUT and (self.event_time is None or self.invalid_tag is None):
            raise InvalidPlanError(
                "malformed='side_output' needs .assign_timestamps(...) and .side_output_invalid('tag'), which takes the records "
                "that cannot be read; without event time write malformed='fail', or read kafka_malformed yourself, from .df"
            )
