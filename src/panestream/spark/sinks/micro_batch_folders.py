"""The folders of a file sink, one for each micro-batch. Without Spark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from panestream.spark.sinks.publication import Publisher, published, sweep
from panestream.spark.sinks.withdrawn import Withdrawn

_WHOLE_RUN = -1
"""The number of a batch query's folder."""


@dataclass(frozen=True)
class MicroBatchFolders:
    """Writer of the folders ``COLUMN=N`` of one run below ``folder``, whatever the files contain."""

    folder: Path
    column: str
    publisher: Publisher

    @property
    def withdrawn(self) -> Withdrawn:
        return Withdrawn(self.folder, self.column, self.publisher)

    def begin(self, batch_id: int) -> None:
        """Withdraw the micro-batches after ``batch_id``, with which the run begins: they belong to an earlier run."""
        self.publisher.check()
        self.withdrawn.settle(batch_id)
        there = published(self.folder, self.column, self.publisher.folders)
        # The last first, so that a concurrent reader finds an earlier version of the output.
        for number in sorted((number for number in there if number > batch_id), reverse=True):
            self.withdrawn.withdraw(there[number], batch_id)

    def write(self, batch_id: int | None, save: Callable[[str], None]) -> None:
        """Write a micro-batch, or a batch query (None). ``save`` writes the rows into the attempts' folder of the given name."""
        publisher = self.publisher
        sweep(publisher.attempts, None if batch_id is None else publisher.rank, publisher.folders)
        name = publisher.new_name()
        save(name)
        number = _WHOLE_RUN if batch_id is None else batch_id
        publisher.publish(publisher.attempts / name, self.folder / f"{self.column}={number}")
        if batch_id is None:
            sweep(publisher.attempts, None, publisher.folders)


__all__ = ["MicroBatchFolders"]
