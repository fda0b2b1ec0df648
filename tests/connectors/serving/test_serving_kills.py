"""PostgreSQL and Redis lose and repeat no row after ``kill -9`` of the job, between the store's commit and Spark's and at random.

A paused copy of a query cannot write once another copy runs. `make crash` kills more kinds of queries into both stores.
"""

from __future__ import annotations

import json
import os
import signal

import pytest

from tests.connectors.kills import compare, end_of, start, start_job, target_named, write_clicks
from tests.recovery.crashes.victims import wait_until

pytestmark = pytest.mark.connectors

TARGETS = "tests.connectors.serving.serving_targets"


def test_killed_upserts_leave_undisturbed_rows(spark, tmp_path, postgres, redis_server, monkeypatch):
    monkeypatch.setenv("SERVING_DSN", postgres.address)
    monkeypatch.setenv("SERVING_URL", redis_server.address)
    compare(spark, tmp_path, {f"{TARGETS}:POSTGRES": ["main"], f"{TARGETS}:REDIS": ["main"]})


@pytest.mark.parametrize("store", ["POSTGRES", "REDIS"])
def test_copy_that_was_paused_before_the_store_changed_is_fenced(store, spark, tmp_path, postgres, redis_server, monkeypatch):
    """Only a Spark query in another process can be stopped between the last check of its run and the change of the store."""
    copies, undisturbed, marker = tmp_path / f"copies_{store.lower()}", tmp_path / f"alone_{store.lower()}", tmp_path / "pause"
    for name, value in (("SERVING_DSN", postgres.address), ("SERVING_URL", redis_server.address), ("SERVING_PAUSE", marker)):
        monkeypatch.setenv(name, str(value))
    name = f"{TARGETS}:PAUSED_{store}"
    for folder in (copies, undisturbed):
        write_clicks(folder / "clicks")
    start(spark, name, undisturbed).await_termination()
    jars = spark.sparkContext.getConf().get("spark.jars", "") or ""
    (copies / "plan.json").write_text(json.dumps({"targets": [name], "kills": [], "jars": jars}))
    marker.touch()
    older = start_job(copies)
    assert wait_until(lambda: not marker.exists() or older.poll() is not None, 300)
    assert older.poll() is None, (copies / "job.log").read_text()[-3000:]
    assert end_of(start_job(copies)) == 0
    rows = sorted(target_named(name).read(spark, copies))
    assert rows == sorted(target_named(name).read(spark, undisturbed)) != []
    os.killpg(older.pid, signal.SIGCONT)
    assert end_of(older) == 1
    assert "FencedError" in (copies / "job.log").read_text()
    assert sorted(target_named(name).read(spark, copies)) == rows
