"""The Python and the sections of job files in docs/how-to/serving.md run against real servers, and lookups return their values."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "how-to" / "serving.md").read_text("utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
SINKS = re.findall(r"```toml fragment\n(.*?)```", PAGE, re.DOTALL)
JOB = """
key = "card"
checkpoint = "{format}-checkpoint"
changelog = true
[source]
format = "json"
path = "payments"
schema = "card STRING, ts TIMESTAMP, amount INT"
[event_time]
column = "ts"
[watermark]
delay = "10 seconds"
[window]
type = "rolling"
lengths = {{ 1h = "1 hour", 24h = "24 hours" }}
step = "1 minute"
[aggregate]
spent = "sum(amount)"
"""

pytestmark = pytest.mark.connectors


@pytest.fixture(autouse=True)
def payments(tmp_path):
    (tmp_path / "payments").mkdir()
    times = [("ann", "09:00:10", 20), ("ann", "09:40:00", 5), ("bob", "09:41:30", 7), ("cid", "12:00:00", 1)]
    lines = [json.dumps({"card": card, "ts": f"2026-03-02T{at}Z", "amount": amount}) for card, at, amount in times]
    (tmp_path / "payments" / "0.json").write_text("\n".join(lines))


def test_sections_of_the_serving_page_run_as_job_files(spark, postgres, redis_server, tmp_path):
    from panestream.jobs.loading import load_job
    from panestream.jobs.runner import SessionRunner

    assert len(SINKS) == 2
    for section in SINKS:
        found = section.replace("host=db dbname=shop user=etl", postgres.address).replace(
            "redis://cache:6379/0", redis_server.address
        )
        path = tmp_path / "job.toml"
        path.write_text(
            JOB.format(format=re.search('format = "(.*)"', section)[1]) + found.replace('"spending"', '"spent_by_job"')
        )
        loaded = load_job(path)
        SessionRunner(loaded, spark).start(lambda progress: None).await_termination()
        assert loaded.job.sinks.main.recipe(loaded.job.keys).lookup("ann")["spent_24h"] == 25


def test_blocks_of_the_serving_page_run(spark, postgres, redis_server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    known = {"spark": spark}
    assert len(BLOCKS) == 2
    for block in BLOCKS:
        code = block.replace("host=localhost port=5432", f"host=127.0.0.1 port={postgres.port}")
        code = code.replace("redis://localhost:6379/0", redis_server.address).replace(
            '.json("payments")', f'.json("{tmp_path}/payments")'
        )
        exec(code.replace('"checkpoint-', f'"{tmp_path}/checkpoint-'), known)
    table, cache = known["table"], known["cache"]
    assert [(row["spent_1h"], row["spent_24h"]) for row in (table.lookup("ann"), cache.lookup("ann"))] == [(None, 25), (None, 25)]
    assert table.lookup("nobody") is None
    assert cache.lookup("nobody") is None
    with redis_server.client() as client:
        assert json.loads(client.get("spending:bob"))["spent_24h"] == 7
