"""What ``fire_at_end`` does: when a query has read all there is, it runs once more, with the word that this is so."""

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
"""Input that never stops has no end."""


@dataclass
class Closing:
    """The runs that close the windows of a query.

    A key group takes the word only in a micro-batch without rows: rows that came between the end of the run and this one are
    no end. Then they are taken in as any others, and the word is given once more.

    Attributes:
        spark: the session.
        checkpoint: the folder.
        run: starts the query again.
        check: raises where another copy of the query was started later: what it has read is no end.
        before: what the runs before the one at hand did.
        tries: how many runs were begun to close windows.
        over: whether there is nothing more to be done.
    """

    spark: SparkSession
    checkpoint: str
    run: Callable[[], tuple[StreamingQuery, ProgressWatcher | None]]
    check: Callable[[], None]
    before: list[BatchProgress] = field(default_factory=list)
    tries: int = 0
    over: bool = False

    def after(self, progress: Sequence[BatchProgress]) -> Callable[[], tuple[StreamingQuery, ProgressWatcher | None]] | None:
        """What is to be begun after a run that has ended; None: nothing more.

        Args:
            progress: of its micro-batches. The word is in the first of a run that was begun to close windows.

        Raises:
            FencedError: another copy was started later.
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


__all__ = ["Closing"]
