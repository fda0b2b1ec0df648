"""The endpoint of a running job, scraped over HTTP, on classic Spark and through Spark Connect, with a restart."""

import importlib.util
import json

import pytest

from panestream.errors import PanestreamWarning
from tests.metrics import scraped
from tests.processes import ANY_PORT, ran

TAKES = ("duration_ms", "rows_per_second", "stages")


def counts(progress):
    """Return the counts, which do not depend on duration or machine."""
    partitions = [list(each.values()) if isinstance(each, dict) else each for each in progress["partitions"]]
    return {**{name: value for name, value in progress.items() if name not in TAKES}, "partitions": partitions}


def check(found):
    """Compare with the expected numbers. Endpoint and progress must agree."""
    first, second = found["running"]
    assert (first["panestream_query_active"], second["panestream_query_active"]) == (1, 1)
    assert (first["panestream_windowed_rows_total"], first["panestream_invalid_rows_total"]) == (3, 1)
    assert (second["panestream_late_rows_total"], second["panestream_outside_rows_total"]) == (1, 1)
    # The watermarks of the partitions and of the query, the smaller one, are in 1970.
    assert second["panestream_partition_event_lag_seconds a"] == pytest.approx(67 - 55, abs=1e-3)
    assert second["panestream_partition_event_lag_seconds b"] == pytest.approx(67 - 62, abs=1e-3)
    assert second["panestream_watermark_event_lag_seconds"] == pytest.approx(67 - 55, abs=1e-3)
    assert second["panestream_stage_seconds_total addBatch"] > 0
    assert "panestream_watermark_event_lag_seconds" not in found["stopped"]
    ended = {name.removeprefix("panestream_").removesuffix("_rows_total"): value for name, value in found["ended"].items()}
    assert [ended[kind] for kind in ("windowed", "late", "dropped", "invalid", "outside")] == [7, 2, 2, 1, 1]
    assert ended["rows_total"] == 11
    assert (ended["output_rows_total main"], ended["output_rows_total invalid"]) == (5, 1)
    assert (ended["micro_batches_total"], ended["listener_errors_total"], ended["query_failures_total"]) == (3, 0, 0)
    told = [counts(step) for step in found["told"]]
    assert [step["batch_id"] for step in told] == [0, 1, 2]
    assert told[2:] == [counts(step) for step in found["recent"]]
    lines = [{name: value for name, value in line.items() if name in found["told"][0]} for line in found["lines"]]
    assert [counts(line) for line in lines] == told


@pytest.mark.spark
def test_running_job_can_be_scraped(spark, tmp_path):
    with pytest.warns(PanestreamWarning, match="late row"):
        found = scraped.run(spark, tmp_path)
    check(json.loads(json.dumps(found)))


@pytest.mark.spark
def test_running_job_can_be_scraped_through_spark_connect(tmp_path):
    for needed in ("pandas", "grpc", "grpc_status", "zstandard"):
        if importlib.util.find_spec(needed) is None:
            pytest.skip(f"Spark Connect's client needs {needed}: install panestream[connect]")
    ran(scraped.__file__, tmp_path, **ANY_PORT)
    found = json.loads((tmp_path / "found.json").read_text())
    assert "connect" in found["session"]
    check(found)
    assert "on_progress failed in micro-batch 0" in found["refused"]
    assert "ValueError: no more of 4" in found["refused"]
