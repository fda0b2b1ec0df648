"""The exporters to lines of JSON and to OpenTelemetry give the same numbers."""

import json

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

import panestream as pst
from panestream.metrics.table import ALL
from panestream.spark.progress.micro_batch import BatchProgress
from tests.metrics.told import ID, RUN, progress, terminated


def test_json_exporter_writes_a_complete_line_for_each_micro_batch(tmp_path):
    metrics = pst.metrics.JsonLinesMetrics(tmp_path / "new" / "metrics.jsonl")
    metrics.onQueryProgress(progress())
    moved = metrics.path.rename(tmp_path / "older.jsonl")
    metrics.onQueryProgress(progress(1, name="größe"))
    metrics.onQueryTerminated(terminated())
    (first,), (second,) = ([json.loads(line) for line in path.read_text("utf-8").splitlines()] for path in (moved, metrics.path))
    assert (first["query"], first["id"], first["run_id"]) == ("clicks", ID, RUN)
    assert (second["query"], second["batch_id"]) == ("größe", 1)
    assert set(first) - {"query", "id", "run_id", "timestamp"} == set(BatchProgress.__dataclass_fields__)
    assert first["rows"] == sum(first[f"{kind}_rows"] for kind in ("windowed", "late", "invalid", "outside"))
    assert first["partitions"][1] == {"name": "b", "max_event_time": 7_200_000_000, "watermark": 7_199_999_999, "idle": True}
    assert first["stages"]["addBatch"] == 1500


def test_json_exporter_refuses_an_unwritable_file_at_start(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        pst.metrics.JsonLinesMetrics(tmp_path / "file" / "metrics.jsonl")


def test_json_exporter_counts_write_errors_without_failing_the_query(tmp_path, caplog):
    metrics = pst.metrics.JsonLinesMetrics(tmp_path / "metrics.jsonl")
    metrics.path.unlink()
    metrics.path.mkdir()
    metrics.onQueryProgress(progress())
    assert metrics.errors == 1
    assert "JsonLinesMetrics could not take in an event" in caplog.text


def test_open_telemetry_exports_the_same_numbers():
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    metrics = pst.metrics.OpenTelemetryMetrics(provider)
    metrics.onQueryProgress(progress())
    metrics.onQueryProgress(progress(1))
    (of_resource,) = reader.get_metrics_data().resource_metrics
    (of_scope,) = of_resource.scope_metrics
    found = {each.name: each for each in of_scope.metrics}
    assert set(found) == {metric.name for metric in ALL}
    (rows,) = found["panestream_rows"].data.data_points
    assert (rows.value, dict(rows.attributes)) == (20, {"query": "clicks"})
    assert found["panestream_rows"].data.is_monotonic
    firings = {point.attributes["firing"]: point.value for point in found["panestream_firings"].data.data_points}
    assert firings == {"early": 0, "on_time": 8, "late": 2}
    assert found["panestream_state_bytes"].unit == "By"
    provider.shutdown()
