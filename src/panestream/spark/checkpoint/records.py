"""Markers: small records in a checkpoint or a sink's folder. Spark reads and writes them on any file system.

A marker is one line of JSON in its own folder, which is written elsewhere and then moved into place. Paths are listed before
they are read, since Spark logs a stack trace for each missing path. If this process sees the same files as Spark, it reads and
writes the markers itself: a job of Spark takes half a second, and several times as long in a new session.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote
from zlib import crc32

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from panestream.errors import StateDamagedError, StateFormatError
from panestream.spark.failures import first_sentence, of_ended_spark, of_spark, raise_as, writing
from panestream.spark.places import escaped, file_place, local_folder, without_pattern
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
    # An interrupted write leaves a folder whose name begins with a dot. Spark's patterns match it.
    addresses = [address for address in list_files(spark, pattern) if not address.split("/")[-2].startswith(".")]
    if not addresses:
        return {}
    contents = _contents_here(addresses)
    if contents is None:
        try:
            files = read_files(spark, pattern)
        except Exception as error:
            if not of_spark(error) or of_ended_spark(error):
                raise
            # Spark's error has the file's name and a hundred lines of stack, e.g. if the file's own checksum (.crc) differs.
            raise_as(StateDamagedError(f"a marker of {pattern} cannot be read: {what_to_do} ({first_sentence(error)})"), error)
        by_tail = {_tail(path): content for path, content in files.items()}
        contents = {address: by_tail.get(_tail(unquote(address)), b"") for address in addresses}
    return {address: _decoded(contents[address], unquote(address), what_to_do) for address in sorted(addresses)}


def _contents_here(addresses: Iterable[str]) -> dict[str, bytes] | None:
    """Return the contents of files by address, or None if this process cannot read them all."""
    try:
        return {address: Path(local_folder(address) or "").read_bytes() for address in addresses}
    except OSError:
        return None


def write_marker(spark: SparkSession, path: str, marker: Mapping[str, Any], folder: Path | None = None) -> None:
    """Write a marker into its own folder, replacing the old one. Raise EnvironmentNotReadyError if Spark cannot write there.

    ``folder`` is the same folder, if it is known that this process sees it.
    """
    folder = folder or folder_here(spark, path)
    if folder is not None and _is_written_here(folder, _encoded(marker)):
        return
    with writing(path, any_reason=True):
        spark.range(1).select(F.lit(_encoded(marker)).alias("value")).coalesce(1).write.mode("overwrite").text(path)


def _is_written_here(folder: Path, text: str) -> bool:
    """Write a new marker, and return whether it was possible: not over an old marker, nor in a folder of another user."""
    beside = folder.with_name(f".{folder.name}-{uuid.uuid4().hex}")
    try:
        beside.mkdir(parents=True)
        (beside / f"part-{uuid.uuid4().hex}").write_text(text + "\n", encoding="utf-8")
        beside.rename(folder)
    except OSError:
        shutil.rmtree(beside, ignore_errors=True)
        return False
    return True


def folder_here(spark: SparkSession, path: str) -> Path | None:
    """Return the folder that ``path`` means to Spark, or None if this process may see another one by that name.

    Spark resolves a relative path in the folder in which it was started, and one without a scheme in its default file system.
    """
    scheme, slash, _ = path.partition("/")
    if not slash or scheme not in ("", "file:") or is_connect(spark):
        return None
    key = (spark.conf.get("spark.app.id", "") or "", scheme)
    if key[0] and key not in _sees_temporary_file:
        with tempfile.NamedTemporaryFile() as file:
            _sees_temporary_file[key] = bool(_listed(spark, f"{scheme}{escaped(file.name)}"))
    return Path(file_place(path).removeprefix("file:")) if _sees_temporary_file.get(key) else None


_sees_temporary_file: dict[tuple[str, str], bool] = {}
"""Whether Spark sees a temporary file of this process, by application and by the scheme of the file's address."""


def list_files(spark: SparkSession, pattern: str, recursive: bool = False) -> list[str]:
    """Return the addresses of all matching files, without a Spark job. Blanks are encoded as ``%20``."""
    folder = folder_here(spark, without_pattern(pattern))
    if folder is not None and not folder.exists():
        return []
    return _listed(spark, pattern, recursive)


def _listed(spark: SparkSession, pattern: str, recursive: bool = False) -> list[str]:
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
