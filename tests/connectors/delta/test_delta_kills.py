"""Delta tables after ``kill -9``, between a table's commit and Spark's and at random moments: nothing lost, nothing twice."""

from __future__ import annotations

import pytest

from tests.connectors.kills import compare

pytestmark = [pytest.mark.connectors, pytest.mark.delta]


def test_kills_of_merges_and_appends(spark, tmp_path):
    compare(spark, tmp_path, {"tests.connectors.delta.delta_targets:MERGE_AND_APPEND": ["main", "late"]})
