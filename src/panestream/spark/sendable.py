"""Check that user functions can be sent to Spark's workers; the error names the function and the variable."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from types import CodeType, FunctionType, MethodType
from typing import Any, NamedTuple

from pyspark import cloudpickle

from panestream.errors import InvalidPlanError

_OURS = ("panestream.", "builtins", "functools", "collections")


class Unsendable(NamedTuple):
    """A value that cannot be pickled: its owner (a function or object), how the owner holds it, and the value."""

    owner: str
    holds: str
    value: object


def check_sendable(recipe: object) -> None:
    """Raise InvalidPlanError, with function and variable, if a recipe cannot be pickled. PySpark would only print a stack."""
    error = _refusal(recipe)
    if error is None:
        return
    owner, holds, value = _first_unsendable(recipe, Unsendable("the query", "it holds", recipe), set())
    kind = type(value)
    if kind.__module__.split(".")[0] in ("pyspark", "py4j"):
        way_out = "Spark's objects exist on the driver only: collect what the function needs before the windows"
    else:
        way_out = "Create it inside the function, or in a module that the workers import"
    raise InvalidPlanError(
        f"{owner} cannot be sent to Spark's workers: {holds} a {kind.__module__}.{kind.__qualname__}, which cannot be "
        f"pickled. {way_out}"
    ) from error


def _refusal(value: object) -> Exception | None:
    try:
        cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
    except Exception as error:  # noqa: BLE001 (any class can raise anything here)
        return error
    return None


def _first_unsendable(value: object, found: Unsendable, seen: set[int]) -> Unsendable:
    """Follow the parts that cannot be pickled, down to one whose own parts can."""
    seen.add(id(value))
    owner = _owner(value)
    for label, part in _parts(value):
        if id(part) in seen or _refusal(part) is None:
            continue
        if owner is not None:
            holds = f"its {'variable' if isinstance(value, FunctionType) else 'attribute'} {label!r} is"
            there = Unsendable(owner, holds, part)
            return _first_unsendable(part, there, seen) if _is_users(part) else there
        return _first_unsendable(part, found._replace(value=part), seen)
    return found


def _owner(value: object) -> str | None:
    """Return how the error names a user function or object, or None for panestream's own and for containers."""
    if isinstance(value, FunctionType):
        code = value.__code__
        return f"the function {value.__qualname__!r} ({code.co_filename}, line {code.co_firstlineno})"
    kind = value if isinstance(value, type) else type(value)
    if isinstance(value, MethodType) or f"{kind.__module__}.".startswith(_OURS):
        return None
    return f"the class {kind.__qualname__!r}" if isinstance(value, type) else f"the object of the class {kind.__qualname__!r}"


def _is_users(value: object) -> bool:
    """Return whether a user wrote the parts of a value. Parts of a library's objects would not help a user."""
    kinds = (FunctionType, MethodType, partial, Mapping, list, tuple, set, frozenset, type)
    return isinstance(value, kinds) or type(value).__module__ == "__main__"


def _parts(value: object) -> Iterator[tuple[str, Any]]:
    """Yield the parts that are pickled with a value, by the user's names."""
    if isinstance(value, FunctionType):
        yield from zip(value.__code__.co_freevars, (_content(cell) for cell in value.__closure__ or ()), strict=True)
        yield from ((name, value.__globals__[name]) for name in _names(value.__code__) if name in value.__globals__)
        names = value.__code__.co_varnames[: value.__code__.co_argcount]
        yield from zip(reversed(names), reversed(value.__defaults__ or ()), strict=False)
        yield from (value.__kwdefaults__ or {}).items()
    elif isinstance(value, MethodType):
        yield from (("self", value.__self__), ("function", value.__func__))
    elif isinstance(value, partial):
        yield from (("function", value.func), ("arguments", value.args), ("arguments", value.keywords))
    elif isinstance(value, Mapping):
        yield from ((str(key), each) for key, each in value.items())
    elif isinstance(value, (list, tuple, set, frozenset)):
        yield from ((str(number), each) for number, each in enumerate(value))
    else:
        slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
        yield from ((name, getattr(value, name)) for name in slots if hasattr(value, name))
        yield from getattr(value, "__dict__", {}).items()
        yield "class", type(value)


def _content(cell: Any) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None


def _names(code: CodeType) -> Iterator[str]:
    """Yield the global names in a function and in the functions inside it."""
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)
