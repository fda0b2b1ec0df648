"""PostgreSQL and Redis lose and repeat no row after ``kill -9`` of the job, between the store's commit and Spark's and at random.

`make crash` kills more kinds of queries into both stores.
"""

from __future__ import annotations

import pytest

from tests.connectors.kills import compare

pytestmark = pytest.mark.connectors

TARGETS = "tests.connectors.serving.serving_targets"


def test_killed_upserts_leave_undisturbed_rows(spark, tmp_path, postgres, redis_server, monkeypatch):
    monkeypatch.setenv("SERVING_DSN", postgres.address)
    monkeypatch.setenv("SERVING_URL", redis_server.address)
    compare(spark, tmp_path, {f"{TARGETS}:POSTGRES": ["main"], f"{TARGETS}:REDIS": ["main"]})
