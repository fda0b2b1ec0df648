"""Shared fixtures of the Iceberg tests."""

from __future__ import annotations

import uuid

import pytest

from panestream.spark.session import session_settings


@pytest.fixture(autouse=True)
def _few_partitions(spark):
    with session_settings(spark, {"spark.sql.shuffle.partitions": "2"}):
        yield


@pytest.fixture
def table(spark):
    """The name of a table that does not exist yet."""
    name = f"ice.db.t_{uuid.uuid4().hex}"
    yield name
    spark.sql(f"DROP TABLE IF EXISTS {name}")
