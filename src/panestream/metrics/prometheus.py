"""For Prometheus: an HTTP endpoint, or collectors in a registry that is there already."""

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
    """What the queries of a session do, for Prometheus to scrape: every metric that docs/reference/metrics.md lists.

    Add it to a session before the queries start: ``spark.streams.addListener(metrics)``, in classic Spark or through Spark
    Connect (there the numbers come to the client, and the endpoint is there). The label ``query`` is the name that ``start`` was
    given, or the query's id. Counters go on when a query is started again in the same process; gauges of a query that has ended
    are gone. An error in it never fails a query: it is logged, and counted in ``panestream_listener_errors_total``.

    Args:
        port: of an HTTP endpoint ``/metrics``; 0: any that is free (see :attr:`url`); None: there is none, another one shows the
            registry.
        address: on which address it listens: ``"127.0.0.1"`` for this machine only, ``"0.0.0.0"`` for all.
        registry: where the metrics are registered; None: in one of their own, or without a port, in prometheus-client's own.
        most_partitions: so many source partitions of a query have series of their own, the ones furthest behind.
        most_ended: so many queries that have ended keep their counters, the last ones.

    Raises:
        ModuleNotFoundError: prometheus-client is missing.
        OSError: the port is taken, or the address is none of this machine's.
        ValueError: the registry has such metrics already: close the others first.

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
        """Where the metrics are registered."""
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
        """On which port the endpoint listens; None: there is none."""
        return None if self._server is None else int(self._server.server_port)

    @property
    def url(self) -> str | None:
        """Where Prometheus scrapes; None: there is no endpoint."""
        if self._server is None:
            return None
        host = "127.0.0.1" if self._address in ("", "0.0.0.0") else "[::1]" if self._address == "::" else self._address  # noqa: S104
        return f"http://{host}:{self.port}/metrics"

    def collect(self) -> Iterator[Family]:
        """What the registry asks for at each scrape."""
        for metric, values in self.readings():
            made = self._families.CounterMetricFamily if metric.kind == "counter" else self._families.GaugeMetricFamily
            family = made(metric.name, metric.text, labels=metric.all_labels)
            for own, value in values.items():
                family.add_metric(own, value)
            yield family

    def describe(self) -> list[Family]:
        """What a registry asks for when this is registered: the names, so that no two are alike."""
        return list(self.collect())

    def close(self) -> None:
        """Ends the endpoint and leaves the registry. (``spark.streams.removeListener`` ends the listening.)"""
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
