"""Write outputs as records of a Kafka topic."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from panestream.engine.plan import DELETE, FIRING_COLUMNS, MAIN, OP_COLUMN, UPDATE_BEFORE
from panestream.errors import InvalidPlanError, SinkError
from panestream.spark.columns import quoted, struct_of
from panestream.spark.kafka.deduplicator import BATCH, ID, WRITER
from panestream.spark.kafka.source import check_servers, check_topic, no_kafka
from panestream.spark.sinks.base import AT_LEAST_ONCE, EXACTLY_ONCE, QueryRunInfo, Sink
from panestream.spark.sinks.keys import check_key_columns, check_keys, key_and_window

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_FIRING = FIRING_COLUMNS[1].name
_AS_JSON = {
    "ignoreNullFields": "false",
    "timeZone": "UTC",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""Fixed settings, since a repeated record must be equal to the byte. Microseconds keep different times different."""
_LOOKS = {"kafka.default.api.timeout.ms": "20000", "kafka.request.timeout.ms": "10000", "fetchOffset.numRetries": "1"}
"""Short timeouts, so that a start against a missing broker does not take minutes."""
_ABSENT = ("UnknownTopicOrPartition", "not present in metadata", "UNKNOWN_TOPIC", "does not host this topic")
_SILENT = ("TimeoutException", "Failed to create new KafkaAdminClient", "Failed to construct kafka", "UnknownHost")


@dataclass(frozen=True)
class _Columns:
    """The expressions of a record that are equal for all micro-batches.

    Attributes:
        kept: a filter of the rows that become records, or None for all rows.
        event: the firing of the record, or None if the micro-batch is the event. ``nth`` is the record's position in it.
        at: the order of the records within ``place``, the group whose order is kept.
        is_last: 1 for the last record of a place, or None if all are wanted.
        id: a hash of the writer, event, place and position.
        told_key: the key that Kafka sees.
    """

    kept: Column | None
    key: Column
    value: Column
    event: Column | None
    at: Column
    place: Column
    is_last: Column | None
    nth: Column
    id: Column
    headers: tuple[Column, ...]
    told_key: Column


@dataclass(frozen=True)
class KafkaSink(Sink):
    """Rows as records of a topic: at least once, or exactly once for readers with a :class:`KafkaDeduplicator`.

    **Records.** The key is JSON of the key columns and, for ``main``, the window's columns. So all records of a key and window
    are in one partition, in the order of emission. The value is JSON of all columns; times are in UTC with microseconds. For an
    output without key columns (such as late rows) the id is the key.

    **Headers.** ``panestream-writer`` (query and output), ``panestream-batch`` (the micro-batch's number), and ``panestream-id``.
    The id is made of the query, the output, the record's key and the firing's number (:meth:`WindowedResult.with_firing`), for
    ``.changelog()`` with ``op``. Without firing numbers it has the micro-batch's number. If several rows share these values, the
    row's position is added. A micro-batch that is run again writes the same records with the same ids to the same partitions. A
    query that continues from a savepoint is the same writer and continues the numbers of the micro-batches.

    **Exactly once** depends on the reader, since Spark cannot commit a micro-batch together with Kafka records. The reader takes
    each id once: :class:`KafkaDeduplicator` does this with little memory, a unique key on the id with none.

    **Compacted.** With ``compacted=True`` only the last record of a key counts, as in a topic with ``cleanup.policy=compact``. A
    micro-batch writes the last record per key and window. Deleted rows of ``.changelog()`` become tombstones (records without a
    value), and ``op`` is not part of the value. This is exactly once for readers that treat the topic as a table. An interrupted
    micro-batch that is run again writes the same records again.

    If two copies of a query run, the one started later continues. The other notices before and after it writes; until then it may
    write records of its micro-batch again, with the same ids. The topic must exist. You choose its number of partitions. Do not
    change it while an interrupted query waits for its restart, because its last records would go to other partitions.

    Args:
        servers: ``host:port``, several with commas.
        topic: its name.
        keys: the key columns. For ``main`` the window's columns are added.
        compacted: whether only the last record of a key counts.
        options: of Spark's writer and, with the prefix ``kafka.``, of the producer: ``{"kafka.max.request.size": "8388608"}``.

    Raises:
        SinkError: a server, the topic, a key or an option is invalid.

    >>> KafkaSink("localhost:9092", "hot-items", ["item_id"]).describe()
    'topic hot-items'
    """

    servers: str
    topic: str
    keys: Sequence[str] = ()
    compacted: bool = False
    options: Mapping[str, str] = field(default_factory=dict, repr=False)  # passwords may be among them
    run: QueryRunInfo = field(default_factory=QueryRunInfo, repr=False, compare=False, kw_only=True)
    _made: dict[tuple[str, ...], _Columns] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        try:
            check_servers(self.servers)
            check_topic(self.topic)
        except InvalidPlanError as error:
            raise SinkError(f"a KafkaSink: {error}") from None
        check_keys(self.keys, "a KafkaSink")
        for name in self.options:
            if name.lower() in ("topic", "kafka.bootstrap.servers"):
                raise SinkError(f"the option {name!r} has its own argument in KafkaSink. Use that argument")

    def place(self, spark: SparkSession) -> str:
        return f"topic {self.topic} of {','.join(sorted(one.strip().lower() for one in self.servers.split(',')))}"

    def check_columns(self, names: Sequence[str]) -> None:
        check_key_columns(self.keys, names, f"the rows for {self.describe()}")

    def open(self, spark: SparkSession, run: QueryRunInfo) -> Sink:
        if self.compacted and run.output != MAIN and not self.keys:
            raise SinkError(
                f"{self.describe()}: the output {run.output!r} does not have windows, so compacted=True needs keys=[...]"
            )
        self._check_topic(spark)
        # A batch gets a new identity, since its records differ from those that another batch wrote.
        return replace(self, run=run if run.query else replace(run, query=uuid.uuid4().hex))

    def write(self, df: DataFrame, batch_id: int | None) -> None:
        self.run.check(df.sparkSession)
        try:
            writer = self.records(df, batch_id).write.format("kafka").options(**dict(self.options))
            writer.option("kafka.bootstrap.servers", self.servers).option("topic", self.topic).save()
        except Exception as error:
            self._explain(error)
            raise
        self.run.check(df.sparkSession)

    def records(self, df: DataFrame, batch_id: int | None) -> DataFrame:
        """Return key, value and headers of a micro-batch's records. All records of a key are in one partition, in order."""
        number = -1 if batch_id is None else batch_id
        made = self._columns(tuple(df.columns))
        event = F.lit(f"batch {number}") if made.event is None else made.event
        rows = df if made.kept is None else df.where(made.kept)
        rows = rows.select(made.key, made.value, event.alias("event"), made.at)
        rows = rows.withColumn("place", made.place)
        if made.is_last is not None:
            rows = rows.withColumn("__last", made.is_last).where("__last = 1")
        rows = rows.withColumn("nth", made.nth).withColumn("id", made.id)
        headers = F.array(*made.headers, _header(BATCH, F.lit(str(number))))
        rows = rows.sortWithinPartitions("place", "at", "value")
        return rows.select(made.told_key, "value", headers.alias("headers"))

    def _columns(self, names: tuple[str, ...]) -> _Columns:
        """Return the expressions for rows with these columns. Cached: building them takes as long as writing some rows."""
        if names not in self._made:
            self._made[names] = self._columns_of(names)
        return self._made[names]

    def _columns_of(self, names: Sequence[str]) -> _Columns:
        by_window = self.run.output == MAIN
        named = key_and_window(self.keys, names) if by_window else list(self.keys)
        told = self.run.added.intersection(names) if by_window else frozenset()
        changes = self.compacted and OP_COLUMN.name in told
        value = _json([name for name in names if not (changes and name == OP_COLUMN.name)])
        # A retracted firing is written again, as another change.
        of_firing = [F.col(quoted(name)) for name in (_FIRING, OP_COLUMN.name) if name in told] if _FIRING in told else []
        of_place = Window.partitionBy("place")
        last = of_place.orderBy(F.col("at").desc(), F.col("value").desc())
        # Equal after a start from a savepoint: readers see one writer that continues its micro-batches.
        writer = F.lit(self.run.lineage)
        parts = F.struct(writer.alias("w"), F.col("event").alias("e"), F.col("place").alias("p"), F.col("nth").alias("n"))
        return _Columns(
            kept=F.col(quoted(OP_COLUMN.name)) != UPDATE_BEFORE if changes else None,
            key=(_json(named) if named else F.lit(None).cast("string")).alias("key"),
            value=(F.when(F.col(quoted(OP_COLUMN.name)) != DELETE, value) if changes else value).alias("value"),
            event=F.concat_ws(" ", F.lit("firing"), *of_firing) if of_firing else None,
            # An order that a shuffle keeps. For outputs without windows only the values count.
            at=(F.monotonically_increasing_id() if by_window else F.lit(0)).alias("at"),
            place=F.coalesce("key", "value"),
            is_last=F.row_number().over(last) if self.compacted else None,
            # Counted from the start of its event. All windows are by place, so one shuffle brings the records of a place
            # together. If they are already in one partition, Spark does not shuffle.
            nth=F.row_number().over(of_place.orderBy("event", "at", "value")) - F.rank().over(of_place.orderBy("event")) + 1,
            id=F.substring(F.sha2(F.to_json(parts), 256), 1, 32),
            headers=(_header(ID, F.col("id")), _header(WRITER, writer)),
            told_key=F.coalesce("key", "id").alias("key"),
        )

    @property
    def keeps_last(self) -> bool:
        return self.compacted

    def guarantee(self, spark: SparkSession) -> str:
        if self.compacted:
            return f"{EXACTLY_ONCE} for a reader of the last record of each key (the topic as a table)"
        return (
            f"{AT_LEAST_ONCE}: a repeated micro-batch sends its records again, with the same ids; exactly once for a reader "
            f"that takes each {ID} once (pst.sinks.KafkaDeduplicator)"
        )

    def describe(self) -> str:
        return f"topic {self.topic}"

    def _check_topic(self, spark: SparkSession) -> None:
        """Refuse a missing topic, for which a producer would wait in every micro-batch."""
        given = {**self.options, **_LOOKS, "kafka.bootstrap.servers": self.servers, "subscribe": self.topic}
        try:
            spark.read.format("kafka").options(**given).load().select("partition").isEmpty()
        except Exception as error:
            self._explain(error)
            if any(sign in str(error) for sign in _SILENT):
                raise SinkError(f"{self.describe()}: no broker answers at {self.servers}") from error
            if "Authorization" not in str(error):  # a user with write access may lack read access
                raise

    def _explain(self, error: Exception) -> None:
        said = str(error)
        if "Failed to find data source: kafka" in said or "DATA_SOURCE_NOT_FOUND" in said:
            raise SinkError(no_kafka()) from error
        if any(sign in said for sign in _ABSENT):
            raise SinkError(
                f"{self.describe()}: {self.servers} does not have this topic. Create it with the partitions that readers need"
            ) from error
        if "RecordTooLarge" in said or "MESSAGE_TOO_LARGE" in said:
            raise SinkError(
                f"{self.describe()}: a record is larger than the producer or the topic allows. Give "
                f"options={{'kafka.max.request.size': 'BYTES'}}, and the topic the same as max.message.bytes"
            ) from error


def _json(names: Sequence[str]) -> Column:
    return F.to_json(struct_of(names), _AS_JSON)


def _header(name: str, value: Column) -> Column:
    return F.struct(F.lit(name).alias("key"), value.cast("binary").alias("value"))
