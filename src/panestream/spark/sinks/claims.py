"""The owner of a sink's folder: a marker that exactly one query leaves there, even if several start at the same moment.

Each query writes its claim to its own folder by Spark. On a local file system one rename makes the claim the marker, and fails if
another marker exists: exactly one query gets the folder. Elsewhere no file can be created exclusively. A query writes its claim,
reads all claims, and gives up if it finds another. At most one of several queries gets the folder.
"""

from __future__ import annotations

import errno
import shutil
import uuid
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from panestream.errors import PanestreamError, SinkError
from panestream.spark.checkpoint.records import PARTS, list_files, read_markers, write_marker
from panestream.spark.failures import first_sentence, of_spark, raise_as
from panestream.spark.places import escaped, local_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OWNER = "_panestream"
"""The marker in a sink's folder that names its query."""
ATTEMPTS = "_attempts"
"""In a sink's folder: attempts that are not published yet. Readers skip it."""
_CLAIM = "claim-"
_GIVEN_UP = "given_up"
_MISSING = ("FileNotFoundException", "NoSuchFileException", "FILE_NOT_EXIST", "PATH_NOT_FOUND")
"""Spark's errors about a missing file."""
_NOT_EMPTY = (errno.ENOTEMPTY, errno.EEXIST)


def owners(spark: SparkSession, folder: str) -> dict[str, dict[str, Any]]:
    """Return the markers of a sink's folder by the file's address; empty if no query has claimed it."""
    way_out = f"it contains the query that owns {folder}. Restore it from a copy, or choose another directory"
    return read_markers(spark, _pattern(folder), way_out)


def claim(spark: SparkSession, folder: str, query: str, queries: Collection[str]) -> dict[str, dict[str, Any]]:
    """Leave a marker for ``query`` in a sink's folder, unless another query is first; ``queries`` are all its identities.

    Returns the markers as :func:`owners` does: this query's, or that of an earlier query. Raises SinkError if another query
    claims the folder at the same moment.
    """
    try:
        return _claim(spark, folder, query, queries)
    except Exception as error:
        if not _is_of_missing_file(error):
            raise
        # The owner's first micro-batch sweeps all claims, also those that are being written or read.
        found = owners(spark, folder)
        if not found and isinstance(error, PanestreamError):
            raise
        if found:
            return found
        gone = SinkError(
            f"{folder} lost a file while this query claimed it ({first_sentence(error)}): another query starts at the same "
            "moment, or the folder was deleted. Start again, or choose another directory for one of them"
        )
        raise_as(gone, error)


def _is_of_missing_file(error: Exception) -> bool:
    cause = getattr(error, "spark_error", None) or error
    return isinstance(cause, FileNotFoundError) or (of_spark(cause) and any(sign in str(cause) for sign in _MISSING))


def _claim(spark: SparkSession, folder: str, query: str, queries: Collection[str]) -> dict[str, dict[str, Any]]:
    mine = f"{folder}/{ATTEMPTS}/{_CLAIM}{uuid.uuid4().hex}"
    write_marker(spark, mine, {"query": query})
    local = [local_folder(address) for address in list_files(spark, f"{escaped(mine)}/{PARTS}")]
    if local and local[0] is not None and local[0].is_file():
        if not _move(local[0].parent, local[0].parents[2] / OWNER):
            return owners(spark, folder)
        return {address: {"query": query} for address in list_files(spark, _pattern(folder))}
    advice = "it claims a sink's folder for a query. Delete it if no query starts at this moment"
    claims = read_markers(spark, f"{escaped(folder)}/{ATTEMPTS}/{_CLAIM}*/{PARTS}", advice)
    if not any(Path(mine).name in path for path in claims) and (found := owners(spark, folder)):
        return found  # the owner has swept it, as only happens on a local file system
    strangers = [path for path, one in claims.items() if one.get("query") not in queries and not one.get(_GIVEN_UP)]
    if strangers:
        write_marker(spark, mine, {"query": query, _GIVEN_UP: True})
        raise SinkError(
            f"{folder} is claimed by another query that starts at the same moment ({strangers[0]}): choose another directory for "
            "one of them. If no other query starts, a start was interrupted: delete that claim and start again"
        )
    write_marker(spark, f"{folder}/{OWNER}", {"query": query})
    return owners(spark, folder)


def _pattern(folder: str) -> str:
    return f"{escaped(folder)}/{OWNER}/{PARTS}"


def _move(claimed: Path, owner: Path) -> bool:
    if owner.is_dir() and not any(owner.glob(PARTS)):
        _clear(owner)
    try:
        claimed.rename(owner)
    except FileNotFoundError:
        return False  # the owner has swept it
    except OSError as error:
        if error.errno not in _NOT_EMPTY:
            raise
        return False
    return True


def _clear(owner: Path) -> None:
    """Delete the remains of a start that was interrupted. An earlier panestream let Spark write the marker in place."""
    for path in [path for path in owner.iterdir() if not path.match(PARTS)]:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


__all__ = ["ATTEMPTS", "OWNER", "claim", "owners"]
