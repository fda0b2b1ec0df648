"""Names that users choose, and those that are taken."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pyarrow as pa

from panestream.engine.plan import MAIN, RESERVED
from panestream.errors import InvalidPlanError, did_you_mean
from panestream.spark.names import Names

__all__ = ["ASKED_FOR", "RESERVED", "check_added", "check_output", "checked_tag", "takes_sinks"]

Method = TypeVar("Method", bound=Callable[..., Any])

ASKED_FOR = {
    "late": "late rows have one with .side_output_late_data('late')",
    "invalid": "rows without event time have one with .side_output_invalid('invalid')",
}
"""How a query gets the outputs that it has on request, by how they are called in general."""


_TAKEN: dict[str, str] = {}
"""The arguments of all methods that take sinks by their tags, each with the method."""


def takes_sinks(method: Method) -> Method:
    """Reserve the arguments of a method that takes sinks as keywords: no output can be called like them."""
    for parameter in inspect.signature(method).parameters.values():
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD:
            _TAKEN.setdefault(parameter.name, method.__name__)
    return method


def checked_tag(tag: str) -> str:
    """A tag that the user chose.

    Raises:
        InvalidPlanError: it is no plain name, or taken.
    """
    if not isinstance(tag, str) or not tag.isidentifier() or tag.startswith("_") or tag == MAIN:
        raise InvalidPlanError(f"an output tag is a plain name other than 'main' (it becomes an argument of start), got {tag!r}")
    method = _TAKEN.get(tag)
    if method is not None:
        raise InvalidPlanError(f"an output cannot be called {tag!r}, which is another argument of {method}: choose another tag")
    return tag


def check_output(tag: str, known: Sequence[str]) -> None:
    """Refuses an output that the query does not have.

    Raises:
        InvalidPlanError: says which there are, and how late and invalid rows get one.
    """
    if tag in known:
        return
    kind = tag.split("_", maxsplit=1)[0]
    asked = kind in ASKED_FOR and not any(other.startswith(kind) for other in known)
    raise InvalidPlanError(f"there is no output {tag!r}; {did_you_mean(tag, known)}{f' ({ASKED_FOR[kind]})' if asked else ''}")


def check_added(what: str, added: Sequence[pa.Field], there: Sequence[str], names: Names) -> None:
    """Refuses columns beside the results that are called as one of them.

    Args:
        what: which method adds them, for errors.
        added: the columns.
        there: what keys and results are called.
        names: how names compare.

    Raises:
        InvalidPlanError: says which, and what to do.
    """
    for column in added:
        if names.find(column.name, there) is not None:
            raise InvalidPlanError(f"{what} adds a column {column.name!r}, the results have one already: rename it")
