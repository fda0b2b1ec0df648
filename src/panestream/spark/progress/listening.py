"""Who hears of each micro-batch: listeners of a session, and ``on_progress`` of a query on a Spark Connect server.

Classic Spark calls a listener from Java, Spark Connect's client from a thread.
"""

from __future__ import annotations

import logging
import re
import threading
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from panestream.errors import CallbackError
from panestream.spark.failures import of_callback
from panestream.spark.progress.micro_batch import OBSERVED, BatchProgress

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


_log = logging.getLogger("panestream.metrics")
_OURS = re.compile(rf"{OBSERVED}(_\d+)?")
"""The names of operators' counters. Other metrics that users observe in the same query have other names."""


@dataclass(frozen=True, slots=True)
class QueryRun:
    """One run of a query, as identified in Spark's events.

    Attributes:
        id: the query's id, which stays the same after a restart from its checkpoint.
        run_id: the id of the run, from start to stop.
        name: the name given to ``start``, or None.
        operator: the suffix for one of several operators in a query, e.g. ``_2``. Empty for the first.
    """

    id: str
    run_id: str
    name: str | None
    operator: str = ""

    @property
    def label(self) -> str:
        """The label in metrics: the query's name or, without a name, its id."""
        return (self.name or self.id) + self.operator


class ProgressListener(StreamingQueryListener):
    """A listener to the micro-batches of all queries in a session that run panestream's windows.

    Add it with ``spark.streams.addListener(listener)``, in classic Spark or through Spark Connect. An error in it is logged
    (logger ``panestream.metrics``) and counted in :attr:`errors`, and never affects the query. Its methods may be called from
    several threads.
    """

    def __init__(self) -> None:
        self.errors = 0
        """The number of events whose processing failed."""
        self._lock = threading.Lock()
        self._runs: dict[str, QueryRun] = {}

    @abstractmethod
    def batch(self, run: QueryRun, progress: BatchProgress, spark: Mapping[str, Any]) -> None:
        """Process a finished micro-batch. ``spark`` is Spark's own progress, with ``timestamp``, ``sources`` and so on."""

    def started(self, run: QueryRun) -> None:
        """Process the start of a query. Only its first micro-batch shows whether it runs panestream's windows."""

    def ended(self, run: QueryRun, error: str | None) -> None:
        """Process the end of a run. ``error`` is the reason, or None if it was stopped or had read all input."""

    # -- what Spark calls ----------------------------------------------------------------------------------------------

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        self._safely(self._on_started, event)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        self._safely(self._on_progress, event)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        self._safely(self._on_terminated, event)

    def _on_started(self, event: QueryStartedEvent) -> None:
        run = QueryRun(str(event.id), str(event.runId), event.name)
        with self._lock:
            self._runs[run.run_id] = run
            self.started(run)

    def _on_progress(self, event: QueryProgressEvent) -> None:
        spark: Any = event.progress
        for observed_as in sorted(filter(_OURS.fullmatch, spark["observedMetrics"] or {})):
            progress = BatchProgress.of_spark(spark, observed_as)
            if progress is None:
                continue
            # Each operator of a query is reported: "clicks", "clicks_2".
            run = QueryRun(str(spark["id"]), str(spark["runId"]), spark["name"], observed_as.removeprefix(OBSERVED))
            with self._lock:
                # Also for a run that started before the listener was added. The run ends as a whole, so it is stored without an
                # operator.
                self._runs[run.run_id] = replace(run, operator="")
                self.batch(run, progress, spark)

    def _on_terminated(self, event: QueryTerminatedEvent) -> None:
        with self._lock:
            # The event does not have the query's name.
            run = self._runs.pop(str(event.runId), None) or QueryRun(str(event.id), str(event.runId), None)
            self.ended(run, event.exception)

    def _safely(self, take: Callable[[Any], None], event: Any) -> None:
        try:
            take(event)
        except Exception:  # noqa: BLE001 - an error here must not reach the query
            self.errors += 1
            _log.exception("%s could not take in an event of Spark's; the query goes on", type(self).__name__)


_POLL_SECONDS = 1
"""Seconds between two requests to the server."""


class ProgressWatcher:
    """Calls ``on_progress`` in this process after each micro-batch of a remote query, in order.

    It polls rather than listens: the thread of a Spark Connect listener keeps the process alive, and removing the last listener
    can block forever (docs/decisions/0129-on-progress-through-connect.md). If the function raises, it is not called again, and
    the query is stopped.
    """

    def __init__(self, query: StreamingQuery, on_progress: Callable[[BatchProgress], Any], observed_as: str) -> None:
        self._query = query
        self._observed_as = observed_as
        self._on_progress = on_progress
        self._told = -1
        self.failure: CallbackError | None = None
        """The error that the function raised."""
        self._thread = threading.Thread(target=self._watch, name="panestream on_progress", daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Wait until all progress from before the query's end was reported."""
        if threading.current_thread() is not self._thread:  # the function itself may wait for its query
            self._thread.join()

    def finish(self) -> None:
        """Wait like :meth:`wait`, then raise CallbackError if the function raised."""
        self.wait()
        if self.failure is not None:
            raise self.failure

    def _watch(self) -> None:
        ended = False
        while not ended and self.failure is None:
            try:
                ended = bool(self._query.awaitTermination(_POLL_SECONDS))
            except StreamingQueryException:
                ended = True
            except Exception:  # noqa: BLE001 - the server is unreachable: the caller that waits for the query gets the reason
                return
            self._tell()

    def _tell(self) -> None:
        try:
            heard = [BatchProgress.of_spark(entry, self._observed_as) for entry in self._query.recentProgress]
            for progress in heard:
                if progress is not None and progress.batch_id > self._told:
                    self._told = progress.batch_id
                    with of_callback("on_progress", progress.batch_id):
                        self._on_progress(progress)
        except CallbackError as error:
            self.failure = error
            self._query.stop()
