"""A public name has an example in its docstring. The doctests of `src/panestream` run the examples."""

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

PENDING = {
    f"{namespace}.{name}".lstrip(".")
    for namespace, names in {
        "": "BatchProgress RunningQuery build_session datastream from_kafka from_panes prepare savepoint stream tools",
        "datastream": (
            "AsOfJoin CoGroupedStream CoGroupedWindows DataStream IntervalJoin IntervalPairs JoinByTime KafkaStream "
            "KeyedStream PreparedQuery StoredPanes WindowedResult WindowedStream from_kafka from_panes prepare stream"
        ),
        "errors": (
            "AggregateOverflowError CallbackError CheckpointError EnvironmentNotReadyError FencedError "
            "InvalidEventTimeError JobError MalformedRecordError MemoryLimitError OperatorError PlanMismatchError "
            "SinkError StateDamagedError StateFormatError warn"
        ),
        "metrics": "JsonLinesMetrics OpenTelemetryMetrics",
        "sinks": "compact",
        "state": "CheckpointState Savepoint read_checkpoint read_savepoint savepoint",
        "testing": "MicroBatches Simulation SimulationError",
        "tools": "Lateness RunReport lateness live ship",
    }.items()
    for name in names.split()
}
"""Names that still need an example. A name must leave this set once it has one, and no name may enter it."""


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


@pytest.mark.parametrize("name", [name for name in PUBLIC if documented(name) and name not in PENDING])
def test_public_name_has_an_example(name):
    assert has_example(PUBLIC[name]) or made_by_function_with_example(name)


def test_pending_names_have_no_example_yet():
    assert not [name for name in PENDING if name not in PUBLIC or has_example(PUBLIC[name])]
