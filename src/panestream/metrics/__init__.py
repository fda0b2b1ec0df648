"""What running queries did, as others scrape or read it: Prometheus, OpenTelemetry, lines of JSON. ``pst.metrics``."""

from pathlib import Path

from panestream.metrics.json_lines import JsonLinesMetrics
from panestream.metrics.open_telemetry import OpenTelemetryMetrics
from panestream.metrics.prometheus import PrometheusMetrics

GRAFANA_DASHBOARD = Path(__file__).with_name("grafana-dashboard.json")
"""A dashboard for Grafana, to be imported there."""
PROMETHEUS_RULES = Path(__file__).with_name("prometheus-rules.yml")
"""Alerts for Prometheus, as a file of rules."""

__all__ = ["GRAFANA_DASHBOARD", "PROMETHEUS_RULES", "JsonLinesMetrics", "OpenTelemetryMetrics", "PrometheusMetrics"]


def __dir__() -> list[str]:
    return sorted(__all__)
