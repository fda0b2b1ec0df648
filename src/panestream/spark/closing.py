"""The implementation of ``fire_at_end``: after a query has read all input, it runs again with an end signal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from panestream.errors import warn
from panestream.spark import signals
from panestream.spark.progress.micro_batch import BatchProgress
from panestream.spark.progress.watching import ProgressWatcher

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_MOST_TRIES = 10
"""Input that never stops does not have an end."""


@dataclass
class EndOfInputRun:
    """The runs that close the windows of a query.

    A key group accepts the signal only in a micro-batch without rows. Rows that arrived after the end of the last run are
    processed as usual, and the signal is sent again.

    Attributes:
        run: starts the query again.
        check: raises if another copy of the query was started later, as then the input was not read to its end.
        before: the progress of the runs before the current one.
        tries: the number of runs that were started to close windows.
        over: whether all is done.
    """

    spark: SparkSession
    checkpoint: str
    run: Callable[[], tuple[StreamingQuery, ProgressWatcher | None]]
    check: Callable[[], None]
    before: list[BatchProgress] = field(default_factory=list)
    tries: int = 0
    over: bool = False

    def after(self, progress: Sequence[BatchProgress]) -> Callable[[], tuple[StreamingQuery, ProgressWatcher | None]] | None:
        """Return the function that starts the next closing run, or None if the query is done.

        ``progress`` has the ended run's micro-batches; the first one of a closing run got the signal. Raise FencedError if
        another copy was started later.
        """
        if self.over:
            return None
        if self.tries and progress and not (progress[0].rows or progress[0].history_rows):
            self.over = True
            return None
        if self.tries == _MOST_TRIES:
            self.over = True
            warn(
                f"fire_at_end: {_MOST_TRIES} times rows came while windows were to be closed, and they were left open: the "
                "input does not end. Let the query run on (trigger='10 seconds'), and WatermarkStrategy.closing_after close them"
            )
            return None
        self.check()
        self.tries += 1
        self.before += progress
        signals.send(self.spark, self.checkpoint, signals.END_WORD)
        return self.run


__all__ = ["EndOfInputRun"]
