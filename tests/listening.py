"""Streaming query listeners that are removed only after they received every event. Events arrive shortly after a query ends."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener

PATIENCE = 120


class Ends(StreamingQueryListener):
    """Track which runs ended among those that started while this listener was active. Spark sends an event to one listener after
    another. When this listener gets the end of a run, all listeners registered before it have received all micro-batches.
    """

    def __init__(self) -> None:
        self.started: set[str] = set()
        self.ended: set[str] = set()

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's name
        self.started.add(str(event.runId))

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802 - Spark's name
        pass

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802 - Spark's name
        pass

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802 - Spark's name
        self.ended.add(str(event.runId))

    def wait(self) -> None:
        """Wait until every run has ended for all listeners. Spark reports the start of a run before ``start`` returns."""
        assert self.started
        deadline = time.monotonic() + PATIENCE
        while not self.started <= self.ended:
            assert time.monotonic() < deadline, f"runs that have not ended: {self.started - self.ended}"
            time.sleep(0.05)


@contextmanager
def listening(spark: Any, *listeners: StreamingQueryListener) -> Iterator[Ends]:
    """Add listeners, and remove them at the end. Call ``wait()`` before you look at the events."""
    ends = Ends()
    everyone = (*listeners, ends)
    for listener in everyone:
        spark.streams.addListener(listener)
    try:
        yield ends
    finally:
        for listener in everyone:
            spark.streams.removeListener(listener)
