"""Checks of user functions when the query is built, since Python only checks arguments at a call, in a worker.

Functions without a readable signature (some built-ins) are accepted.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from types import FunctionType
from typing import Any
from weakref import WeakKeyDictionary

from panestream.errors import InvalidPlanError, PanestreamError

_SEEN: WeakKeyDictionary[type, set[type]] = WeakKeyDictionary()
"""User classes that passed, by panestream's class; cached since state descriptors may be created at every call."""
_ASYNC = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


@dataclass(frozen=True, slots=True)
class Shape:
    """How functions of one kind are called: the caller, as errors begin, the positional arguments, and a correct function."""

    user: str
    given: tuple[str, ...]
    example: str


REDUCE = Shape("reduce", ("a", "b"), "lambda a, b: a.replace(price=a.price + b.price)")
APPLY = Shape("apply", ("key", "window", "rows"), "lambda key, window, rows: [len(rows)]")
PROCESS = Shape("process", ("key", "context", "rows"), "lambda key, context, rows: [(context.window().end, len(rows))]")
THEN = Shape("then", ("key", "context", "results"), "lambda key, context, results: [results[0]]")
APPLY_ARROW = Shape("apply_arrow", ("key", "window", "table"), "lambda key, window, table: table.select(['price'])")
ALL_WINDOWS = Shape(
    "apply_arrow with all_windows=True",
    ("table",),
    "lambda table: table.group_by(['user', 'window_start', 'window_end']).aggregate([('price', 'sum')])",
)
APPLY_IN_PANDAS = Shape("apply_in_pandas", ("key", "window", "frame"), "lambda key, window, frame: frame[['price']]")
CO_GROUP_APPLY = Shape("apply", ("key", "window", "left", "right"), "lambda key, window, left, right: [(len(left), len(right))]")
CO_GROUP_ARROW = Shape(
    "apply_arrow", ("key", "window", "left", "right"), "lambda key, window, left, right: left.select(['price'])"
)
CO_GROUP_IN_PANDAS = Shape(
    "apply_in_pandas", ("key", "window", "left", "right"), "lambda key, window, left, right: left[['price']]"
)
GAP = Shape("with_dynamic_gap", ("row",), "lambda row: '5 minutes' if row.mobile else '30 minutes'")
GAP_IN_UNITS = Shape("a session's gap", ("row",), "lambda row: 300_000_000")
DELTA_TRIGGER = Shape("DeltaTrigger", ("last", "new"), "lambda last, new: abs(new.price - last.price)")
DELTA_EVICTOR = Shape("DeltaEvictor", ("row", "last"), "lambda row, last: abs(last.price - row.price)")
REDUCING_STATE = Shape("ReducingStateDescriptor", ("a", "b"), "lambda a, b: a + b")
GENERATOR = Shape("for_generator", (), "lambda: EndMarkers()")
FOREACH_BATCH = Shape("ForeachBatchSink", ("df", "batch_id"), "lambda df, batch_id: df.write.mode('append').parquet('out')")
ON_PROGRESS = Shape("on_progress", ("progress",), "lambda progress: print(progress.rows)")


def check_function(
    function: Any, shape: Shape, kind: type | None = None, error: type[PanestreamError] = InvalidPlanError
) -> None:
    """Check that a function can be called with the arguments of ``shape``.

    ``kind`` is the class that an object may have instead. Raises an ``error`` if it is not callable like this, async, or a class.

    >>> check_function(lambda key, window, rows: rows, APPLY)
    >>> check_function(lambda rows: rows, APPLY)
    Traceback (most recent call last):
    panestream.errors.InvalidPlanError: apply: the function <lambda> takes (rows), and will be given (key, window, rows); \
write it like lambda key, window, rows: [len(rows)]
    """
    if type(function) is FunctionType and _plainly_takes(function, len(shape.given)):
        return
    if not callable(function):
        or_object = f"a {kind.__name__}, or " if kind is not None else ""
        raise error(
            f"{shape.user} needs {or_object}a function of {_listed(shape.given)}, got {function!r}; write it like {shape.example}"
        )
    if isinstance(function, type) and (_has_call(function) or (kind is not None and issubclass(function, kind))):
        raise error(f"{shape.user} needs an object, not the class itself: {function.__name__}()")
    _check(function, f"{shape.user}: the function {_name_of(function)}", shape.given, shape.example, error)


def check_methods(written: object, base: type) -> None:
    """Check that the methods of a user object or class can be called like the public methods of ``base``."""
    owner = written if isinstance(written, type) else type(written)
    seen = _SEEN.setdefault(owner, set())
    if base in seen:
        return
    for ancestor in base.__mro__:
        for name, ours in vars(ancestor).items():
            if name.startswith("_") or getattr(owner, name, None) is ours:
                continue
            if isinstance(ours, property):
                _check_property(owner, name)
            elif isinstance(ours, FunctionType):
                _check_method(written, owner, name, ours)
    seen.add(base)


def check_generator(generator: Any) -> None:
    """Check that a watermark generator is created by a call without arguments; see :func:`check_function`."""
    if isinstance(generator, type):
        if inspect.isabstract(generator):
            missing = ", ".join(sorted(getattr(generator, "__abstractmethods__", ())))
            raise InvalidPlanError(f"for_generator: {generator.__name__} lacks {missing}: write it")
        _check(generator, f"for_generator: the class {generator.__name__}", (), GENERATOR.example, InvalidPlanError)
    else:
        check_function(generator, GENERATOR)


def _plainly_takes(function: FunctionType, arguments: int) -> bool:
    """Return True if the function certainly accepts the arguments. Reading the signature takes a hundred times as long."""
    code = function.__code__
    least = code.co_argcount - len(function.__defaults__ or ())
    return least <= arguments <= code.co_argcount and not code.co_kwonlyargcount and not code.co_flags & _ASYNC


def _check_property(owner: type, name: str) -> None:
    # An attribute is fine too, but a function would be true, whatever it returns.
    if isinstance(getattr(owner, name, None), FunctionType):
        raise InvalidPlanError(f"{owner.__name__}.{name} must be a property: put @property above def {name}(self)")


def _check_method(written: object, owner: type, name: str, ours: FunctionType) -> None:
    given = tuple(inspect.signature(ours).parameters)[1:]
    found = getattr(written, name, None)
    whole = f"{owner.__name__}.{name}"
    example = f"def {name}({', '.join(('self', *given))})"
    if not callable(found):
        raise InvalidPlanError(f"{whole} must be a method, not {found!r}: {example}")
    if isinstance(written, type):
        static = inspect.getattr_static(owner, name)
        if not isinstance(static, (FunctionType, staticmethod, classmethod)):
            return  # A descriptor that creates the method once there is an object.
        given = ("self", *given) if isinstance(static, FunctionType) else given
    _check(found, whole, given, example, InvalidPlanError)


def _check(function: Any, what: str, given: tuple[str, ...], example: str, error: type[PanestreamError]) -> None:
    if _is_async(function):
        raise error(f"{what} is async, but panestream does not await it. Write it with def, like {example}")
    try:
        # The function itself is called, even if it claims to wrap another.
        signature = inspect.signature(function, follow_wrapped=False)
    except (ValueError, TypeError):
        return
    try:
        signature.bind(*given)
    except TypeError as reason:
        shown = signature.replace(
            parameters=[one.replace(annotation=inspect.Parameter.empty) for one in signature.parameters.values()],
            return_annotation=inspect.Signature.empty,
        )
        more = f" ({reason})" if len(signature.parameters) > len(given) else ""
        raise error(f"{what} takes {shown}, and will be given ({', '.join(given)}){more}; write it like {example}") from None


def _is_async(function: Any) -> bool:
    candidates = (function, inspect.getattr_static(type(function), "__call__", None))
    return any(inspect.iscoroutinefunction(one) or inspect.isasyncgenfunction(one) for one in candidates)


def _has_call(owner: type) -> bool:
    return any("__call__" in vars(ancestor) for ancestor in owner.__mro__)


def _name_of(function: Any) -> str:
    inner = function
    while hasattr(inner, "func"):  # functools.partial
        inner = inner.func
    return str(getattr(inner, "__qualname__", None) or repr(function)).rpartition("<locals>.")[2]


def _listed(words: tuple[str, ...]) -> str:
    if len(words) < 2:
        return words[0] if words else "no arguments"
    return f"{', '.join(words[:-1])} and {words[-1]}"


__all__ = [
    "ALL_WINDOWS",
    "APPLY",
    "APPLY_ARROW",
    "APPLY_IN_PANDAS",
    "CO_GROUP_APPLY",
    "CO_GROUP_ARROW",
    "CO_GROUP_IN_PANDAS",
    "DELTA_EVICTOR",
    "DELTA_TRIGGER",
    "FOREACH_BATCH",
    "GAP",
    "GAP_IN_UNITS",
    "GENERATOR",
    "ON_PROGRESS",
    "PROCESS",
    "REDUCE",
    "REDUCING_STATE",
    "THEN",
    "Shape",
    "check_function",
    "check_generator",
    "check_methods",
]
