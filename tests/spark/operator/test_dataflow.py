"""The columns that rows are sent with, and where the key group finds them. Spark only analyses the plan."""

from dataclasses import replace

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from panestream.engine.exchange.packing import PackColumns
from panestream.spark.operator.dataflow import project
from panestream.windowing.watermarks import WatermarkStrategy
from tests.engine.exchange.test_exchange import plan as plan_of

pytestmark = pytest.mark.spark

COLUMNS = "key bigint, value bigint, name string, at bigint, part int"
KEYS, VALUES = ("key",), ("name", "value")


def projected(spark, tmp_path, *, stream, groups=3, order=("part", "at"), values=VALUES):
    folder = str(tmp_path / "rows")
    spark.createDataFrame([], COLUMNS).write.parquet(folder)
    df = (spark.readStream if stream else spark.read).schema(COLUMNS).parquet(folder)
    columns = [[F.col(name) for name in names] for names in (KEYS, values, order)]
    return df, project(df, plan_of(groups), F.col("at"), *columns[:2], order=columns[2])


@pytest.mark.parametrize("groups", [1, 3])
def test_stream_sends_the_columns_of_its_arrival_order(spark, tmp_path, groups):
    df, found = projected(spark, tmp_path, stream=True, groups=groups)
    group = ["group"] if groups > 1 else []
    names = ["time", "key_0", "value_0", "value_1", *group, "row", "order_0", "order_1"]
    places = {name: names.index(name) for name in (*group, "row")}
    order = (len(names) - 2, len(names) - 1)
    assert found.schema.names == found.rows_of(df).columns == names
    assert found.pack == PackColumns((pa.int64(),), (pa.string(), pa.int64()), **places, order=order)
    assert (found.arrival, found.groups, found.streaming) == ((), groups, True)


def test_batch_is_sorted_first_and_does_not_send_its_arrival_order(spark, tmp_path):
    df, found = projected(spark, tmp_path, stream=False)
    assert found.rows_of(df).columns == ["time", "key_0", "value_0", "value_1", "group", "row"]
    assert found.pack == PackColumns((pa.int64(),), (pa.string(), pa.int64()), group=4, row=5, never_late=True)
    assert (found.arrival, found.streaming) == (("order_0", "order_1"), False)


@pytest.mark.parametrize("stream", [False, True])
def test_query_without_arrival_order_sends_no_order_columns(spark, tmp_path, stream):
    df, found = projected(spark, tmp_path, stream=stream, order=(), values=())
    assert found.rows_of(df).columns == ["time", "key_0", "group", "row"]
    assert found.pack == PackColumns((pa.int64(),), (), group=2, row=3, never_late=not stream)


@pytest.mark.parametrize(("strategy", "sent"), [(WatermarkStrategy(0), False), (WatermarkStrategy(0).max_ahead("1 hour"), True)])
def test_processing_time_is_sent_if_only_the_watermark_needs_it(spark, strategy, sent):
    df = spark.createDataFrame([], COLUMNS)
    recipe = replace(plan_of(1), watermark=strategy)
    assert not recipe.operator.capabilities.shows_processing_time
    found = project(df, recipe, F.col("at"), [F.col("key")], [])
    assert found.schema.names == ["time", "key_0", "row", *(["processing_time"] if sent else [])]
    assert found.pack == PackColumns((pa.int64(),), (), row=2, never_late=True, **({"processing_time": 3} if sent else {}))
