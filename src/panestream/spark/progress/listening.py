"""Who listens to the progress of streaming queries: classic Spark calls it from Java, Spark Connect's client from a thread."""

from __future__ import annotations

import logging
import re
import threading
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from panestream.spark.progress.micro_batch import OBSERVED, BatchProgress

_log = logging.getLogger("panestream.metrics")
_OURS = re.compile(rf"{OBSERVED}(_\d+)?")
"""What the counters of an operator are called; whatever else users observe in the same query has other names."""


@dataclass(frozen=True, slots=True)
class QueryRun:
    """One run of a query, as Spark's events name it.

    Attributes:
        id: of the query; the same after a restart from its checkpoint.
        run_id: of the run, from start to stop.
        name: as it was given to ``start``; None: it has none.
        operator: which of several operators in one query, ``_2`` and so on; empty: the first.
    """

    id: str
    run_id: str
    name: str | None
    operator: str = ""

    @property
    def label(self) -> str:
        """What it is called in metrics: its name; without one, its id."""
        return (self.name or self.id) + self.operator


class ProgressListener(StreamingQueryListener):
    """Is told of the micro-batches of all queries of a session that run windows of panestream's.

    ``spark.streams.addListener(listener)`` adds it, in classic Spark and through Spark Connect. An error in it is logged (logger
    ``panestream.metrics``), counted in :attr:`errors`, and never the query's. Its methods may be called from several threads.
    """

    def __init__(self) -> None:
        self.errors = 0
        """How many events it failed to take in."""
        self._lock = threading.Lock()
        self._runs: dict[str, QueryRun] = {}

    @abstractmethod
    def batch(self, run: QueryRun, progress: BatchProgress, spark: Mapping[str, Any]) -> None:
        """A micro-batch is done.

        Args:
            run: of which query.
            progress: what the micro-batch did.
            spark: Spark's own progress: ``timestamp``, ``sources``, ``stateOperators`` and so on.
        """

    def started(self, run: QueryRun) -> None:
        """A query has started; whether it is one of panestream's, its first micro-batch tells."""

    def ended(self, run: QueryRun, error: str | None) -> None:
        """A run is over.

        Args:
            run: which.
            error: what ended it; None: it was stopped, or had done what there was.
        """

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
            # Of a query with several operators each is told of: "clicks", "clicks_2".
            run = QueryRun(str(spark["id"]), str(spark["runId"]), spark["name"], observed_as.removeprefix(OBSERVED))
            with self._lock:
                # Of a run that began before anybody listened; what ends is the run, whichever operator was told of last.
                self._runs[run.run_id] = replace(run, operator="")
                self.batch(run, progress, spark)

    def _on_terminated(self, event: QueryTerminatedEvent) -> None:
        with self._lock:
            # The event does not say what the query was called.
            run = self._runs.pop(str(event.runId), None) or QueryRun(str(event.id), str(event.runId), None)
            self.ended(run, event.exception)

    def _safely(self, take: Callable[[Any], None], event: Any) -> None:
        try:
            take(event)
        except Exception:  # noqa: BLE001 - whatever it is, it is not the query's
            self.errors += 1
            _log.exception("%s could not take in an event of Spark's; the query goes on", type(self).__name__)
