"""Prometheus reads the alerts and the dashboard's queries, and its test runner checks when each alert fires."""

import json
import shutil
import subprocess

import pytest
import yaml

import panestream as pst

PROMTOOL = shutil.which("promtool")

pytestmark = pytest.mark.skipif(PROMTOOL is None, reason="promtool is not on the PATH: apt-get install prometheus")

VARIABLES = {"$__rate_interval": "5m", "$__range": "1h", "$query": ".+"}
"""The values that Grafana inserts into a query before Prometheus gets it."""
LABELS = '{query="clicks", instance="a"}'
STILL, GROWING, HOUR = "100+0x3000", "0+60x3000", 60
"""Series with one value a minute. The first is constant, and the second grows by 60."""

FIRES = {
    "PanestreamWatermarkStalls": (HOUR, {"watermark_timestamp_seconds": STILL, "rows_total": GROWING}),
    "PanestreamWatermarkFarBehind": (HOUR, {"watermark_clock_lag_seconds": "3601+0x3000"}),
    "PanestreamNoMicroBatch": (HOUR, {"micro_batch_timestamp_seconds": "0+0x3000", "query_active": "1+0x3000"}),
    "PanestreamLateRows": (HOUR, {"late_rows_total": "0+6x3000", "rows_total": GROWING}),
    "PanestreamDroppedRows": (HOUR, {"dropped_rows_total": "0+1x3000"}),
    "PanestreamSparkDroppedRows": (HOUR, {"spark_dropped_rows_total": "0+1x3000"}),
    "PanestreamInvalidRows": (HOUR, {"invalid_rows_total": "0+1x3000", "rows_total": GROWING}),
    "PanestreamStateGrows": (30 * HOUR, {"state_bytes": "1000000+1000000x3000"}),
    "PanestreamSkew": (HOUR, {'key_group_skew_ratio{by="time"}': "4+0x3000", "micro_batch_seconds": "11+0x3000"}),
    "PanestreamQueryFailed": (HOUR, {"query_failures_total": "0x50 1x100"}),
    "PanestreamMetricsIncomplete": (HOUR, {"listener_errors_total{}": "0x50 1x100"}),
}
"""By alert: the minutes after which it fires, and its series."""
WELL = {
    "watermark_timestamp_seconds": GROWING,
    "rows_total": GROWING,
    "watermark_clock_lag_seconds": "30+0x3000",
    "micro_batch_timestamp_seconds": "0+60x3000",
    "query_active": "1+0x3000",
    "late_rows_total": "0+1x3000",
    "dropped_rows_total": "0+0x3000",
    "spark_dropped_rows_total": "0+0x3000",
    "invalid_rows_total": "0+0x3000",
    "state_bytes": "2e9+0x3000",
    'key_group_skew_ratio{by="time"}': "1+0x3000",
    "micro_batch_seconds": "11+0x3000",
    "query_failures_total": "0+0x3000",
    "listener_errors_total{}": "0+0x3000",
}
"""The series of a healthy query."""


def promtool(*arguments):
    return subprocess.run([PROMTOOL, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=120)


def write_file(folder, name, content):
    path = folder / name
    path.write_text(yaml.safe_dump(content), "utf-8")
    return path


def rules():
    groups = yaml.safe_load(pst.metrics.PROMETHEUS_RULES.read_text("utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def series(values):
    """Return series with the labels of a query, unless they have others."""
    shown = {}
    for name, told in values.items():
        bare, _, own = name.partition("{")
        inside = f"{own.removesuffix('}')}, " if own.strip("}") else ""
        labels = "" if own == "}" else LABELS.replace("{", "{" + inside)
        shown[f"panestream_{bare}{labels}"] = told
    return [{"series": name, "values": told} for name, told in shown.items()]


def test_alert_rules_are_valid():
    done = promtool("check", "rules", pst.metrics.PROMETHEUS_RULES)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(FIRES)} rules found" in done.stdout


def test_dashboard_queries_are_valid_promql(tmp_path):
    board = json.loads(pst.metrics.GRAFANA_DASHBOARD.read_text("utf-8"))
    queries = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
    for variable, value in VARIABLES.items():
        queries = [query.replace(variable, value) for query in queries]
    assert not [query for query in queries if "$" in query]

    def checked(some):
        groups = [{"name": "dashboard", "rules": [{"record": f"q{number}", "expr": query} for number, query in enumerate(some)]}]
        return promtool("check", "rules", write_file(tmp_path, "queries.yml", {"groups": groups}))

    done = checked(queries)
    assert done.returncode == 0, done.stdout + done.stderr
    # Check that promtool can fail: on an expression with balanced brackets and right names that is not a valid query.
    assert checked([*queries, "rate(panestream_rows_total)"]).returncode != 0


def unexpected(folder, minutes, values, alerts):
    """Run the alerts over series, and expect that none fires."""
    cases = [{"eval_time": f"{minutes}m", "alertname": alert, "exp_alerts": []} for alert in alerts]
    test = {"interval": "1m", "input_series": series(values), "alert_rule_test": cases}
    rule_files = [str(pst.metrics.PROMETHEUS_RULES)]
    return promtool("test", "rules", write_file(folder, "test.yml", {"rule_files": rule_files, "tests": [test]}))


@pytest.mark.parametrize("alert", FIRES)
def test_alert_fires_on_its_condition(tmp_path, alert):
    done = unexpected(tmp_path, *FIRES[alert], [alert])
    said = done.stdout + done.stderr
    # The runner prints the alert with its expanded texts.
    assert done.returncode == 1, f"{alert} does not fire:\n{said}"
    assert f'alertname="{alert}"' in said
    assert "<error" not in said


def test_no_alert_fires_for_a_healthy_query(tmp_path):
    assert {rule["alert"] for rule in rules()} == set(FIRES)
    done = unexpected(tmp_path, HOUR, WELL, FIRES)
    assert done.returncode == 0, done.stdout + done.stderr
