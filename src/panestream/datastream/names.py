"""Names that users choose, and those that are taken."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import pyarrow as pa

from panestream.datastream.starting import SPARKS_NAMES, check_sink
from panestream.engine.plan import MAIN, RESERVED
from panestream.errors import InvalidPlanError, did_you_mean
from panestream.spark.names import Names
from panestream.spark.sinks.base import Sink

__all__ = ["ASKED_FOR", "RESERVED", "check_added", "check_output", "checked_tag", "sinks_of", "takes_outputs"]

Method = TypeVar("Method", bound=Callable[..., Any])

ASKED_FOR = {
    "late": "late rows have one with .side_output_late_data('late')",
    "invalid": "rows without event time have one with .side_output_invalid('invalid')",
}
"""How a query gets the outputs that it has on request, by how they are called in general."""


def takes_outputs(method: Method) -> Method:
    """Remember the options of a method that takes sinks as keywords too, so that they can be told from outputs."""
    kinds = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(method).parameters.values()
    _OPTIONS[method.__name__] = [one.name for one in parameters if one.kind in kinds and one.name not in ("self", "outputs")]
    return method


_OPTIONS: dict[str, list[str]] = {}
"""The options of each method that takes sinks."""


def sinks_of(
    method: str,
    outputs: Mapping[str, Sink] | None,
    keywords: Mapping[str, object],
    options: Mapping[str, object],
    tags: Sequence[str],
) -> dict[str, Sink]:
    """Return the sinks by output.

    Args:
        method: the name of the method that was called, for errors.
        outputs: what was given as ``outputs=``.
        keywords: what was given as other keywords.
        options: the options that were given, which must not be sinks.
        tags: the outputs that the query has.

    Raises:
        InvalidPlanError: an output or an option does not exist, or an output was given twice.
        SinkError: something else was given instead of a sink.
    """
    if outputs is not None and not isinstance(outputs, Mapping):
        raise InvalidPlanError(f"{method}: outputs must be a dict from outputs to sinks, e.g. {{'main': sink}}, got {outputs!r}")
    own = dict(outputs or {})
    for name, value in options.items():
        if isinstance(value, Sink):
            raise InvalidPlanError(f"{name} is an option of {method}; for an output of that name write outputs={{{name!r}: ...}}")
    for name, value in keywords.items():
        if name not in tags and name in SPARKS_NAMES:
            raise InvalidPlanError(f"{name} is a trigger, not an output: write start(trigger={{{name!r}: {value!r}}}, ...)")
        if name in own:
            raise InvalidPlanError(f"{method}: the output {name!r} was given twice, in outputs= and as a keyword")
        if name not in tags and not isinstance(value, Sink):
            near = difflib.get_close_matches(name, _OPTIONS.get(method, ()), n=1)
            if near:
                raise InvalidPlanError(f"{method} has no option {name!r}; did you mean {near[0]!r}?")
    for tag, sink in {**own, **keywords}.items():
        check_output(tag, tags)
        own[tag] = check_sink(tag, sink)
    return own


def checked_tag(tag: str) -> str:
    """Return the name that the user chose for an output.

    Raises:
        InvalidPlanError: it is empty, begins with an underscore, has control characters, or is ``main``.
    """
    if not isinstance(tag, str) or not tag or not tag.isprintable() or tag.startswith("_") or tag == MAIN:
        raise InvalidPlanError(f"the name of an output is a text other than 'main', without a leading underscore, got {tag!r}")
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
