"""Event streams from Kafka, with records as columns and a watermark for each partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Column

from panestream.datastream.keyed import DataStream, KeyedStream
from panestream.errors import InvalidPlanError
from panestream.spark.columns import column_of
from panestream.spark.kafka.source import ARRIVAL, SIDE_OUTPUT, SOURCE, Reading, Topics, filtered, read_records
from panestream.spark.session import check_version
from panestream.windowing.time import Duration
from panestream.windowing.watermarks import WatermarkStrategy

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from panestream.datastream.windowed import WindowedStream
    from panestream.windowing.assigners import WindowAssigner

IDLE_AFTER = "5 minutes"
"""Longer than a producer's restart, which must not make rows late, and shorter than users wait for a result."""


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
    """Read a stream of events from Kafka, with a watermark for each partition.

    It uses Spark's Kafka source (package ``org.apache.spark:spark-sql-kafka-0-10_2.13``, which the session must have) and adds
    what ``readStream`` leaves to the user. Records are decoded, and malformed ones are reported or kept. Each partition of each
    topic has a watermark, while Spark has one for all. A silent partition does not hold back the others. Rows are in the order of
    their offsets if that matters.

    Columns: the fields of the value (``kafka_value`` for other formats), ``kafka_key``, ``kafka_topic``, ``kafka_partition``,
    ``kafka_offset``, and ``kafka_timestamp`` with ``kafka_timestamp_type``, ``create`` (the producer's time) or ``log_append``
    (the broker's). ``kafka_source`` has topic and partition as one text. With ``headers`` there is ``kafka_headers``.

    Args:
        spark: the session, classic or Connect.
        servers: ``host:port``, several with commas.
        topics: their names. A string with ``*`` is a Java pattern, e.g. ``"clicks-.*"``.
        schema: the fields of a JSON value, as Spark DDL. A field that a record lacks is null.
        value_format: ``json``, ``string``, ``binary``, or ``none`` to skip the value.
        value_options: options of Spark's ``from_json``, e.g. ``{"timestampFormat": "..."}``.
        key_format: the same for the key. A ``json`` key is a struct column.
        key_schema: the fields of a JSON key.
        malformed: how to treat a record without a value or in another format. ``"fail"`` raises a :class:`MalformedRecordError`
            that identifies it. ``"side_output"`` sends it to the output of :meth:`DataStream.side_output_invalid`, with its
            position and its bytes in ``kafka_malformed``.
        columns: derived columns, by name. Later ones may use earlier ones.
        where: a condition on rows; records that cannot be read always pass. Like Flink's ``filter`` before
            ``assignTimestampsAndWatermarks``, excluded rows do not move the watermark, and a partition without other rows is
            silent.
        starting: where a query without a checkpoint begins. ``"earliest"``, ``"latest"``, or offsets in Spark's JSON.
        records_per_batch: the most records of a micro-batch, shared among partitions in proportion to their backlog. (Spark's
            ``maxOffsetsPerTrigger``.)
        headers: whether to read the headers.
        idle_after: how long a partition without records holds the watermark back, unless the strategy sets it
            (:meth:`WatermarkStrategy.with_idleness`). With None it holds it back forever, which is Flink's default.
        partitions: the number of partitions of each topic, or by topic. An empty partition then holds the watermark back from the
            start until it is idle, as in Flink, which queries the broker. Without it, a partition is unknown before its first
            record. An ``availableNow`` query waits for an empty partition as for a silent one, and may never find it idle.
            Partitions may be added later.
        batch: read the current records as a batch.
        options: further options of Spark's source, e.g. ``{"kafka.security.protocol": "SSL", "minPartitions": "16"}``.

    Raises:
        InvalidPlanError: a format, schema or option is invalid, or Spark does not have its Kafka source.
        EnvironmentNotReadyError: Spark is too old.

    Examples:
        >>> clicks = pst.from_kafka(spark, servers, "clicks", schema="user STRING, price DOUBLE, ts TIMESTAMP")
        >>> events = clicks.assign_timestamps("ts", pst.WatermarkStrategy.for_monotonous_timestamps())
        >>> events.group_by("user", pst.tumbling("1 hour")).aggregate(agg.sum("price").alias("total")).plan.key_names
        ('user',)
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
    """Events from Kafka, created by :func:`from_kafka` with the arguments ``malformed`` and ``idle_after``.

    ``expected`` are partitions that hold the watermark back before their first record, by their ``kafka_source``.

    >>> clicks = pst.from_kafka(spark, servers, ["clicks", "views"], value_format="string", malformed="side_output")
    >>> clicks.malformed, clicks.df.columns[:3]
    ('side_output', ['kafka_value', 'kafka_key', 'kafka_topic'])
    """

    malformed: str = "fail"
    idle_after: Duration | None = IDLE_AFTER
    expected: tuple[str, ...] = ()

    def assign_timestamps(
        self, column: str | Column, strategy: WatermarkStrategy | Duration, *, unit: str | None = None
    ) -> DataStream:
        """Assign timestamps as :class:`DataStream` does, with a watermark for each partition of each topic.

        A strategy with its own partitions or idleness keeps them. ``column`` is e.g. a field of the value, or
        ``kafka_timestamp``.
        """
        strategy = WatermarkStrategy.given_as(strategy)
        if strategy.has_watermarks:
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
        """Check that records that cannot be read have an output; without event time they would be counted as nulls."""
        if self.malformed == SIDE_OUTPUT and (self.event_time is None or self.invalid_tag is None):
            raise InvalidPlanError(
                "malformed='side_output' needs .assign_timestamps(...) and .side_output_invalid('tag'), which takes the records "
                "that cannot be read; without event time write malformed='fail', or read kafka_malformed yourself, from .df"
            )
