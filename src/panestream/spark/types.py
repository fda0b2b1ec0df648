"""Conversions between Spark's types and Arrow's. PySpark's own mapping is private and changes between versions."""

from __future__ import annotations

import re

import pyarrow as pa
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from panestream.errors import InvalidPlanError
from panestream.spark.compat import silence_analysis_errors
from panestream.spark.failures import raise_as

_ATOMIC: list[tuple[type[T.DataType], pa.DataType]] = [
    (T.BooleanType, pa.bool_()),
    (T.ByteType, pa.int8()),
    (T.ShortType, pa.int16()),
    (T.IntegerType, pa.int32()),
    (T.LongType, pa.int64()),
    (T.FloatType, pa.float32()),
    (T.DoubleType, pa.float64()),
    (T.StringType, pa.string()),
    (T.VarcharType, pa.string()),
    (T.CharType, pa.string()),
    (T.BinaryType, pa.binary()),
    (T.DateType, pa.date32()),
    (T.TimestampType, pa.timestamp("us", tz="UTC")),
    (T.TimestampNTZType, pa.timestamp("us")),
    (T.DayTimeIntervalType, pa.duration("us")),
    (T.NullType, pa.null()),
]


_BYTEWISE = "UTF8_BINARY"
_PADDED = re.compile(r"\b(?:var)?char\s*\(\s*\d+\s*\)", re.IGNORECASE)


def collation_of(kind: T.DataType) -> str | None:
    """Return the collation of the strings in a type, at any depth. None if they compare as bytes or it does not have strings."""
    if isinstance(kind, T.StringType):
        name = str(getattr(kind, "collation", _BYTEWISE))
        return None if name == _BYTEWISE else name
    if isinstance(kind, T.ArrayType):
        return collation_of(kind.elementType)
    if isinstance(kind, T.MapType):
        return collation_of(kind.keyType) or collation_of(kind.valueType)
    if isinstance(kind, T.StructType):
        return next(filter(None, (collation_of(field.dataType) for field in kind.fields)), None)
    return None


def check_bytewise(kind: T.DataType, what: str, name: str) -> None:
    """Raise InvalidPlanError for strings with a collation, since they would be compared as bytes."""
    collation = collation_of(kind)
    if collation is None:
        return
    plain = f"{name} COLLATE {_BYTEWISE}"
    raise InvalidPlanError(
        f"{what} {name!r} compares by the collation {collation}, panestream compares strings as bytes: write {plain!r}, or what "
        f"makes equal strings equal bytes, e.g. {f'lower({plain})'!r}"
    )


def to_arrow(spark_type: T.DataType, where: str) -> pa.DataType:
    """Return the Arrow type of a Spark type.

    Raises:
        InvalidPlanError: panestream does not support the type. Its place is ``where``, e.g. ``"column 'price'"``.
    """
    if isinstance(spark_type, T.DecimalType):
        return pa.decimal128(spark_type.precision, spark_type.scale)
    if isinstance(spark_type, T.ArrayType):
        return pa.list_(pa.field("element", to_arrow(spark_type.elementType, where), spark_type.containsNull))
    if isinstance(spark_type, T.MapType):
        return pa.map_(to_arrow(spark_type.keyType, where), to_arrow(spark_type.valueType, where))
    if isinstance(spark_type, T.StructType):
        return pa.struct([pa.field(f.name, to_arrow(f.dataType, where), f.nullable) for f in spark_type.fields])
    for known, arrow in _ATOMIC:
        if isinstance(spark_type, known):
            return arrow
    name = spark_type.simpleString()
    raise InvalidPlanError(f"{where} has the type {name}, which panestream does not support: cast it, e.g. to string")


def sql_name(arrow_type: pa.DataType) -> str:
    """Return the type's name in Spark's SQL, for errors.

    >>> sql_name(pa.int64()), sql_name(pa.list_(pa.string()))
    ('bigint', 'array<string>')
    """
    return to_spark(arrow_type).simpleString()


def to_spark(arrow_type: pa.DataType) -> T.DataType:
    """Return the Spark type of an Arrow type that :func:`to_arrow` or an aggregate returns."""
    if pa.types.is_decimal(arrow_type):
        return T.DecimalType(arrow_type.precision, arrow_type.scale)
    if pa.types.is_map(arrow_type):
        return T.MapType(to_spark(arrow_type.key_type), to_spark(arrow_type.item_type))
    if pa.types.is_list(arrow_type):
        return T.ArrayType(to_spark(arrow_type.value_type))
    if pa.types.is_struct(arrow_type):
        return T.StructType([T.StructField(f.name, to_spark(f.type), f.nullable) for f in arrow_type])
    if pa.types.is_timestamp(arrow_type):
        return T.TimestampType() if arrow_type.tz is not None else T.TimestampNTZType()
    for known, arrow in _ATOMIC:
        if arrow == arrow_type:
            return known()
    raise InvalidPlanError(f"no Spark type for {arrow_type}")


def arrow_schema(schema: T.StructType) -> pa.Schema:
    """Return the Arrow schema of a DataFrame's columns."""
    return pa.schema([pa.field(f.name, to_arrow(f.dataType, f"column {f.name!r}"), f.nullable) for f in schema.fields])


def schema_of(spark: SparkSession, schema: str | T.StructType) -> pa.Schema:
    """Return the Arrow schema of columns that a user declared, as DDL or as Spark's type.

    Raises:
        InvalidPlanError: it cannot be read or has an unsupported type.
    """
    if isinstance(schema, T.StructType):
        return _declared(schema)
    if not isinstance(schema, str) or not schema.strip():
        raise InvalidPlanError(f"a schema is written like 'n bigint, label string', got {schema!r}")
    try:
        with silence_analysis_errors():
            # Spark cannot create a DataFrame with char and varchar, which are strings outside of tables.
            declared = spark.createDataFrame([], _PADDED.sub("string", schema)).schema
    except (ParseException, AnalysisException) as error:
        reason = str(error).strip().splitlines()[0]
        refused = InvalidPlanError(f"the schema {schema!r} cannot be read; write it like 'n bigint, label string' ({reason})")
        raise_as(refused, error)
    return _declared(declared)


def _declared(schema: T.StructType) -> pa.Schema:
    """Return the Arrow schema of declared columns. Results are plain strings, so a collation is refused."""
    for field in schema.fields:
        if collation_of(field.dataType) is not None:
            raise InvalidPlanError(
                f"the column {field.name!r} of the schema is a {field.dataType.simpleString()}, results are plain strings: "
                "declare it as string, and collate the result's column"
            )
    return arrow_schema(schema)


def spark_schema(schema: pa.Schema) -> T.StructType:
    """Return the DataFrame schema of an Arrow schema."""
    return T.StructType([T.StructField(f.name, to_spark(f.type), f.nullable) for f in schema])
