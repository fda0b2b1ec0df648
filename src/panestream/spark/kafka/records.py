"""What is in the records of a topic, as columns; what cannot be read is named, and never becomes nulls in silence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from panestream.errors import InvalidPlanError
from panestream.spark.asking import asking
from panestream.spark.columns import quoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PREFIX = "kafka_"
SOURCE = "kafka_source"
"""The column ``TOPIC-PARTITION``, by which watermarks are told apart."""
MALFORMED = "kafka_malformed"
ARRIVAL = ("kafka_topic", "kafka_partition", "kafka_offset")
FORMATS = ("json", "string", "binary", "none")
SIDE_OUTPUT = "side_output"
_CORRUPT = "__corrupt"
_SHOWN = 100
"""So many characters of what cannot be read are shown."""


@dataclass(frozen=True)
class Reading:
    """How one part of a record, its key or its value, is read.

    Attributes:
        part: ``key`` or ``value``.
        format: ``json``, ``string``, ``binary``, or ``none``: not at all.
        schema: of JSON, as Spark DDL.
        options: of Spark's ``from_json``, e.g. ``timestampFormat``.
    """

    part: str
    format: str
    schema: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise InvalidPlanError(f"{self.part}_format is one of {', '.join(FORMATS)}, not {self.format!r}")
        if (self.format == "json") != (self.schema is not None):
            told = (
                "needs a schema, e.g. 'user BIGINT, at TIMESTAMP'" if self.schema is None else "takes no schema: it is for json"
            )
            raise InvalidPlanError(f"{self.part}_format {self.format!r} {told}")

    def types(self, spark: SparkSession) -> T.StructType:
        """The columns of JSON.

        Raises:
            InvalidPlanError: the schema is no DDL.
        """
        try:
            with asking():
                return spark.createDataFrame([], str(self.schema)).schema
        except Exception as error:
            reason = str(error).strip().splitlines()[0]
            raise InvalidPlanError(f"the schema of the {self.part}, {self.schema!r}, is no Spark DDL ({reason})") from error

    def decoded(self, spark: SparkSession) -> Column:
        """What is read; of JSON a struct, with a last field that has the text where that does not fit the schema."""
        # By a condition that Spark takes for one that may change, or a filter on what was read would be moved below the reading,
        # which would then be done again for every column that the filter names.
        raw = F.when(F.spark_partition_id() >= 0, F.col(self.part))
        if self.format == "json":
            wanted = T.StructType([*self.types(spark).fields, T.StructField(_CORRUPT, T.StringType())])
            options = {**self.options, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
            return F.from_json(raw.cast("string"), wanted, options)
        return raw.cast("string") if self.format == "string" else raw

    def malformed(self, decoded: str) -> Column | None:
        """What is wrong with it, in words; null: nothing. None: nothing can be.

        A record without a key is none that is malformed, one without a value is.

        Args:
            decoded: the column with what :meth:`decoded` gave.
        """
        raw = F.col(self.part)
        absent = F.when(raw.isNull(), F.lit("is null")) if self.part == "value" else F.when(raw.isNull(), F.lit(None))
        if self.format == "json":
            corrupt = F.col(decoded).isNull() | F.col(f"{decoded}.{_CORRUPT}").isNotNull()
            text = F.substring(raw.cast("string"), 1, _SHOWN)
            return absent.when(corrupt, F.concat(F.lit(f"is no JSON of {self.schema}: '"), text, F.lit("'")))
        if self.format == "string":
            shown = F.substring(F.hex(raw), 1, _SHOWN)
            return absent.when(~F.is_valid_utf8(raw.cast("string")), F.concat(F.lit("is no UTF-8: 0x"), shown))
        return absent if self.format == "binary" and self.part == "value" else None

    def columns(self, spark: SparkSession, decoded: str, usable: Column) -> list[Column]:
        """The columns that it becomes, null where the record cannot be used: a value in JSON its fields, all else one column."""
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
    """The records of Spark's Kafka source as columns of their own.

    Args:
        df: what ``readStream.format("kafka")`` gives.
        key: how keys are read.
        value: how values are read.
        malformed: ``"fail"``, or ``"side_output"``: a record that cannot be read has only nulls but for where it lies,
            and ``kafka_malformed`` says what it is.
    """
    spark = df.sparkSession
    if value.format == "json":
        taken = [name for name in value.types(spark).names if name.lower().startswith((PREFIX, _CORRUPT))]
        if taken:
            raise InvalidPlanError(
                f"a column of the value cannot be called {taken[0]!r}: names with kafka_ say where a record lies"
            )
    # Read once, under a name, whatever is asked of it below.
    rows = df.select("*", *(one.decoded(spark).alias(f"__{one.part}") for one in (key, value) if one.format != "none"))
    where = F.concat(F.col("topic"), F.lit("-"), F.col("partition").cast("string"))
    wrong = _wrong([(one.part, one.malformed(f"__{one.part}")) for one in (key, value)])
    rows = rows.select("*", (F.lit(None).cast("string") if wrong is None else wrong).alias("__wrong"))
    fails, usable = malformed != SIDE_OUTPUT, F.col("__wrong").isNull()
    if fails:
        # In every column that is read from a record, so that whatever a query asks for, it fails.
        told = [
            F.lit("panestream.errors.MalformedRecordError: the record at offset "),
            F.col("offset").cast("string"),
            F.lit(" of "),
        ]
        told += [where, F.lit(": its "), F.col("__wrong"), F.lit(f". {_WAY_OUT}")]
        usable = F.when(usable, F.lit(True)).otherwise(F.raise_error(F.concat(*told)).cast("boolean"))
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
        kept = F.struct(F.col("__wrong").alias("reason"), F.col("key"), F.col("value"), F.col("timestamp"))
        columns.append(F.when(~usable, kept).alias(MALFORMED))
    return rows.select(*columns)


def filtered(df: DataFrame, condition: Column) -> DataFrame:
    """The rows for which a condition is true; records that cannot be read stay, whose columns are null.

    Args:
        df: what :func:`read_records` gave, or any other.
        condition: over its columns.
    """
    return df.where(condition | F.col(MALFORMED).isNotNull()) if MALFORMED in df.columns else df.where(condition)


_WAY_OUT = (
    "malformed='side_output' sends such records to the output of .side_output_invalid('tag'), with their bytes; without it "
    "they fail the query"
)


def _wrong(parts: list[tuple[str, Column | None]]) -> Column | None:
    """What is wrong with a record, in words: the first part that has something."""
    said = [F.concat(F.lit(f"{part} "), wrong) for part, wrong in parts if wrong is not None]
    return F.coalesce(*said) if said else None
