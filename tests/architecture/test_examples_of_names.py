"""A public name has an example in its docstring. The doctests of `src/panestream` run the examples,
with Spark if they need it (`tests/docstrings.py`)."""

from __future__ import annotations

import doctest
from types import ModuleType
from typing import Any

import pytest

import panestream

LISTS = {name: getattr(panestream, name) for name in (*panestream._NAMESPACES, "agg", "errors", "metrics", "testing")}
PUBLIC: dict[str, Any] = {
    **{name: getattr(panestream, name) for name in panestream.__all__},
    **{f"{at}.{name}": getattr(namespace, name) for at, namespace in LISTS.items() for name in dir(namespace) if name[0] != "_"},
}
"""All public values by their names after ``pst.``."""

WITHOUT_DOCSTRING = {
    "windows.GapExtractor": "an alias of a Callable",
    "windows.Window": "a union of two classes",
    "triggers.DeltaFunction": "an alias of a Callable",
    "functions.ReduceFunction": "an alias of a Callable",
}
"""Names that cannot have a docstring, with the reason. Constants, such as numbers, tuples and paths, cannot have one either."""


def has_example(value: object) -> bool:
    """Return whether the docstring has an example that the doctests run, not skip.

    >>> has_example(has_example), has_example(ModuleType("empty"))
    (True, False)
    """
    examples = doctest.DocTestParser().get_examples(getattr(value, "__doc__", None) or "")
    return any(not example.options.get(doctest.SKIP) for example in examples)


def made_by_function_with_example(name: str) -> bool:
    """Return whether this is a class of `pst.agg` that a function of `pst.agg` with an example returns."""
    at, _, of = name.partition(".")
    functions = [value for other, value in PUBLIC.items() if other.startswith("agg.") and hasattr(value, "__code__")]
    return at == "agg" and any(value.__annotations__.get("return") == of and has_example(value) for value in functions)


def documented(name: str) -> bool:
    """Return whether the value can have a docstring of its own."""
    value = PUBLIC[name]
    return name not in WITHOUT_DOCSTRING and (isinstance(value, (type, ModuleType)) or hasattr(value, "__code__"))


@pytest.mark.parametrize("name", [name for name in PUBLIC if documented(name)])
def test_public_name_has_an_example(name):
    assert has_example(PUBLIC[name]) or made_by_function_with_example(name)
