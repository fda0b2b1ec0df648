"""Records that a KafkaSink makes of rows, without a broker, including names that rows of users may also have."""

import io
import json
from contextlib import redirect_stdout

import pytest
from pyspark.sql import functions as F

import panestream as pst
from panestream.spark.sinks.base import QueryRunInfo

NAMES = ("__at", "at", "place", "key", "value", "firing", "nth", "id", "op", "firing_number")


pytestmark = pytest.mark.spark


def made(spark, rows, schema, added=frozenset(), output="main", keys=("user",), **given):
    """Return values and ids of the records."""
    sink = pst.KafkaSink("localhost:9092", "t", list(keys), run=QueryRunInfo("q", output, added=added), **given)
    records = sink.records(spark.createDataFrame(rows, schema).coalesce(1), 3).collect()
    values = [None if row.value is None else json.loads(row.value) for row in records]
    return values, [bytes(row.headers[0].value) for row in records]


def test_columns_of_any_name_are_written_as_they_are(spark):
    schema = "user BIGINT, " + ", ".join(f"{name} STRING" for name in NAMES)
    rows = [(user, *(f"{name} {user}" for name in NAMES)) for user in range(3)]
    for output, compacted in (("main", False), ("main", True), ("late", False), ("late", True)):
        values, ids = made(spark, rows, schema, output=output, compacted=compacted)
        assert sorted(tuple(value.values()) for value in values) == rows
        assert len(set(ids)) == 3


def test_result_named_op_is_not_read_as_a_change(spark):
    rows = [(1, "delete"), (2, "update_before"), (3, None)]
    values, _ = made(spark, rows, "user BIGINT, op STRING", compacted=True)
    assert sorted(tuple(value.values()) for value in values) == rows
    values, _ = made(spark, rows[:2], "user BIGINT, op STRING", added=frozenset({"op"}), compacted=True)
    assert values == [None]


def test_retracted_firing_is_another_record(spark):
    schema, added = "user BIGINT, n BIGINT, firing_number INT, op STRING", frozenset({"firing_number", "op"})
    rows = [(1, 4, 0, "insert"), (1, 4, 0, "update_before"), (1, 5, 1, "update_after"), (1, 5, 1, "delete")]
    _, ids = made(spark, rows, schema, added)
    assert len(set(ids)) == 4
    # In any micro-batches.
    assert ids == [id_ for row in rows for id_ in made(spark, [row], schema, added)[1]]


def test_records_of_a_key_keep_the_order_of_emission(spark):
    schema, added = "user BIGINT, n BIGINT, firing_number INT, op STRING", frozenset({"firing_number", "op"})
    rows = [(1, 4, 0, "insert"), (1, 4, 0, "delete"), *((1, n, n, "update_after") for n in range(1, 12))]
    values, _ = made(spark, rows, schema, added)
    assert [tuple(value.values()) for value in values] == rows


def test_records_of_a_key_have_the_same_order_and_ids_from_any_partitions(spark):
    """Rows of a key in many partitions are moved to one task. A single partition is not moved."""
    schema, added = "user BIGINT, n BIGINT, firing_number INT", frozenset({"firing_number"})
    rows = [(user, n, n % 2) for n in range(6) for user in range(20)]
    sink = pst.KafkaSink("localhost:9092", "t", ["user"], run=QueryRunInfo("q", "main", added=added))
    together = spark.createDataFrame(rows, schema).coalesce(1)
    adaptive = spark.conf.get("spark.sql.adaptive.enabled")
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    try:
        alone = sink.records(together, 3)
        spread = sink.records(together.repartition(7, "n"), 3).withColumn("task", F.spark_partition_id()).collect()
        assert "Exchange" not in explained(alone)
        assert "Exchange" in explained(sink.records(together.repartition(7, "n"), 3))
    finally:
        spark.conf.set("spark.sql.adaptive.enabled", adaptive)
    tasks = {}
    for row in spread:
        tasks.setdefault(row.key, set()).add(row.task)
    assert len(tasks) == 20
    assert all(len(each) == 1 for each in tasks.values())
    assert len({row.task for row in spread}) > 1
    ids = {(row.value, bytes(row.headers[0].value)) for row in alone.collect()}
    assert len(ids) == len(rows)
    assert len({id_ for _, id_ in ids}) == len(rows)
    assert {bytes(row.headers[0].value) for row in spread} == {id_ for _, id_ in ids}


def explained(df):
    with redirect_stdout(io.StringIO()) as said:
        df.explain()
    return said.getvalue()
