"""The contents of a topic's records as columns. An unreadable record is reported and never silently becomes nulls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from panestream.errors import InvalidPlanError
from panestream.spark.columns import quoted
from panestream.spark.compat import silence_analysis_errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PREFIX = "kafka_"
SOURCE = "kafka_source"
"""The column ``TOPIC-PARTITION``. Each value has its own watermark."""
MALFORMED = "kafka_malformed"
ARRIVAL = ("kafka_topic", "kafka_partition", "kafka_offset")
FORMATS = ("json", "string", "binary", "none")
SIDE_OUTPUT = "side_output"
_CORRUPT = "__corrupt"
_SHOWN = 100
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
            told = (
                "needs a schema, e.g. 'user BIGINT, at TIMESTAMP'" if self.schema is None else "takes no schema: it is for json"
            )
            raise InvalidPlanError(f"{self.part}_format {self.format!r} {told}")

    def types(self, spark: SparkSession) -> T.StructType:
        """Return the columns of JSON. Raise InvalidPlanError if the schema is not valid DDL."""
        try:
            with silence_analysis_errors():
                return spark.createDataFrame([], str(self.schema)).schema
        except Exception as error:
            reason = str(error).strip().splitlines()[0]
            raise InvalidPlanError(f"the schema of the {self.part}, {self.schema!r}, is no Spark DDL ({reason})") from error

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
            text = F.substring(raw.cast("string"), 1, _SHOWN)
            return absent.when(corrupt, F.concat(F.lit(f"is no JSON of {self.schema}: '"), text, F.lit("'")))
        if self.format == "string":
            shown = F.substring(F.hex(raw), 1, _SHOWN)
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
        taken = [name for name in value.types(spark).names if name.lower().startswith((PREFIX, _CORRUPT))]
        if taken:
            raise InvalidPlanError(
                f"a column of the value cannot be called {taken[0]!r}: names with kafka_ say where a record lies"
            )
    # Decoded once, under a name, for any number of uses below.
    rows = df.select("*", *(one.decoded(spark).alias(f"__{one.part}") for one in (key, value) if one.format != "none"))
    where = F.concat(F.col("topic"), F.lit("-"), F.col("partition").cast("string"))
    wrong = _wrong([(one.part, one.malformed(f"__{one.part}")) for one in (key, value)])
    rows = rows.select("*", (F.lit(None).cast("string") if wrong is None else wrong).alias("__wrong"))
    fails, usable = malformed != SIDE_OUTPUT, F.col("__wrong").isNull()
    if fails:
        # In every column with contents of a record, so that the query fails for any selection of columns.
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
    """Return the rows for which a condition is true, and unreadable records, whose columns are null."""
    return df.where(condition | F.col(MALFORMED).isNotNull()) if MALFORMED in df.columns else df.where(condition)


_WAY_OUT = (
    "malformed='side_output' sends such records to the output of .side_output_invalid('tag'), with their bytes; without it "
    "they fail the query"
)


def _wrong(parts: list[tuple[str, Column | None]]) -> Column | None:
    """Return the first fault of a record's parts, in words."""
    said = [F.concat(F.lit(f"{part} "), wrong) for part, wrong in parts if wrong is not None]
    return F.coalesce(*said) if said else None
