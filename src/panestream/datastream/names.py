"""Output and column names that users choose: checks, and hints for missing ones."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import pyarrow as pa

from panestream.datastream.starting import SPARKS_NAMES, check_sink
from panestream.engine.plan import MAIN, RESERVED
from panestream.errors import InvalidPlanError, did_you_mean
from panestream.spark.columns import Names
from panestream.spark.sinks.base import Sink

__all__ = ["ASKED_FOR", "RESERVED", "check_added", "check_output", "checked_tag", "sinks_of", "takes_outputs"]

Method = TypeVar("Method", bound=Callable[..., Any])

ASKED_FOR = {
    "late": "late rows have one with .side_output_late_data('late')",
    "invalid": "rows without event time have one with .side_output_invalid('invalid')",
}
"""How to add the optional outputs, by their usual names."""


def takes_outputs(method: Method) -> Method:
    """Record the options of a method that also takes sinks as keywords, to distinguish them from outputs."""
    kinds = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(method).parameters.values()
    _OPTIONS[method.__name__] = [one.name for one in parameters if one.kind in kinds and one.name not in ("self", "outputs")]
    return method


_OPTIONS: dict[str, list[str]] = {}
"""The options of each recorded method."""


def sinks_of(
    method: str,
    outputs: Mapping[str, Sink] | None,
    keywords: Mapping[str, object],
    options: Mapping[str, object],
    tags: Sequence[str],
) -> dict[str, Sink]:
    """Return the sinks by output, from ``outputs=`` and keywords; refuse unknown or repeated outputs and sinks as ``options``."""
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
    """Return an output name; raise InvalidPlanError if it is empty, unprintable, ``main``, or begins with an underscore."""
    if not isinstance(tag, str) or not tag or not tag.isprintable() or tag.startswith("_") or tag == MAIN:
        raise InvalidPlanError(f"the name of an output is a text other than 'main', without a leading underscore, got {tag!r}")
    return tag


def check_output(tag: str, known: Sequence[str]) -> None:
    """Check that the query has an output; raise InvalidPlanError with the known ones and how to add late or invalid ones."""
    if tag in known:
        return
    kind = tag.split("_", maxsplit=1)[0]
    asked = kind in ASKED_FOR and not any(other.startswith(kind) for other in known)
    raise InvalidPlanError(f"there is no output {tag!r}; {did_you_mean(tag, known)}{f' ({ASKED_FOR[kind]})' if asked else ''}")


def check_added(what: str, added: Sequence[pa.Field], there: Sequence[str], names: Names) -> None:
    """Check that columns added by the method ``what`` have new names; raise InvalidPlanError otherwise."""
    for column in added:
        if names.find(column.name, there) is not None:
            raise InvalidPlanError(f"{what} adds a column {column.name!r}, the results have one already: rename it")
