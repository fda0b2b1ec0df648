"""``pst.tools.OpenLineage``: the receiver of events, and the thread that follows one run of a query."""

from __future__ import annotations

import json
import logging
import os
import re
import threading
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.errors import StreamingQueryException

from panestream.engine.plan import MAIN, WindowPlan, stable_repr
from panestream.errors import InvalidPlanError
from panestream.spark.failures import own_error
from panestream.spark.open_lineage.datasets import (
    Dataset,
    dataset_of_sink,
    dataset_of_table,
    datasets_of_source,
    kafka_servers,
    without_login,
    without_secrets,
)
from panestream.spark.open_lineage.events import (
    ABORT,
    COMPLETE,
    FAIL,
    RUNNING,
    START,
    LineageRun,
    OutputDataset,
    RunTotals,
)
from panestream.spark.progress.micro_batch import BatchProgress
from panestream.spark.sinks.base import Sink
from panestream.spark.sinks.tables import CatalogTableSink
from panestream.spark.types import spark_schema
from panestream.windowing.time import Duration, to_micros

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

Event = dict[str, Any]
_log = logging.getLogger("panestream.spark.open_lineage")
_TIMEOUT = 5.0
"""Seconds to wait for the receiver's answer."""
_WAIT = 15.0
"""Seconds that the end of a query waits for its last event: more than two timeouts and a poll."""
_POLL_SECONDS = 1
_LINEAGE_PATH = "/api/v1/lineage"


class _RefuseRedirects(urllib.request.HTTPRedirectHandler):
    """A redirected POST would become a GET without the event, and carry its headers to another host."""

    def redirect_request(self, *_: Any) -> None:
        return None


class OpenLineage:
    """A receiver of OpenLineage run events, for ``start(lineage=...)``.

    A thread on the driver (with Spark Connect, in the client) sends START, then RUNNING at most once per ``every``, and at the
    end COMPLETE, ABORT (stopped) or FAIL. Micro-batches never wait for it. An error of the receiver is counted in :attr:`errors`,
    the first one of a run is logged (logger ``panestream.spark.open_lineage``), and the query continues. Each event has the
    totals of the run so far: a later event replaces a lost one. docs/how-to/lineage.md lists the contents.

    Args:
        to: the address of a receiver such as Marquez (``http://host:port``, to which ``/api/v1/lineage`` is added if it has no
            path), a file that gets a line of JSON for each event, or a function that is called with each event, a dict.
        namespace: the namespace of the job.
        job: the name of the job. By default the ``name`` of ``start``.
        every: the shortest time between two events of a running query, at least a second.
        headers: HTTP headers, e.g. ``{"Authorization": "Bearer ..."}``. They are not shown or logged.
        datasets: namespace and name of datasets, by output, e.g. ``{"main": ("postgres://db:5432", "shop.public.a")}``.
            Needed for sinks without an address, such as functions. By default these get the name ``JOB.OUTPUT`` in ``namespace``.
        parent: namespace, job name and run id of the task that starts the query, e.g. from Airflow.

    Raises:
        InvalidPlanError: an argument is wrong, or the address contains a login.
        OSError: the file cannot be written.

    Examples:
        >>> events = []
        >>> lineage = OpenLineage(events.append, namespace="shop", job="clicks")
        >>> lineage.namespace, lineage.job, lineage.errors
        ('shop', 'clicks', 0)
        >>> OpenLineage("http://marquez:5000").to
        'http://marquez:5000/api/v1/lineage'
    """

    def __init__(
        self,
        to: str | os.PathLike[str] | Callable[[Event], Any],
        *,
        namespace: str = "panestream",
        job: str | None = None,
        every: Duration = "1 minute",
        headers: Mapping[str, str] | None = None,
        datasets: Mapping[str, tuple[str, str]] | None = None,
        parent: tuple[str, str, str] | None = None,
    ) -> None:
        for what, text in (("namespace", namespace), *([] if job is None else [("job", job)])):
            if not isinstance(text, str) or not text.strip():
                raise InvalidPlanError(f"OpenLineage: {what} must be a text, got {text!r}")
        self.namespace, self.job, self.datasets = namespace, job, dict(datasets or {})
        self.every = to_micros(every, "every") // 1_000_000
        if self.every < 1:
            raise InvalidPlanError(f"OpenLineage: every must be at least a second, got {every!r}")
        self.parent = None if parent is None else _checked_parent(parent)
        self.errors = 0
        """The number of events that the receiver did not take."""
        self._headers = {**(headers or {}), "Content-Type": "application/json"}
        self.to: str | Path | Callable[[Event], Any] = to if callable(to) else _checked_receiver(to)

    def __repr__(self) -> str:
        receiver = self.to if callable(self.to) else repr(str(self.to))
        return f"OpenLineage(to={receiver}, namespace={self.namespace!r}, job={self.job!r})"

    def prepared(self, df: DataFrame, name: str | None, tags: Sequence[str]) -> PreparedLineage:
        """Return the lineage of a query over ``df`` with these outputs; raise InvalidPlanError without a name for the job."""
        job = self.job or name
        if job is None:
            raise InvalidPlanError(
                "lineage needs a name for the job: OpenLineage(..., job='clicks') or start(name='clicks', ...)"
            )
        for tag in self.datasets:
            if tag not in tags:
                raise InvalidPlanError(f"OpenLineage: datasets names the output {tag!r}, but the outputs are {', '.join(tags)}")
        return PreparedLineage(self, job, kafka_servers(df))

    def send(self, event: Event) -> None:
        """Hand an event to the receiver; raise whatever the receiver raises."""
        if callable(self.to):
            self.to(event)
            return
        line = json.dumps(event, separators=(",", ":"))
        if isinstance(self.to, Path):
            with self.to.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
            return
        request = urllib.request.Request(self.to, line.encode(), self._headers, method="POST")  # noqa: S310 - the scheme is checked
        with urllib.request.build_opener(_RefuseRedirects).open(request, timeout=_TIMEOUT):
            pass


def _checked_receiver(to: object) -> str | Path:
    if not isinstance(to, (str, os.PathLike)) or not str(to).strip():
        raise InvalidPlanError(f"OpenLineage: to must be an address, a file or a function, got {to!r}")
    text = str(os.fspath(to))
    if re.match(r"https?://", text, re.IGNORECASE) is None:
        if "://" in text:
            refused = without_secrets(text)
            raise InvalidPlanError(f"OpenLineage sends to http, https, a local file or a function, got {refused!r}")
        path = Path(text)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8"):
            pass  # fail now rather than log an error at each event
        return path
    scheme, _, rest = text.partition("://")
    host, slash, path_text = rest.partition("/")
    if "@" in host:
        raise InvalidPlanError("OpenLineage: the address contains a login. Use headers={'Authorization': ...}")
    return f"{scheme}://{host}/{path_text}" if slash and path_text else f"{scheme}://{host}{_LINEAGE_PATH}"


def _checked_parent(parent: object) -> tuple[str, str, str]:
    if isinstance(parent, (tuple, list)) and len(parent) == 3 and all(isinstance(part, str) and part for part in parent):
        try:
            return parent[0], parent[1], str(uuid.UUID(parent[2]))
        except ValueError:
            pass
    raise InvalidPlanError(f"OpenLineage: parent is (namespace, job, run id), with a UUID as the run id, got {parent!r}")


@dataclass(frozen=True)
class PreparedLineage:
    """The lineage of one query before its start: the receiver, the name of the job, and the servers of its topics."""

    receiver: OpenLineage
    job: str
    servers: Mapping[str, str]

    def follower(
        self, spark: SparkSession, plan: WindowPlan, sinks: Mapping[str, Sink], observed_as: str, *, ends: bool
    ) -> Callable[[StreamingQuery], LineageWatcher]:
        """Return a function that follows a started run of the query. ``ends``: whether a run ends by itself."""
        to, windows = self.receiver, stable_repr(plan.assigner)
        versions = spark.version, _version()
        outputs = [
            LineageOutput(tag, sink, self._named(tag), _columns(plan, tag), _is_counted(plan, tag)) for tag, sink in sinks.items()
        ]

        def follow(query: StreamingQuery) -> LineageWatcher:
            ids = str(query.runId), str(query.id)
            run = LineageRun(to.namespace, self.job, *ids, windows, ends, to.every, *versions, to.parent)
            return LineageWatcher(query, spark, to, run, self.servers, outputs, observed_as)

        return follow

    def _named(self, tag: str) -> Dataset | None:
        given = self.receiver.datasets.get(tag)
        return None if given is None else Dataset(*map(without_login, given))


def _version() -> str:
    try:
        return version("panestream")
    except PackageNotFoundError:
        return "0"


def _columns(plan: WindowPlan, tag: str) -> list[tuple[str, str]]:
    columns = [(column.name, column.dataType.simpleString()) for column in spark_schema(plan.output_schema(tag))]
    if tag == MAIN:
        columns += [(name, "string") for name in plan.constants]
        columns += [("rank", "int")] if plan.top is not None else []
    return columns


def _is_counted(plan: WindowPlan, tag: str) -> bool:
    """Return whether the key groups emit exactly the rows of the sink: a top and a split query complete their rows later."""
    return tag != MAIN or (plan.top is None and plan.split is None)


@dataclass(slots=True)
class LineageOutput:
    """An output whose dataset may not be known before its table exists."""

    tag: str
    sink: Sink
    dataset: Dataset | None
    columns: Sequence[tuple[str, str]]
    counted: bool

    def resolve(self, spark: SparkSession, namespace: str, job: str, *, finally_: bool) -> OutputDataset | None:
        """Return the output with its dataset, or None while its table has no location, at the latest until ``finally_``."""
        if self.dataset is None:
            self.dataset = dataset_of_sink(self.sink, spark)
        if self.dataset is None and isinstance(self.sink, CatalogTableSink):
            self.dataset = dataset_of_table(self.sink, spark)
            if self.dataset is None and not finally_:
                return None
            self.dataset = self.dataset or Dataset(namespace, str(self.sink.place(spark)).removeprefix("table "))
        self.dataset = self.dataset or Dataset(namespace, f"{job}.{self.tag}")
        return OutputDataset(self.tag, self.dataset, self.columns, self.counted)


class LineageWatcher:
    """Follows one run of a query in a thread, by Spark's progress, and sends its events."""

    def __init__(
        self,
        query: StreamingQuery,
        spark: SparkSession,
        receiver: OpenLineage,
        run: LineageRun,
        servers: Mapping[str, str],
        outputs: Sequence[LineageOutput],
        observed_as: str,
    ) -> None:
        self._query, self._spark, self._receiver, self._run = query, spark, receiver, run
        self._servers, self._outputs, self._observed_as = servers, outputs, observed_as
        self._totals = RunTotals()
        self._logged = False
        self.stopped = False
        """Set before the query is stopped."""
        self._thread = threading.Thread(target=self._watch, name="panestream lineage", daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Wait until the last event was sent, but not longer than a receiver may take that does not answer."""
        if threading.current_thread() is not self._thread:  # the receiver itself may wait for its query
            self._thread.join(_WAIT)

    def _watch(self) -> None:
        self._emit(START)
        sent, error, ended = time.monotonic(), None, False
        while not ended:
            try:
                ended = bool(self._query.awaitTermination(_POLL_SECONDS))
            except StreamingQueryException as failure:
                ended, error = True, str(own_error(str(failure)) or failure)
            except Exception:  # noqa: BLE001 - Spark is gone, and with it what could be reported
                return
            try:
                new = self._take()
            except Exception as failure:  # noqa: BLE001 - lineage must not end because of one unreadable progress
                new = False
                self._count(failure)
            if new and not ended and time.monotonic() - sent >= self._run.every:
                sent = time.monotonic()
                self._emit(RUNNING)
        # A query without end can only end because it was stopped.
        without_error = ABORT if self.stopped or not self._run.is_bounded else COMPLETE
        self._emit(without_error if error is None else FAIL, error)

    def _take(self) -> bool:
        """Count the new micro-batches, and return whether there were any."""
        found = list(self._new())
        for progress, entry in found:
            sources = [
                (datasets_of_source(source, self._servers, self._run.namespace), int(source["numInputRows"]))
                for source in entry["sources"]
            ]
            self._totals.add(progress, sources)
        return bool(found)

    def _new(self) -> Iterator[tuple[BatchProgress, Mapping[str, Any]]]:
        # One entry costs milliseconds, and Spark keeps a hundred.
        entry, last = self._query.lastProgress, self._totals.last
        if entry is None or (last is not None and entry["batchId"] <= last.batch_id):
            return
        only = last is not None and entry["batchId"] == last.batch_id + 1
        for each in [entry] if only else self._query.recentProgress:
            progress = BatchProgress.of_spark(each, self._observed_as)
            if progress is not None and (last is None or progress.batch_id > last.batch_id):
                yield progress, each

    def _emit(self, kind: str, error: str | None = None) -> None:
        try:
            known = [
                output.resolve(self._spark, self._run.namespace, self._run.job, finally_=kind != START)
                for output in self._outputs
            ]
            outputs = [output for output in known if output is not None]
            now = datetime.now(timezone.utc).isoformat()
            self._receiver.send(self._run.event(kind, now, self._totals, outputs, error))
        except Exception as failure:  # noqa: BLE001 - an error of the receiver must not reach the query
            self._count(failure)

    def _count(self, failure: Exception) -> None:
        self._receiver.errors += 1
        if not self._logged:
            self._logged = True
            _log.warning(
                "a lineage event of the job %s was lost (%s); the query continues, and later losses are only counted",
                self._run.job,
                without_secrets(f"{type(failure).__name__}: {failure}"),
            )
