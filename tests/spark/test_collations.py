"""Strings with a collation, and schemas that users write, as types without a session."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyspark.errors import ParseException
from pyspark.sql import types as T

from panestream.errors import InvalidPlanError
from panestream.spark.types import check_bytewise, collation_of, schema_of

PLAIN, OTHER = T.StringType(), T.StringType("UNICODE_CI")


def struct_of(*kinds):
    return T.StructType([T.StructField(f"f{place}", kind) for place, kind in enumerate(kinds)])


@pytest.mark.parametrize(
    ("kind", "collation"),
    [
        (PLAIN, None),
        (OTHER, "UNICODE_CI"),
        (T.StringType("UTF8_BINARY"), None),
        (T.VarcharType(3), None),
        (T.LongType(), None),
        (T.ArrayType(PLAIN), None),
        (T.ArrayType(OTHER), "UNICODE_CI"),
        (T.MapType(OTHER, PLAIN), "UNICODE_CI"),
        (T.MapType(PLAIN, OTHER), "UNICODE_CI"),
        (T.MapType(PLAIN, T.LongType()), None),
        (struct_of(), None),
        (struct_of(T.LongType(), PLAIN), None),
        (struct_of(PLAIN, struct_of(T.ArrayType(OTHER)), T.StringType("UTF8_LCASE")), "UNICODE_CI"),
    ],
)
def test_collation_of_a_nested_type_is_the_first_in_it(kind, collation):
    assert collation_of(kind) == collation
    if collation is None:
        assert check_bytewise(kind, "the key", "user") is None
        return
    with pytest.raises(InvalidPlanError) as error:
        check_bytewise(kind, "the key", "user")
    assert str(error.value) == (
        "the key 'user' compares by the collation UNICODE_CI, panestream compares strings as bytes: write 'user COLLATE "
        "UTF8_BINARY', or what makes equal strings equal bytes, e.g. 'lower(user COLLATE UTF8_BINARY)'"
    )


class Session:
    """Parses the DDL texts that it was given."""

    def __init__(self, **known):
        self.known, self.asked = known, []

    def createDataFrame(self, rows, schema):  # noqa: N802 (Spark's name)
        assert rows == []
        self.asked.append(schema)
        if schema not in self.known:
            raise ParseException("[PARSE_SYNTAX_ERROR] at 'x'\nline 1")
        return SimpleNamespace(schema=self.known[schema])


@pytest.mark.parametrize(
    ("written", "asked"),
    [
        ("n bigint, label string", "n bigint, label string"),
        ("n bigint, label VARCHAR (12)", "n bigint, label string"),
        ("n bigint, label char(3)", "n bigint, label string"),
    ],
)
def test_ddl_schema_reads_char_and_varchar_as_strings(written, asked):
    session = Session(
        **{"n bigint, label string": T.StructType().add("n", T.LongType(), nullable=False).add("label", T.StringType())}
    )
    told = schema_of(session, written)
    assert told.equals(pa.schema([pa.field("n", pa.int64(), nullable=False), pa.field("label", pa.string())]))
    assert session.asked == [asked]


def test_schema_may_be_a_type_of_spark():
    assert schema_of(None, struct_of(T.LongType(), T.DateType())).equals(pa.schema([("f0", pa.int64()), ("f1", pa.date32())]))
    with pytest.raises(InvalidPlanError) as error:
        schema_of(None, struct_of(T.LongType(), OTHER))
    assert str(error.value) == (
        "the column 'f1' of the schema is a string collate UNICODE_CI, results are plain strings: declare it as string, and "
        "collate the result's column"
    )


@pytest.mark.parametrize("given", ["", "  ", None, 3, ["n bigint"]])
def test_value_that_is_not_a_schema_is_shown_in_the_error(given):
    with pytest.raises(InvalidPlanError) as error:
        schema_of(Session(), given)
    assert str(error.value) == f"a schema is written like 'n bigint, label string', got {given!r}"


def test_schema_that_spark_cannot_parse_gives_an_error_in_one_line():
    with pytest.raises(InvalidPlanError) as error:
        schema_of(Session(), "n x")
    text = str(error.value)
    assert text.startswith("the schema 'n x' cannot be read; write it like 'n bigint, label string' (")
    assert "[PARSE_SYNTAX_ERROR] at 'x'" in text
    assert "line 1" not in text
