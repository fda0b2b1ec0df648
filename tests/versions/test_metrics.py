"""Metrics of queries from ``start()`` and ``.main`` on the installed Spark, in a classic session and through Spark Connect."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pyspark
import pytest

from tests.processes import ANY_PORT, ran

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:.*late row:panestream.errors.PanestreamWarning"),
]

needed = [name for name in ("prometheus_client",) if importlib.util.find_spec(name) is None]
for_connect = [name for name in ("pandas", "grpc", "grpc_status", "zstandard") if importlib.util.find_spec(name) is None]


def check(found):
    counted = {"rows": 6, "windowed_rows": 4, "late_rows": 1, "invalid_rows": 1, "outside_rows": 0, "dropped_rows": 1}
    assert found["scraped"] == {name: {**counted, "micro_batches": 3} for name in ("started", "from_main")}
    told = [[2, 2], [2, 1], [2, 1]]
    assert sorted(found["lines"]) == sorted([name, *one] for name in ("started", "from_main") for one in told)


@pytest.mark.skipif(bool(needed), reason="metrics need prometheus-client: panestream[metrics]")
def test_metrics_of_a_classic_session_count_every_row(spark, tmp_path):
    from tests.versions import told

    check(told.run(spark, tmp_path))


@pytest.mark.skipif(bool(needed + for_connect), reason=f"Spark Connect's client needs {needed + for_connect}")
@pytest.mark.skipif(pyspark.__version__.startswith("4.0."), reason="Spark 4.0 has no streams through Connect")
def test_metrics_through_spark_connect_count_every_row(tmp_path):
    ran(Path(__file__).with_name("told.py"), tmp_path, **ANY_PORT)
    found = json.loads((tmp_path / "found.json").read_text("utf-8"))
    assert "connect" in found["session"]
    check(found)
