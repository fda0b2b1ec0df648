"""docs/reference/metrics.md, the dashboard and the alerts name existing metrics, and all of them."""

import importlib.util
import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

import panestream as pst
from panestream.metrics.table import ALL

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "reference" / "metrics.md").read_text("utf-8")
SERIES = {metric.shown: metric for metric in ALL}
LEFT_OUT = {
    "panestream_partition_watermark_timestamp_seconds": "the lags say the same, in numbers that people can read",
}
"""Metrics that the dashboard does not show, with the reason."""


def names(query):
    return set(re.findall(r"\bpanestream_\w+", query))


def unknown(query):
    """Return the errors in a query: unknown metrics and labels."""
    wrong = sorted(names(query) - set(SERIES))
    for name, inside in re.findall(r"\b(panestream_\w+)\{([^}]*)\}", query):
        used = set(re.findall(r"(\w+)\s*(?:=|!)", inside))
        wrong += sorted(f"{name}: {label}" for label in used - set(SERIES[name].all_labels) if name in SERIES)
    # A counter only grows, so a query shows its rate or its increase.
    counters = [name for name in names(query) if name in SERIES and SERIES[name].kind == "counter"]
    return wrong + [name for name in counters if not re.search(rf"(?:rate|increase)\({name}\b", query)]


def dashboard_queries():
    board = json.loads(pst.metrics.GRAFANA_DASHBOARD.read_text("utf-8"))
    panels = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
    variables = [each["query"]["query"] for each in board["templating"]["list"] if each["type"] == "query"]
    assert len(panels) > 25
    return panels + variables


def rules():
    groups = yaml.safe_load(pst.metrics.PROMETHEUS_RULES.read_text("utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


@pytest.mark.parametrize("query", [*dashboard_queries(), *(rule["expr"] for rule in rules())])
def test_query_names_existing_metrics_and_labels(query):
    assert names(query)
    assert not unknown(query)
    for opened, closed in ("()", "[]", "{}"):
        assert query.count(opened) == query.count(closed)


def test_every_metric_is_on_the_dashboard_or_excluded_with_a_reason():
    shown = {name for query in dashboard_queries() for name in names(query)}
    assert set(SERIES) - shown == set(LEFT_OUT)


def test_panels_of_the_dashboard_do_not_overlap():
    places = [
        (panel["gridPos"]["x"] + x, panel["gridPos"]["y"] + y)
        for panel in json.loads(pst.metrics.GRAFANA_DASHBOARD.read_text("utf-8"))["panels"]
        for x in range(panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["h"])
    ]
    assert len(places) == len(set(places))
    assert max(x for x, _ in places) == 23


def test_alerts_cover_watermark_late_rows_drops_and_state():
    named = {rule["alert"] for rule in rules()}
    assert {f"Panestream{what}" for what in ("WatermarkStalls", "LateRows", "DroppedRows", "StateGrows")} <= named
    for rule in rules():
        assert set(rule) >= {"alert", "expr", "labels", "annotations"}
        assert set(rule["annotations"]) == {"summary", "description"}
        for name in re.findall(r"panestream_\w+", rule["annotations"]["description"]):
            assert name in SERIES


@pytest.mark.parametrize(
    ("query", "wrong"),
    [
        ("rate(panestream_row_total[5m])", ["panestream_row_total"]),
        ('panestream_state_bytes{group="3"}', ["panestream_state_bytes: group"]),
        ("panestream_rows_total", ["panestream_rows_total"]),
        ('rate(panestream_firings_total{firing="late"}[5m]) > panestream_open_windows', []),
    ],
)
def test_wrong_query_is_reported(query, wrong):
    assert unknown(query) == wrong


def test_page_of_metrics_is_up_to_date():
    spec = importlib.util.spec_from_file_location("make_metrics_table", ROOT / "scripts" / "make_metrics_table.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.renewed(PAGE) == PAGE, "run `make metrics-table`"
    assert set(re.findall(r"^\| `(panestream_\w+)` \|", PAGE, re.MULTILINE)) == set(SERIES)
    assert names(PAGE) <= set(SERIES), "a metric that the page speaks of is not there"


def test_python_examples_of_the_page_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    added = []
    found = {"spark": SimpleNamespace(streams=SimpleNamespace(addListener=added.append))}
    blocks = re.findall(r"```python(?: fragment)?\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 4
    for block in blocks:
        exec(re.sub(r"port=\d+", "port=0", block), found)
    assert [type(listener).__name__ for listener in added] == ["PrometheusMetrics", "OpenTelemetryMetrics", "JsonLinesMetrics"]
    assert (tmp_path / "grafana-dashboard.json").exists()
    for name in ("metrics", "metrics_of_pod"):
        found[name].close()
