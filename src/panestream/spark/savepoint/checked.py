"""Check the content of a manifest. Its checksum only detects accidents, and its names become paths of files.

Anyone who can write to a savepoint can write a manifest with a matching checksum. A bad manifest must lead to an error, not to
another file or a stack trace.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from panestream.engine.savepoint.plans import plan_of
from panestream.engine.storage.state import MemoryState
from panestream.errors import PanestreamError, StateDamagedError

_TABLE = re.compile(r"[a-z][a-z_]*", re.ASCII)
_NAME = re.compile(r"\w{1,100}", re.ASCII)
_QUERY = re.compile(r"[\w+-]{1,200}", re.ASCII)
_FILE = re.compile(r"[^/\\\x00-\x1f]+")
_NUMBER = re.compile(r"-?\d{1,38}", re.ASCII)


def check_manifest(path: str, told: Mapping[str, Any], what_to_do: str) -> None:
    """Refuse a manifest whose fields, ``told``, are invalid; ``what_to_do`` ends the error's text.

    Raises:
        StateDamagedError: with the field.
        StateFormatError: its plan is of another version.
    """
    for name in ("saved_plan", "headers", "tables"):
        if name not in told:
            raise StateDamagedError(f"the manifest of the savepoint {path} has no {name!r}: {what_to_do}")
    for name, value in told.items():
        if name in _FIELDS and not _FIELDS[name](value):
            shown = repr(value)
            raise StateDamagedError(
                f"the manifest of the savepoint {path} has {name!r} as no savepoint has it "
                f"({shown if len(shown) <= 80 else shown[:77] + '...'}): {what_to_do}"
            )
    _check_tables(path, told, what_to_do)


def _check_tables(path: str, told: Mapping[str, Any], what_to_do: str) -> None:
    """Check that the tables are the plan's, because their names become folders."""
    try:
        plan = plan_of(told["saved_plan"])
        known = plan.operator.for_group(plan, MemoryState(), 0).tables().tables
    except PanestreamError:
        raise
    except Exception as error:  # a plan of another shape fails anywhere
        raise StateDamagedError(
            f"the plan in the manifest of the savepoint {path} cannot be read ({type(error).__name__}: {error}): {what_to_do}"
        ) from error
    # All of them, because a query would start without the state of a missing table.
    if set(told["tables"]) != set(known):
        raise StateDamagedError(
            f"the manifest of the savepoint {path} has the tables {', '.join(sorted(told['tables'])) or 'none'}, where its plan "
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
        isinstance(one, Mapping)
        and _is_count(one.get("number"))
        and isinstance(one.get("kind"), str)
        and isinstance(one.get("offset"), str)
        and _is_count(one.get("files", 0))
        and _are_sums(one.get("checksums", {}))
        for one in value
    )


def _is_succession(value: Any) -> bool:
    """Return whether it is a succession. Its identities are written by sinks and compared, but never used as paths."""
    if not isinstance(value, Mapping):
        return False
    queries, places = value.get("queries"), value.get("places", [])
    return (
        isinstance(queries, list)
        and bool(queries)
        and all(isinstance(one, str) and _QUERY.fullmatch(one) for one in queries)
        and isinstance(places, list)
        and all(map(_is_text, places))
        and _is_whole(value.get("first"))
        and _is_text(value.get("checkpoint"))
        and _is_whole(value.get("batch_id"))
    )


def _or_none(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or check(value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_FIELDS: Mapping[str, Callable[[Any], bool]] = {
    "saved_plan": lambda value: isinstance(value, Mapping),
    "headers": lambda value: isinstance(value, list) and bool(value) and all(isinstance(one, Mapping) for one in value),
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
}
"""A check for each field of a manifest."""

__all__ = ["check_manifest"]
