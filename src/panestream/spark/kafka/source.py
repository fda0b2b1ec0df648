"""Spark's Kafka source for some topics, with the contents of records as columns.

An unreadable record is reported and never silently becomes nulls.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from panestream.errors import InvalidPlanError, did_you_mean
from panestream.spark.columns import quoted
from panestream.spark.compat import silence_analysis_errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
                raise InvalidPlanError(f"the option {name!r} has its own argument in from_kafka. Use that argument")

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
                    f"partitions={partitions!r} applies to named topics, not to a pattern. Give them by topic, {{'clicks': 4}}"
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
        options = {"kafka.bootstrap.servers": self.servers, "startingOffsets": self.starting, **self.options}
        options["subscribePattern" if self.pattern else "subscribe"] = (
            self.topics if isinstance(self.topics, str) else ",".join(self.topics)
        )
        if self.records_per_batch is not None and not batch:
            options["maxOffsetsPerTrigger"] = str(self.records_per_batch)
        if self.headers:
            options["includeHeaders"] = "true"
        reader: Any = spark.read if batch else spark.readStream
        return asked(lambda: reader.format("kafka").options(**options).load())


def asked(ask: Any) -> DataFrame:
    """Return the result of ``ask`` after analysis. Raise InvalidPlanError if Spark lacks Kafka or refuses the options."""
    try:
        with silence_analysis_errors():
            df: DataFrame = ask()
            _ = df.columns
            return df
    except Exception as error:
        message = str(error)
        if (
            "Failed to find data source: kafka" in message
            or "DATA_SOURCE_NOT_FOUND" in message
            or "deployment section" in message
        ):
            raise InvalidPlanError(no_kafka()) from error
        if "IllegalArgumentException" in type(error).__name__ or "AnalysisException" in type(error).__name__:
            raise InvalidPlanError(f"Spark's Kafka source refuses: {message.strip().splitlines()[0]}") from error
        raise


def no_kafka() -> str:
    """Return advice for a Spark without Kafka."""
    import pyspark

    return (
        f"this Spark lacks the Kafka source: start the session with .config('spark.jars.packages', "
        f"'{PACKAGE}:{pyspark.__version__}'), or "
        "give that package to spark-submit --packages (docs/how-to/kafka.md lists the versions of Spark)"
    )


def check_servers(servers: object) -> None:
    """Raise InvalidPlanError if it is not a list of servers."""
    if not isinstance(servers, str) or _SERVERS.fullmatch(servers.strip()) is None:
        raise InvalidPlanError(f"servers must be 'host:port', several with commas, got {servers!r}")


def check_topic(name: object) -> None:
    """Raise InvalidPlanError if it cannot be the name of a topic."""
    if not isinstance(name, str) or _TOPIC.fullmatch(name) is None:
        raise InvalidPlanError(f"a topic has a name of letters, digits, '.', '_' and '-', got {name!r}")


PREFIX = "kafka_"
SOURCE = "kafka_source"
"""The column ``TOPIC-PARTITION``. Each value has its own watermark."""
MALFORMED = "kafka_malformed"
ARRIVAL = ("kafka_topic", "kafka_partition", "kafka_offset")
FORMATS = ("json", "string", "binary", "none")
SIDE_OUTPUT = "side_output"
_CORRUPT = "__corrupt"
_USABLE = "__usable"
_MAX_SHOWN = 100
"""The number of characters of an unreadable record that are shown."""


@dataclass(frozen=True)
class Reading:
    """The way to read one part of a record, its key or its value.

    Attributes:
        part: ``key`` or ``value``.
        format: ``json``, ``string`` or ``binary``, or ``none`` to skip the part.
        schema: the schema of JSON, as Spark DDL.
        options: options of Spark's ``from_json``, e.g. ``timestampFormat``.
    """

    part: str
    format: str
    schema: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise InvalidPlanError(f"{self.part}_format is one of {', '.join(FORMATS)}, not {self.format!r}")
        if (self.format == "json") != (self.schema is not None):
            reason = (
                "needs a schema, e.g. 'user BIGINT, at TIMESTAMP'"
                if self.schema is None
                else "does not support a schema, which is for json"
            )
            raise InvalidPlanError(f"{self.part}_format {self.format!r} {reason}")

    def types(self, spark: SparkSession) -> T.StructType:
        """Return the columns of JSON. Raise InvalidPlanError if the schema is not valid DDL."""
        try:
            with silence_analysis_errors():
                return spark.createDataFrame([], str(self.schema)).schema
        except Exception as error:
            reason = str(error).strip().splitlines()[0]
            raise InvalidPlanError(f"the schema of the {self.part}, {self.schema!r}, is not Spark DDL ({reason})") from error

    def decoded(self, spark: SparkSession) -> Column:
        """Return the decoded part. JSON becomes a struct whose last field has the original text if it does not fit the schema."""
        # Under a condition that Spark considers nondeterministic. Otherwise Spark would push a filter on the result below the
        # decoding, and repeat the decoding for every column in the filter.
        raw = F.when(F.spark_partition_id() >= 0, F.col(self.part))
        if self.format == "json":
            wanted = T.StructType([*self.types(spark).fields, T.StructField(_CORRUPT, T.StringType())])
            options = {**self.options, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
            return F.from_json(raw.cast("string"), wanted, options)
        return raw.cast("string") if self.format == "string" else raw

    def malformed(self, decoded: str) -> Column | None:
        """Return what is wrong with the part, in words, or null. None if nothing can be wrong.

        A record without a key is valid, a record without a value is malformed. ``decoded`` names the result of :meth:`decoded`.
        """
        raw = F.col(self.part)
        absent = F.when(raw.isNull(), F.lit("is null")) if self.part == "value" else F.when(raw.isNull(), F.lit(None))
        if self.format == "json":
            corrupt = F.col(decoded).isNull() | F.col(f"{decoded}.{_CORRUPT}").isNotNull()
            text = F.substring(raw.cast("string"), 1, _MAX_SHOWN)
            return absent.when(corrupt, F.concat(F.lit(f"is not JSON of {self.schema}: '"), text, F.lit("'")))
        if self.format == "string":
            shown = F.substring(F.hex(raw), 1, _MAX_SHOWN)
            return absent.when(~F.is_valid_utf8(raw.cast("string")), F.concat(F.lit("is no UTF-8: 0x"), shown))
        return absent if self.format == "binary" and self.part == "value" else None

    def columns(self, spark: SparkSession, decoded: str, usable: Column) -> list[Column]:
        """Return the part's columns, null if the record is unusable: the fields of a JSON value, otherwise one column."""
        if self.format == "none":
            return []
        if self.format != "json":
            return [F.when(usable, F.col(decoded)).alias(PREFIX + self.part)]
        fields = [F.col(f"{decoded}.{quoted(one)}") for one in self.types(spark).names]
        if self.part == "value":
            named = zip(fields, self.types(spark).names, strict=True)
            return [F.when(usable, one).alias(name) for one, name in named]
        return [F.when(usable & F.col(self.part).isNotNull(), F.struct(*fields)).alias(PREFIX + self.part)]


def read_records(df: DataFrame, key: Reading, value: Reading, malformed: str) -> DataFrame:
    """Return the records of Spark's Kafka source with their contents as columns.

    If ``malformed`` is ``"fail"``, an unreadable record fails the query. If it is ``"side_output"``, its columns are null except
    for its position, and ``kafka_malformed`` describes it.
    """
    spark = df.sparkSession
    if value.format == "json":
        reserved = [name for name in value.types(spark).names if name.lower().startswith((PREFIX, _CORRUPT))]
        if reserved:
            raise InvalidPlanError(
                f"a column of the value cannot be called {reserved[0]!r}: names with kafka_ say where a record lies"
            )
    # Decoded once, under a name, for any number of uses below.
    rows = df.select("*", *(one.decoded(spark).alias(f"__{one.part}") for one in (key, value) if one.format != "none"))
    where = F.concat(F.col("topic"), F.lit("-"), F.col("partition").cast("string"))
    wrong = _wrong([(one.part, one.malformed(f"__{one.part}")) for one in (key, value)])
    rows = rows.select("*", (F.lit(None).cast("string") if wrong is None else wrong).alias("__wrong"))
    fails, usable = malformed != SIDE_OUTPUT, F.col("__wrong").isNull()
    if fails:
        # In every column with contents of a record, so that the query fails for any selection of columns.
        message = [
            F.lit("panestream.errors.MalformedRecordError: the record at offset "),
            F.col("offset").cast("string"),
            F.lit(" of "),
        ]
        message += [where, F.lit(": its "), F.col("__wrong"), F.lit(f". {_WAY_OUT}")]
        raised = F.when(usable, F.lit(True)).otherwise(F.raise_error(F.concat(*message)).cast("boolean"))
        # Once, under a name: Spark plans these expressions in every micro-batch.
        rows, usable = rows.select("*", raised.alias(_USABLE)), F.col(_USABLE)
        where = F.when(usable, where)
    stamp = F.when(F.col("timestampType") == 0, F.lit("create")).when(F.col("timestampType") == 1, F.lit("log_append"))
    columns = [
        *value.columns(spark, "__value", usable),
        *key.columns(spark, "__key", usable),
        F.col("topic").alias(ARRIVAL[0]),
        F.col("partition").alias(ARRIVAL[1]),
        F.col("offset").alias(ARRIVAL[2]),
        F.when(usable, F.col("timestamp")).alias("kafka_timestamp"),
        stamp.alias("kafka_timestamp_type"),
        *([F.col("headers").alias("kafka_headers")] if "headers" in df.columns else []),
        where.alias(SOURCE),
    ]
    if not fails:
        malformed_record = F.struct(F.col("__wrong").alias("reason"), F.col("key"), F.col("value"), F.col("timestamp"))
        columns.append(F.when(~usable, malformed_record).alias(MALFORMED))
    return rows.select(*columns)


def filtered(df: DataFrame, condition: Column) -> DataFrame:
    """Return the rows for which a condition is true, and unreadable records, whose columns are null."""
    return df.where(condition | F.col(MALFORMED).isNotNull()) if MALFORMED in df.columns else df.where(condition)


_WAY_OUT = (
    "malformed='side_output' sends such records to the output of .side_output_invalid('tag'), with their bytes; without it "
    "they fail the query"
)


def _wrong(parts: list[tuple[str, Column | None]]) -> Column | None:
    """Return the first fault of a record's parts, in words."""
    reasons = [F.concat(F.lit(f"{part} "), wrong) for part, wrong in parts if wrong is not None]
    return F.coalesce(*reasons) if reasons else None
