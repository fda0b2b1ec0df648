"""Metrics as observable OpenTelemetry instruments, for the reader or exporter that the user has chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from panestream.metrics.table import ALL, Metric
from panestream.metrics.totals import TotalsListener

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider


class OpenTelemetryMetrics(TotalsListener):
    """A listener with metrics for OpenTelemetry: all metrics of docs/reference/metrics.md, without ``_total`` in their names.

    ``spark.streams.addListener(OpenTelemetryMetrics(provider))`` adds it. The provider decides how often and where to export.
    Everything else is as for :class:`PrometheusMetrics`.

    Args:
        provider: creates the meter. None uses the provider of the process (``opentelemetry.metrics.set_meter_provider``).
        most_partitions: maximum number of series for source partitions of a query, the ones furthest behind.
        most_ended: maximum number of ended queries that keep their counters, the most recent ones.

    Raises:
        ModuleNotFoundError: if opentelemetry-api is missing.

    Examples:
        >>> metrics = pst.metrics.OpenTelemetryMetrics()
        >>> spark.streams.addListener(metrics)
        >>> spark.streams.removeListener(metrics)
    """

    def __init__(self, provider: MeterProvider | None = None, *, most_partitions: int = 100, most_ended: int = 100) -> None:
        super().__init__(most_partitions, most_ended)
        try:
            from opentelemetry import metrics
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "OpenTelemetryMetrics needs opentelemetry-api: pip install 'panestream[otel]'", name="opentelemetry"
            ) from error
        self._observation: Any = metrics.Observation
        meter = (metrics.get_meter_provider() if provider is None else provider).get_meter("panestream")
        for metric in ALL:
            create = meter.create_observable_counter if metric.kind == "counter" else meter.create_observable_gauge
            create(metric.name, callbacks=[self._reader(metric)], unit=_UNITS[metric.unit], description=metric.text)

    def _reader(self, metric: Metric) -> Callable[[Any], Iterable[Any]]:
        def read(_: Any) -> Iterable[Any]:
            values = next(values for one, values in self.readings() if one is metric)
            return [self._observation(value, dict(zip(metric.all_labels, own, strict=True))) for own, value in values.items()]

        return read


_UNITS = {"": "1", "seconds": "s", "bytes": "By", "ratio": "1"}
