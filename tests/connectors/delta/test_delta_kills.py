"""Delta tables lose and repeat no row after ``kill -9``, between the table's commit and Spark's and at random moments."""

from __future__ import annotations

import pytest

from tests.connectors.kills import compare

pytestmark = [pytest.mark.connectors, pytest.mark.delta]


def test_killed_merges_and_appends_leave_undisturbed_delta_tables(spark, tmp_path):
    compare(spark, tmp_path, {"tests.connectors.delta.delta_targets:MERGE_AND_APPEND": ["main", "late"]})
