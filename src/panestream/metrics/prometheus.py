"""Metrics for Prometheus, as an HTTP endpoint or as collectors in an existing registry."""

from __future__ import annotations

from collections.abc import Iterator
from errno import EADDRINUSE
from typing import TYPE_CHECKING, Any

from panestream.metrics.totals import TotalsListener

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric as Family
    from prometheus_client.registry import CollectorRegistry
    from typing_extensions import Self


class PrometheusMetrics(TotalsListener):
    """A listener with metrics for Prometheus to scrape: all metrics of docs/reference/metrics.md.

    Add it before queries start, with ``spark.streams.addListener(metrics)``, in classic Spark or through Spark Connect (where the
    client has the numbers and the endpoint). The label ``query`` is the name given to ``start``, or the query's id. Counters
    continue when a query is restarted in the same process. Gauges disappear when a query ends. An error never fails a query, but
    is logged and counted in ``panestream_listener_errors_total``.

    Args:
        port: of an HTTP endpoint ``/metrics``, 0 for any free port (see :attr:`url`), or None if others serve the registry.
        address: the address to listen on. ``"127.0.0.1"`` is this machine only, and ``"0.0.0.0"`` is all addresses.
        registry: where to register. None creates a registry or, without a port, uses the default one of prometheus-client.
        most_partitions: maximum number of series for source partitions of a query, the ones furthest behind.
        most_ended: maximum number of ended queries that keep their counters, the most recent ones.

    Raises:
        ModuleNotFoundError: if prometheus-client is missing.
        OSError: if the port is taken, or the address does not belong to this machine.
        ValueError: if the registry already contains such metrics. Close the others first.

    >>> import urllib.request
    >>> with PrometheusMetrics(port=0) as metrics:
    ...     # spark.streams.addListener(metrics)
    ...     scraped = urllib.request.urlopen(metrics.url).read().decode()
    >>> "panestream_listener_errors_total 0.0" in scraped
    True
    """

    def __init__(
        self,
        port: int | None = None,
        *,
        address: str = "127.0.0.1",
        registry: CollectorRegistry | None = None,
        most_partitions: int = 100,
        most_ended: int = 100,
    ) -> None:
        super().__init__(most_partitions, most_ended)
        client = _prometheus_client()
        if registry is None:
            registry = client.REGISTRY if port is None else client.CollectorRegistry()
        self.registry: CollectorRegistry = registry
        """The registry with the metrics."""
        self._families: Any = client.core
        self._address = address
        self._server: Any = None
        self.registry.register(self)
        if port is not None:
            try:
                self._server, self._thread = client.start_http_server(port, address, self.registry)
            except BaseException as error:
                self.registry.unregister(self)
                if isinstance(error, OSError):
                    raise OSError(error.errno, _cannot_listen(port, address, error)) from error
                raise

    @property
    def port(self) -> int | None:
        """The port of the endpoint, or None without an endpoint."""
        return None if self._server is None else int(self._server.server_port)

    @property
    def url(self) -> str | None:
        """The URL to scrape, or None without an endpoint."""
        if self._server is None:
            return None
        host = "127.0.0.1" if self._address in ("", "0.0.0.0") else "[::1]" if self._address == "::" else self._address  # noqa: S104
        return f"http://{host}:{self.port}/metrics"

    def collect(self) -> Iterator[Family]:
        """Yield all metrics for a scrape of the registry."""
        for metric, values in self.readings():
            made = self._families.CounterMetricFamily if metric.kind == "counter" else self._families.GaugeMetricFamily
            family = made(metric.name, metric.text, labels=metric.all_labels)
            for own, value in values.items():
                family.add_metric(own, value)
            yield family

    def describe(self) -> list[Family]:
        """Return all metrics at registration, so that the registry can reject duplicate names."""
        return list(self.collect())

    def close(self) -> None:
        """Stop the endpoint and leave the registry. (``spark.streams.removeListener`` stops the listening.)"""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()
            self._server = None
        if self._families is not None:
            self._families = None
            self.registry.unregister(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _cannot_listen(port: int, address: str, error: OSError) -> str:
    hint = "another program has it, or another endpoint of this one: take another port, or 0 for any that is free (see .url)"
    return f"cannot listen on port {port} of {address}: {error.strerror}" + (f"; {hint}" if error.errno == EADDRINUSE else "")


def _prometheus_client() -> Any:
    try:
        import prometheus_client
        import prometheus_client.core
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "PrometheusMetrics needs prometheus-client: pip install 'panestream[metrics]'", name="prometheus_client"
        ) from error
    return prometheus_client
