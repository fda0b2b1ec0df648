"""Delta tables after ``kill -9``, between the table's commit and Spark's and at random moments: nothing lost, nothing twice."""

from __future__ import annotations

import pytest

from tests.connectors.kills import compare

pytestmark = [pytest.mark.connectors, pytest.mark.delta, pytest.mark.slow]

TARGETS = "tests.connectors.delta_targets"


def test_kills_of_appends_and_merges(spark, tmp_path):
    compare(spark, tmp_path, {f"{TARGETS}:{name}": ["main"] for name in ("APPEND", "MERGE")})
