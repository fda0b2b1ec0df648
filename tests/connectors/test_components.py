"""Each component is installed, and writes and reads something."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.connectors


@pytest.mark.delta
def test_delta_writes_and_reads(spark):
    spark.range(3).write.format("delta").saveAsTable("three")
    assert spark.table("three").count() == 3


@pytest.mark.iceberg
def test_iceberg_writes_and_reads(spark):
    spark.range(3).writeTo("ice.db.three").create()
    assert spark.table("ice.db.three").count() == 3


@pytest.mark.kafka
def test_kafka_source_is_available(spark):
    frame = spark.readStream.format("kafka").option("kafka.bootstrap.servers", "localhost:1").option("subscribe", "clicks").load()
    assert "partition" in frame.columns
