"""The manifest of a savepoint, and the checks of its content. It is written last, so a folder without one is not a savepoint.

Its checksum only detects accidents, and its names become paths of files. Anyone who can write to a savepoint can write a manifest
with a matching checksum. A bad manifest must lead to an error, not to another file or a stack trace.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of
from typing import TYPE_CHECKING, Any

from panestream.engine.plan import WindowPlan
from panestream.engine.savepoint.operators import OPERATOR_NAME, default_name
from panestream.engine.savepoint.plans import plan_of
from panestream.engine.storage.state import MemoryState
from panestream.errors import CheckpointError, PanestreamError, StateDamagedError, StateFormatError
from panestream.spark.checkpoint.records import PARTS, list_files, read_markers, write_marker
from panestream.spark.places import escaped
from panestream.spark.savepoint.integrity import FileSums

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAVEPOINT_FORMAT = 1
"""The format of the manifest and the folder of a savepoint of one operator. Raise it with every incompatible change."""
CHAIN_FORMAT = 2
"""The format if the savepoint has several operators. It must differ: an earlier panestream must not read the last one alone."""
_MANIFEST = "manifest"
_STATE, _OPERATORS = "state", "operators"
SOURCES = "sources"
"""The folder with the lists of files that were read, one for each source of files."""
_BROKEN = "the savepoint cannot be used. Take another savepoint from the checkpoint"


@dataclass(frozen=True)
class SavepointManifest:
    """The description of a savepoint.

    Attributes:
        name: random, to distinguish savepoints in a reused folder.
        saved_plan: the query's plan as JSON (:mod:`panestream.engine.savepoint.plans`).
        headers: for each key group, by number, the state that belongs to no key.
        tables: the number of rows of each state table.
        checksums: by state table (:mod:`~panestream.spark.savepoint.integrity`). Empty in savepoints of earlier panestreams.
        batch_id: the micro-batch after which it was taken. None if made of history, as is ``checkpoint``, its path.
        succession: the :class:`panestream.spark.checkpoint.lineage.Lineage` of a query that starts from it, or None without one.
        sources: the position of each source of the query, in Spark's order.
        until: if made of history, rows before this time are included, and left out of a stream that starts from it.
        taken_at: the time in UTC.
        uid: the name of the operator in the query. Empty if it is the only one and the user did not name it.
        operators: the operators before it in the query, the first one first: for each ``uid``, ``saved_plan``, ``headers``,
            ``tables`` and ``checksums``.
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
    uid: str = ""
    operators: Sequence[Mapping[str, Any]] = ()

    @property
    def uids(self) -> tuple[str, ...]:
        """The names of all operators, the first one first."""
        return (*(each["uid"] for each in self.operators), self.uid or default_name(1))

    @cached_property
    def plan(self) -> WindowPlan:
        """The query's plan, without user code."""
        return plan_of(self.saved_plan)

    @property
    def groups(self) -> int:
        return len(self.headers)


def state_folder(number: int | None = None) -> str:
    """Return the folder of the last operator's tables in a savepoint, or of an operator before it, by its number from 0."""
    return _STATE if number is None else f"{_OPERATORS}/{number}"


def table_folder(path: str, table: str, folder: str = _STATE) -> str:
    """Return the folder of a state table. ``folder`` is from :func:`state_folder`."""
    return f"{path.rstrip('/')}/{folder}/{table}"


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
    saved = asdict(manifest)
    saved |= {"savepoint": CHAIN_FORMAT if manifest.operators else SAVEPOINT_FORMAT}
    for name in ("uid", "operators"):
        if not saved[name]:
            del saved[name]
    write_marker(spark, f"{path.rstrip('/')}/{_MANIFEST}", saved)


def is_savepoint(spark: SparkSession, path: str) -> bool:
    """Return whether a folder holds a savepoint or an unfinished one."""
    base = escaped(path.rstrip("/"))
    return any(list_files(spark, each) for each in (_pattern(path), *_table_patterns(base)))


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
    saved = dict(found[0])
    saved.pop("format", None)
    format_ = saved.pop("savepoint", None)
    if format_ not in (SAVEPOINT_FORMAT, CHAIN_FORMAT):
        newer = isinstance(format_, int) and format_ > CHAIN_FORMAT
        by = "a newer panestream wrote it: run that version" if newer else "this version of panestream does not read it"
        raise StateFormatError(f"the savepoint {path} has format {format_!r}: {by}")
    known = {each: saved[each] for each in SavepointManifest.__dataclass_fields__ if each in saved}
    check_manifest(path, known, _BROKEN)
    return SavepointManifest(**known)


def _what_else(spark: SparkSession, base: str) -> str:
    """Describe a folder that is not a savepoint."""
    if any(list_files(spark, each) for each in _table_patterns(base)):
        return "was interrupted while it was written. Take another savepoint"
    if list_files(spark, f"{base}/offsets"):
        return "is a checkpoint, and no savepoint: pst.savepoint(spark, checkpoint, folder) takes one of it"
    there = "is not a savepoint (pst.savepoint makes one)"
    return there if list_files(spark, f"{base}/*") else f"{there}: it does not exist"


def check_free(spark: SparkSession, path: str) -> None:
    """Raise CheckpointError if a folder holds anything except an unfinished savepoint, which is overwritten."""
    base = path.rstrip("/")
    _check_no_savepoint(spark, path)
    files = list_files(spark, escaped(base), recursive=True)
    patterns = (*_table_patterns(escaped(base)), f"{escaped(base)}/{SOURCES}/*/{PARTS}") if files else ()
    known = {file for pattern in patterns for file in list_files(spark, pattern)}
    other = next((file for file in files if file not in known), None)
    if other is not None:
        raise CheckpointError(f"{path} holds something else ({other}): a savepoint needs a folder of its own")


def _check_no_savepoint(spark: SparkSession, path: str) -> None:
    if list_files(spark, _pattern(path)):
        raise CheckpointError(f"{path} holds a savepoint already: each needs a folder of its own")


def _table_patterns(base: str) -> tuple[str, str]:
    return f"{base}/{_STATE}/*/{PARTS}", f"{base}/{_OPERATORS}/*/*/{PARTS}"


def _pattern(path: str) -> str:
    return f"{escaped(path.rstrip('/'))}/{_MANIFEST}/{PARTS}"


_TABLE = re.compile(r"[a-z][a-z_]*", re.ASCII)
_NAME = re.compile(r"\w{1,100}", re.ASCII)
_QUERY = re.compile(r"[\w+-]{1,200}", re.ASCII)
_FILE = re.compile(r"[^/\\\x00-\x1f]+")
_NUMBER = re.compile(r"-?\d{1,38}", re.ASCII)


def check_manifest(path: str, saved: Mapping[str, Any], what_to_do: str) -> None:
    """Refuse a manifest whose fields, ``saved``, are invalid; ``what_to_do`` ends the error's text.

    Raises:
        StateDamagedError: with the field.
        StateFormatError: its plan is of another version.
    """
    for name in ("saved_plan", "headers", "tables"):
        if name not in saved:
            raise StateDamagedError(f"the manifest of the savepoint {path} has no {name!r}: {what_to_do}")
    for name, value in saved.items():
        if name in _FIELDS and not _FIELDS[name](value):
            shown = repr(value)
            raise StateDamagedError(
                f"the manifest of the savepoint {path} has {name!r} as no savepoint has it "
                f"({shown if len(shown) <= 80 else shown[:77] + '...'}): {what_to_do}"
            )
    _check_tables(path, saved, what_to_do)
    for each in saved.get("operators", ()):
        check_manifest(f"{path}, operator {each['uid']},", each, what_to_do)


def _check_tables(path: str, saved: Mapping[str, Any], what_to_do: str) -> None:
    """Check that the tables are the plan's, because their names become folders."""
    try:
        plan = plan_of(saved["saved_plan"])
        known = plan.operator.for_group(plan, MemoryState(), 0).tables().tables
    except PanestreamError:
        raise
    except Exception as error:  # a plan of another shape fails anywhere
        raise StateDamagedError(
            f"the plan in the manifest of the savepoint {path} cannot be read ({type(error).__name__}: {error}): {what_to_do}"
        ) from error
    # All of them, because a query would start without the state of a missing table.
    if set(saved["tables"]) != set(known):
        raise StateDamagedError(
            f"the manifest of the savepoint {path} has the tables {', '.join(sorted(saved['tables'])) or 'none'}, where its plan "
            f"has {', '.join(sorted(known))}: {what_to_do}"
        )


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _each(keys: re.Pattern[str], values: Callable[[Any], bool]) -> Callable[[Any], bool]:
    def check(value: Any) -> bool:
        return isinstance(value, Mapping) and all(
            isinstance(key, str) and keys.fullmatch(key) and values(each) for key, each in value.items()
        )

    return check


def _is_sum(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 2
        and _is_count(value[0])
        and isinstance(value[1], str)
        and bool(_NUMBER.fullmatch(value[1]))
    )


_are_sums = _each(_FILE, _is_sum)


def _are_sources(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(each, Mapping)
        and _is_count(each.get("number"))
        and isinstance(each.get("kind"), str)
        and isinstance(each.get("offset"), str)
        and _is_count(each.get("files", 0))
        and _are_sums(each.get("checksums", {}))
        for each in value
    )


def _is_succession(value: Any) -> bool:
    """Return whether it is a succession. Its identities are written by sinks and compared, but never used as paths."""
    if not isinstance(value, Mapping):
        return False
    queries, places = value.get("queries"), value.get("places", [])
    return (
        isinstance(queries, list)
        and bool(queries)
        and all(isinstance(query, str) and _QUERY.fullmatch(query) for query in queries)
        and isinstance(places, list)
        and all(map(_is_text, places))
        and _is_whole(value.get("first"))
        and _is_text(value.get("checkpoint"))
        and _is_whole(value.get("batch_id"))
    )


_OF_OPERATOR = frozenset({"uid", "saved_plan", "headers", "tables", "checksums"})


def _are_operators(value: Any) -> bool:
    """Return whether they are operators with different names. Their fields are checked like those of the last."""
    if not isinstance(value, (list, tuple)) or not all(isinstance(each, Mapping) and set(each) == _OF_OPERATOR for each in value):
        return False
    names = [each["uid"] for each in value]
    return all(isinstance(name, str) and OPERATOR_NAME.fullmatch(name) for name in names) and len(set(names)) == len(names)


def _or_none(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or check(value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_FIELDS: Mapping[str, Callable[[Any], bool]] = {
    "saved_plan": lambda value: isinstance(value, Mapping),
    "headers": lambda value: isinstance(value, list) and bool(value) and all(isinstance(each, Mapping) for each in value),
    "tables": _each(_TABLE, _is_count),
    "checksums": _each(_TABLE, _are_sums),
    "batch_id": _or_none(_is_count),
    "checkpoint": _or_none(_is_text),
    "succession": _or_none(_is_succession),
    "sources": _are_sources,
    "until": _or_none(_is_whole),
    "versions": lambda value: isinstance(value, Mapping),
    "taken_at": _is_text,
    "name": lambda value: isinstance(value, str) and bool(_NAME.fullmatch(value)),
    "uid": lambda value: isinstance(value, str) and (not value or bool(OPERATOR_NAME.fullmatch(value))),
    "operators": _are_operators,
}
"""A check for each field of a manifest."""
