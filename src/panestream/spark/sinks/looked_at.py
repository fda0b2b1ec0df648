"""Warn at the start of a query about a file sink's folder that is older than the checkpoint, or has other columns.

Neither is an error: folders of old micro-batches may be deleted, and files of several schemas can be read. Without Spark.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from panestream.errors import warn
from panestream.spark.sinks.base import QueryRunInfo
from panestream.spark.sinks.members import members
from panestream.spark.sinks.publication import published

BATCH_COLUMN = "batch_id"
"""The partition column of file sinks: the micro-batch that a row came with."""


def warn_of_age(root: Path, run: QueryRunInfo) -> None:
    """Warn if the newest micro-batch of a folder is older than the first one of the last run.

    Each run writes its first micro-batch to all outputs, even without rows. A later one without rows leaves no trace, so its
    absence proves nothing.
    """
    folders = {number: path for number, path in published(root, BATCH_COLUMN).items() if number >= 0}
    newest = max((max([number, *(one.last for one in members(path, number))]) for number, path in folders.items()), default=-1)
    if 0 <= newest < run.began:
        warn(
            f"{root} ends with micro-batch {newest}, and the checkpoint committed micro-batch {run.began} to it: the folder was "
            "put back from an older copy, or its newest micro-batches were deleted. They do not come again. Put back the newest "
            "copy of the folder; or start with a new checkpoint and a new folder, which computes everything again"
        )


def warn_of_columns(root: Path, run: QueryRunInfo) -> None:
    """Warn if readers that take the columns of one file would not find all columns of the output."""
    import pyarrow.parquet as pq

    # Spark takes the first file by its path.
    first = next(_files(root), None)
    if first is None or not run.columns:
        return
    try:
        there = {name.lower() for name in pq.read_schema(first).names}
    except (OSError, pa.ArrowInvalid):
        return  # replaced at this moment, or damaged: the reader will find out
    missing = [name for name in run.columns if name.lower() not in there]
    if missing:
        warn(
            f"{root} has files without columns that the output {run.output!r} has now ({', '.join(missing)}). spark.read.parquet "
            "takes the columns of one file, and does not show these: read the folder with "
            "spark.read.option('mergeSchema', True).parquet(...)"
        )


def _files(root: Path) -> Iterator[Path]:
    for folder in sorted(published(root, BATCH_COLUMN).values(), key=str):
        yield from sorted(path for path in folder.glob("*.parquet") if not path.name.startswith(("_", ".")))


__all__ = ["BATCH_COLUMN", "warn_of_age", "warn_of_columns"]
