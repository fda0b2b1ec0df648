"""The manifest of a savepoint. It is written last, so a folder without a manifest is not a savepoint."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of
from typing import TYPE_CHECKING, Any

from panestream.engine.plan import WindowPlan
from panestream.engine.savepoint.plans import plan_of
from panestream.errors import CheckpointError, StateFormatError
from panestream.spark.checkpoint.records import PARTS, list_files, read_markers, write_marker
from panestream.spark.places import escaped
from panestream.spark.savepoint.checked import check_manifest
from panestream.spark.savepoint.checksums import FileSums

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAVEPOINT_FORMAT = 1
"""The format of the manifest and the folder. Raise it with every incompatible change."""
_MANIFEST = "manifest"
_STATE = "state"
SOURCES = "sources"
"""The folder with the lists of files that were read, one for each source of files."""
_BROKEN = "the savepoint cannot be used. Take another one while the checkpoint is there"


@dataclass(frozen=True)
class SavepointManifest:
    """The description of a savepoint.

    Attributes:
        name: random, to distinguish savepoints in a reused folder.
        saved_plan: the query's plan as JSON (:mod:`panestream.engine.savepoint.plans`).
        headers: for each key group, by number, the state that belongs to no key.
        tables: the number of rows of each state table.
        checksums: by state table (:mod:`~panestream.spark.savepoint.checksums`). Empty in savepoints of earlier panestreams.
        batch_id: the micro-batch after which it was taken. None if made of history, as is ``checkpoint``, its path.
        succession: the :class:`panestream.spark.checkpoint.lineage.Lineage` of a query that starts from it, or None without one.
        sources: the position of each source of the query, in Spark's order.
        until: if made of history, rows before this time are included, and left out of a stream that starts from it.
        taken_at: the time in UTC.
    """

    saved_plan: Mapping[str, Any]
    headers: Sequence[Mapping[str, Any]]
    tables: Mapping[str, int]
    checksums: Mapping[str, FileSums] = field(default_factory=dict)
    batch_id: int | None = None
    checkpoint: str | None = None
    succession: Mapping[str, Any] | None = None
    sources: Sequence[Mapping[str, Any]] = ()
    until: int | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    taken_at: str = ""
    name: str = field(default_factory=lambda: uuid.uuid4().hex)

    @cached_property
    def plan(self) -> WindowPlan:
        """The query's plan, without user code."""
        return plan_of(self.saved_plan)

    @property
    def groups(self) -> int:
        return len(self.headers)


def table_folder(path: str, table: str) -> str:
    """Return the folder of a state table."""
    return f"{path.rstrip('/')}/{_STATE}/{table}"


def versions(spark: SparkSession) -> dict[str, str]:
    """Return the running versions of panestream and Spark."""
    try:
        ours = version_of("panestream")
    except PackageNotFoundError:
        ours = "unknown"
    return {"panestream": ours, "spark": spark.version}


def write_manifest(spark: SparkSession, path: str, manifest: SavepointManifest) -> None:
    """Write the manifest, which makes a folder with all its tables a savepoint; raises CheckpointError if it is one already."""
    _check_no_savepoint(spark, path)
    write_marker(spark, f"{path.rstrip('/')}/{_MANIFEST}", {"savepoint": SAVEPOINT_FORMAT, **asdict(manifest)})


def is_savepoint(spark: SparkSession, path: str) -> bool:
    """Return whether a folder holds a savepoint or an unfinished one."""
    base = escaped(path.rstrip("/"))
    return any(list_files(spark, each) for each in (_pattern(path), f"{base}/{_STATE}/*/{PARTS}"))


def read_manifest(spark: SparkSession, path: str) -> SavepointManifest:
    """Read the manifest of a savepoint.

    Raises:
        CheckpointError: the folder is not a savepoint, or an unfinished one.
        StateFormatError: a newer panestream wrote it.
        StateDamagedError: it cannot be read, or has an invalid field.
    """
    found = list(read_markers(spark, _pattern(path), _BROKEN).values())
    if not found:
        raise CheckpointError(f"{path} {_what_else(spark, escaped(path.rstrip('/')))}")
    told = dict(found[0])
    told.pop("format", None)
    format_ = told.pop("savepoint", None)
    if format_ != SAVEPOINT_FORMAT:
        newer = isinstance(format_, int) and format_ > SAVEPOINT_FORMAT
        by = "a newer panestream wrote it: run that version" if newer else "this version of panestream does not read it"
        raise StateFormatError(f"the savepoint {path} has format {format_!r}: {by}")
    known = {each: told[each] for each in SavepointManifest.__dataclass_fields__ if each in told}
    check_manifest(path, known, _BROKEN)
    return SavepointManifest(**known)


def _what_else(spark: SparkSession, base: str) -> str:
    """Describe a folder that is not a savepoint."""
    if list_files(spark, f"{base}/{_STATE}/*/{PARTS}"):
        return "was broken off while it was written: take another one"
    if list_files(spark, f"{base}/offsets"):
        return "is a checkpoint, and no savepoint: pst.savepoint(spark, checkpoint, folder) takes one of it"
    there = "is no savepoint (pst.savepoint makes one)"
    return there if list_files(spark, f"{base}/*") else f"{there}: there is nothing"


def check_free(spark: SparkSession, path: str) -> None:
    """Raise CheckpointError if a folder holds anything except an unfinished savepoint, which is overwritten."""
    base = path.rstrip("/")
    _check_no_savepoint(spark, path)
    files = list_files(spark, escaped(base), recursive=True)
    known = set(list_files(spark, f"{escaped(base)}/{{{_STATE},{SOURCES}}}/*/{PARTS}")) if files else set()
    other = next((file for file in files if file not in known), None)
    if other is not None:
        raise CheckpointError(f"{path} holds something else ({other}): a savepoint needs a folder of its own")


def _check_no_savepoint(spark: SparkSession, path: str) -> None:
    if list_files(spark, _pattern(path)):
        raise CheckpointError(f"{path} holds a savepoint already: each needs a folder of its own")


def _pattern(path: str) -> str:
    return f"{escaped(path.rstrip('/'))}/{_MANIFEST}/{PARTS}"


__all__ = [
    "SAVEPOINT_FORMAT",
    "SavepointManifest",
    "check_free",
    "is_savepoint",
    "read_manifest",
    "table_folder",
    "versions",
    "write_manifest",
]
