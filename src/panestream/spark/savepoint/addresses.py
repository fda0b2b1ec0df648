"""Find a path to a checkpoint for Spark's state reader."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from panestream.errors import CheckpointError
from panestream.spark.checkpoint.records import list_files
from panestream.spark.places import escaped, is_plain, local_folder
from panestream.spark.session import has_local_executors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def readable_path(spark: SparkSession, checkpoint: str) -> str:
    """Return a path under which Spark's state reader finds a checkpoint, or raise CheckpointError.

    The reader encodes the address of a folder twice: it looks for ``a%20b`` if the folder is called ``a b``. On one machine a
    link with a plain name helps. Executors on other machines would not see the link.
    """
    if is_plain(checkpoint):
        return checkpoint
    commits = list_files(spark, f"{escaped(checkpoint)}/commits")
    address = commits[0].rsplit("/commits/", 1)[0] if commits else ""
    if "%" not in address:
        return checkpoint
    folder = local_folder(address)
    if folder is not None and has_local_executors(spark):
        path = str(_linked(folder) / "checkpoint")
        if list_files(spark, f"{path}/commits"):
            return path
    raise CheckpointError(
        f"Spark's state reader cannot read the checkpoint {checkpoint}: its address has %20 and the like (for a blank, %, [ or "
        f"{{), and the reader looks for a folder of that name. Copy the checkpoint to a plain path, or make a link there "
        f"(ln -s {checkpoint!r} LINK), and read that"
    )


@cache
def _linked(folder: Path) -> Path:
    """Return a folder with a link to another folder. It exists until this process ends, as DataFrames are read late."""
    home = TemporaryDirectory(prefix="panestream-")
    _HOMES.append(home)
    (Path(home.name) / "checkpoint").symlink_to(folder, target_is_directory=True)
    return Path(home.name)


_HOMES: list[TemporaryDirectory[str]] = []
"""Keeps the folders of the links until Python deletes them at its end."""

__all__ = ["readable_path"]
