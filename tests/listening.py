"""Listeners of a session that have been told of everything when they are taken off: Spark tells them a moment after the query's end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener

PATIENCE = 120


class Ends(StreamingQueryListener):
    """Knows which of the runs that began while it listened are over. An event goes to one listener after the other: when it is
    told of an end, all others have been told of all micro-batches before."""

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
        """Until every run is over, for all listeners; of a start Spark tells before ``start`` returns."""
        assert self.started
        deadline = time.monotonic() + PATIENCE
        while not self.started <= self.ended:
            assert time.monotonic() < deadline, f"runs that have not ended: {self.started - self.ended}"
            time.sleep(0.05)


@contextmanager
def listening(spark: Any, *listeners: StreamingQueryListener) -> Iterator[Ends]:
    """Adds listeners, and takes them off again. Before what they were told is looked at, ``wait()``."""
    ends = Ends()
    everyone = (*listeners, ends)
    for listener in everyone:
        spark.streams.addListener(listener)
    try:
        yield ends
    finally:
        for listener in everyone:
            spark.streams.removeListener(listener)
