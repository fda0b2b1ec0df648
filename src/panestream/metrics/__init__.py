"""What running queries did, as others scrape or read it: Prometheus, OpenTelemetry, lines of JSON. ``pst.metrics``."""

from panestream.metrics.json_lines import JsonLinesMetrics
from panestream.metrics.open_telemetry import OpenTelemetryMetrics
from panestream.metrics.prometheus import PrometheusMetrics

__all__ = ["JsonLinesMetrics", "OpenTelemetryMetrics", "PrometheusMetrics"]
