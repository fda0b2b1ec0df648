"""Iceberg tables after ``kill -9``, between the table's commit and Spark's and at random moments: nothing lost, nothing twice."""

from __future__ import annotations

import pytest

from tests.connectors.kills import compare

pytestmark = [pytest.mark.connectors, pytest.mark.iceberg]


def test_kills_of_merges_and_appends(spark, tmp_path):
    compare(spark, tmp_path, {"tests.connectors.iceberg.iceberg_targets:MERGE_AND_APPEND": ["main", "late"]})
