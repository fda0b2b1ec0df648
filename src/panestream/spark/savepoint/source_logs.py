"""Match sources with the folders of their logs, since Spark counts a DataFrame that a query reads twice as one source.

Spark writes the end of such a source twice into its log of offsets, but counts it once in the numbers of the folders
``sources/N``. So the second of two identical inputs lacks a folder, or has that of another source.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from panestream.errors import CheckpointError
from panestream.spark.checkpoint.records import list_files
from panestream.spark.places import escaped
from panestream.spark.savepoint.positions import FILES, KAFKA, SourcePosition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_WITH_LOGS = (FILES, KAFKA)
"""Sources that are known to keep a log."""


def numbers_of_logs(spark: SparkSession, checkpoint: str, positions: Sequence[SourcePosition]) -> Mapping[int, int]:
    """Return the number of the log folder by the number of the source. Looked up only if there are sources of files.

    Raises CheckpointError if some inputs are the same DataFrame and cannot be identified.
    """
    alike = {each.number: each.number for each in positions}
    if all(each.kind != FILES for each in positions):
        return alike  # the logs of other sources are not needed
    place = checkpoint.rstrip("/")
    folders = {
        int(name) for path in list_files(spark, f"{escaped(place)}/sources/*/*") if (name := path.split("/")[-2]).isdigit()
    }
    if all(each.number in folders for each in positions if each.kind in _WITH_LOGS):
        return alike
    if all(each.kind in _WITH_LOGS for each in positions):
        histories = _histories(spark, place, len(positions))
        firsts = list(dict.fromkeys(histories))
        if set(range(len(firsts))) == folders:
            return {number: firsts.index(history) for number, history in enumerate(histories)}
    raise CheckpointError(
        f"{len(positions)} inputs of the query have {len(folders)} logs in {place}/sources: some of them are one DataFrame, "
        "which Spark reads as one source, and which they are cannot be told. Read it once for each (spark.readStream…load(…) for "
        "every input), with a new checkpoint"
    )


def _histories(spark: SparkSession, checkpoint: str, sources: int) -> list[tuple[str, ...]]:
    """Return the ends of each source after every micro-batch that is still in Spark's log."""
    logs = list_files(spark, f"{escaped(checkpoint)}/offsets/*")
    texts = [row.value.splitlines()[2:] for row in spark.read.text(logs, wholetext=True).collect()] if logs else []
    kept = [lines for lines in texts if len(lines) == sources]
    return [tuple(lines[number] for lines in kept) for number in range(sources)]


__all__ = ["numbers_of_logs"]
