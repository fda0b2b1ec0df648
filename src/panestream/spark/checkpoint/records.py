"""Markers: small records in a checkpoint or a sink's folder. Spark reads and writes them on any file system.

A marker is one line of JSON in its own folder, which Spark writes elsewhere and then moves into place. Paths are listed before
they are read, since Spark logs a stack trace for each missing path.
"""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote
from zlib import crc32

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from panestream.errors import StateDamagedError, StateFormatError
from panestream.spark.failures import first_sentence, of_ended_spark, of_spark, raise_as, writing
from panestream.spark.session import is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FORMAT = "format"
_CHECKSUM = "crc32"
_VERSION = 1
PARTS = "part-*"
"""The pattern of the files that Spark writes into a folder."""


def read_markers(spark: SparkSession, pattern: str, what_to_do: str) -> dict[str, dict[str, Any]]:
    """Return the markers in all files that match ``pattern``, by the file's address; empty if no file matches.

    Args:
        spark: the session.
        pattern: a pattern of files for Spark's readers.
        what_to_do: the end of the message if a marker cannot be read.

    Raises:
        StateDamagedError: a file's marker is empty, truncated, changed or unreadable.
        StateFormatError: a newer panestream wrote it.
    """
    addresses = list_files(spark, pattern)
    if not addresses:
        return {}
    try:
        files = read_files(spark, pattern)
    except Exception as error:
        if not of_spark(error) or of_ended_spark(error):
            raise
        # Spark's error has the file's name and a hundred lines of stack, e.g. if the file's own checksum (.crc) differs.
        raise_as(StateDamagedError(f"a marker of {pattern} cannot be read: {what_to_do} ({first_sentence(error)})"), error)
    contents = {_tail(path): content for path, content in files.items()}
    paths = {address: unquote(address) for address in sorted(addresses)}
    return {address: _decoded(contents.get(_tail(path), b""), path, what_to_do) for address, path in paths.items()}


def write_marker(spark: SparkSession, path: str, marker: Mapping[str, Any]) -> None:
    """Write a marker into its own folder, replacing the old one. Raise EnvironmentNotReadyError if Spark cannot write there."""
    with writing(path, any_reason=True):
        spark.range(1).select(F.lit(_encoded(marker)).alias("value")).coalesce(1).write.mode("overwrite").text(path)


def write_new_marker(spark: SparkSession, path: str, folder: Path | None, marker: Mapping[str, Any]) -> None:
    """Write a new marker, without a Spark job if this process sees the marker's folder ``path`` as ``folder``."""
    if folder is not None:
        beside = folder.with_name(f".{folder.name}-{uuid.uuid4().hex}")
        try:
            beside.mkdir(parents=True)
            (beside / f"part-{uuid.uuid4().hex}").write_text(_encoded(marker) + "\n", encoding="utf-8")
            beside.rename(folder)
        except OSError:  # another user's folder, or a marker exists: Spark's error gives the reason
            shutil.rmtree(beside, ignore_errors=True)
        else:
            return
    write_marker(spark, path, marker)


def list_files(spark: SparkSession, pattern: str, recursive: bool = False) -> list[str]:
    """Return the addresses of all matching files, without a Spark job. Blanks are encoded as ``%20``."""
    try:
        files = _reader(spark, pattern, "text", recursive)
        if is_connect(spark):
            # A server logs the stack trace of a failed analysis request as an error, but not that of a failed run.
            files.limit(0).collect()
        return list(files.inputFiles())
    except AnalysisException as error:
        if not _is_missing(error):
            raise
        return []


def read_files(spark: SparkSession, pattern: str) -> dict[str, bytes]:
    """Return the contents of all matching files by path, except empty files and files of more than 16 MiB."""
    files = _reader(spark, pattern, "binaryFile").where(f"length <= {1 << 24}").select("path", "content").collect()
    return {row.path: bytes(row.content) for row in files}


def _reader(spark: SparkSession, pattern: str, kind: str, recursive: bool = False) -> DataFrame:
    # For a single path Spark checks whether its own file sink wrote there, and logs a stack trace if the path is missing.
    reader = spark.read.format(kind).option("recursiveFileLookup", str(recursive).lower())
    return reader.load([pattern, pattern])


def _tail(path: str) -> str:
    """Return folder and file. The two readers spell the rest of the path in different ways."""
    return "/".join(path.split("/")[-2:])


def _is_missing(error: AnalysisException) -> bool:
    return "PATH_NOT_FOUND" in str(error)


def _encoded(marker: Mapping[str, Any]) -> str:
    fields = {_FORMAT: _VERSION, **marker}
    return _as_text({**fields, _CHECKSUM: crc32(_as_text(fields).encode())})


def _as_text(marker: Mapping[str, Any]) -> str:
    return json.dumps(marker, sort_keys=True)


def _decoded(content: bytes, path: str, what_to_do: str) -> dict[str, Any]:
    try:
        marker = json.loads(content)
    except (ValueError, RecursionError):
        marker = None
    if not isinstance(marker, dict):
        what = "is cut off or no marker of panestream's" if content.strip() else "is empty"
        raise StateDamagedError(f"the marker {path} {what}: {what_to_do}")
    version = marker.get(_FORMAT)
    if not isinstance(version, int) or version > _VERSION:
        raise StateFormatError(
            f"the marker {path} is of a newer panestream (format {version!r}, this one knows {_VERSION}): run that version"
        )
    if marker.pop(_CHECKSUM, None) != crc32(_as_text(marker).encode()):
        raise StateDamagedError(f"the marker {path} was changed, its checksum is another: {what_to_do}")
    return marker
