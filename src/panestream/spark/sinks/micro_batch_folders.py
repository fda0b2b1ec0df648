"""What a file sink does with the folders of its micro-batches, one for each. Without Spark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from panestream.spark.sinks.publication import Publisher, published, sweep
from panestream.spark.sinks.withdrawn import Withdrawn

_WHOLE_RUN = -1
"""What the folder of a batch query is numbered."""


@dataclass(frozen=True)
class MicroBatchFolders:
    """What a file sink does with the folders ``COLUMN=N`` of one run, whatever is in them.

    Attributes:
        folder: where they are.
        column: how they are called.
        publisher: publishes them.
    """

    folder: Path
    column: str
    publisher: Publisher

    @property
    def withdrawn(self) -> Withdrawn:
        """What was taken away in the folder."""
        return Withdrawn(self.folder, self.column, self.publisher)

    def begin(self, batch_id: int) -> None:
        """The run begins with ``batch_id``: what is there of later micro-batches is of another time, and goes."""
        self.publisher.check()
        self.withdrawn.settle(batch_id)
        there = published(self.folder, self.column, self.publisher.folders)
        # The last first: whoever reads meanwhile finds the output as it once was.
        for number in sorted((number for number in there if number > batch_id), reverse=True):
            self.withdrawn.withdraw(there[number], batch_id)

    def write(self, batch_id: int | None, save: Callable[[str], None]) -> None:
        """Writes a micro-batch in place of what is there of it; None: a batch query.

        Args:
            batch_id: its number.
            save: writes the rows into a new folder among the attempts, whose name it is given.
        """
        publisher = self.publisher
        sweep(publisher.attempts, None if batch_id is None else publisher.rank, publisher.folders)
        name = publisher.new_name()
        save(name)
        number = _WHOLE_RUN if batch_id is None else batch_id
        publisher.publish(publisher.attempts / name, self.folder / f"{self.column}={number}")
        if batch_id is None:
            sweep(publisher.attempts, None, publisher.folders)


__all__ = ["MicroBatchFolders"]
