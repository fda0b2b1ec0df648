"""Conversion of types between Spark and Arrow in both directions, at any nesting. Types are plain objects, without Java."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import types as T

from panestream.errors import InvalidPlanError
from panestream.spark.types import arrow_schema, spark_schema, to_arrow, to_spark

BOTH_WAYS = [
    (T.BooleanType(), pa.bool_()),
    (T.ByteType(), pa.int8()),
    (T.ShortType(), pa.int16()),
    (T.IntegerType(), pa.int32()),
    (T.LongType(), pa.int64()),
    (T.FloatType(), pa.float32()),
    (T.DoubleType(), pa.float64()),
    (T.StringType(), pa.string()),
    (T.BinaryType(), pa.binary()),
    (T.DateType(), pa.date32()),
    (T.TimestampType(), pa.timestamp("us", tz="UTC")),
    (T.TimestampNTZType(), pa.timestamp("us")),
    (T.DayTimeIntervalType(), pa.duration("us")),
    (T.NullType(), pa.null()),
    (T.DecimalType(20, 3), pa.decimal128(20, 3)),
    (T.ArrayType(T.TimestampType()), pa.list_(pa.field("element", pa.timestamp("us", tz="UTC")))),
    (T.MapType(T.StringType(), T.DecimalType(5, 2)), pa.map_(pa.string(), pa.decimal128(5, 2))),
    (
        T.StructType([T.StructField("a", T.LongType(), False), T.StructField("b", T.TimestampNTZType())]),
        pa.struct([pa.field("a", pa.int64(), nullable=False), pa.field("b", pa.timestamp("us"))]),
    ),
]


@pytest.mark.parametrize(
    ("of_spark", "arrow"), BOTH_WAYS, ids=lambda each: str(each)[:20] if isinstance(each, pa.DataType) else ""
)
def test_type_survives_conversion_to_arrow_and_back(of_spark, arrow):
    assert to_arrow(of_spark, "it") == arrow
    assert to_spark(arrow) == of_spark


def test_schema_keeps_names_and_nullability():
    schema = T.StructType([T.StructField("a", T.LongType(), False), T.StructField("b", T.StringType(), True)])
    assert spark_schema(arrow_schema(schema)) == schema
    assert [field.nullable for field in arrow_schema(schema)] == [False, True]


def test_nullability_of_elements_is_kept_in_arrow():
    of_spark = T.ArrayType(T.LongType(), containsNull=False)
    assert not to_arrow(of_spark, "it").value_field.nullable


def test_type_without_a_counterpart_is_refused_by_name():
    for kind in (T.YearMonthIntervalType(), T.VariantType()):
        with pytest.raises(
            InvalidPlanError, match=r"column 'x' has the type .*, which panestream does not support: cast it"
        ) as said:
            to_arrow(kind, "column 'x'")
        assert kind.simpleString() in str(said.value)
    with pytest.raises(InvalidPlanError, match=r"no Spark type for timestamp\[ns\]|no Spark type for time64"):
        to_spark(pa.time64("us"))
