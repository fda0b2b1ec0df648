"""``pst.metrics``: metrics of running queries for Prometheus, OpenTelemetry, and JSON lines.

>>> import panestream as pst
>>> pst.metrics.PROMETHEUS_RULES.name
'prometheus-rules.yml'
"""

from pathlib import Path

from panestream.metrics.json_lines import JsonLinesMetrics
from panestream.metrics.open_telemetry import OpenTelemetryMetrics
from panestream.metrics.prometheus import PrometheusMetrics

GRAFANA_DASHBOARD = Path(__file__).with_name("grafana-dashboard.json")
"""A Grafana dashboard to import."""
PROMETHEUS_RULES = Path(__file__).with_name("prometheus-rules.yml")
"""A file of Prometheus alerting rules."""

__all__ = ["GRAFANA_DASHBOARD", "PROMETHEUS_RULES", "JsonLinesMetrics", "OpenTelemetryMetrics", "PrometheusMetrics"]


def __dir__() -> list[str]:
    return sorted(__all__)
