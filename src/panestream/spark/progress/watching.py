"""``on_progress`` for a query on a Spark Connect server: a thread of this process polls the progress and calls it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pyspark.errors import StreamingQueryException

from panestream.errors import CallbackError
from panestream.spark.failures import of_callback
from panestream.spark.progress.micro_batch import BatchProgress

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_EVERY = 1
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
                ended = bool(self._query.awaitTermination(_EVERY))
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
