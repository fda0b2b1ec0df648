"""Keyed process functions on a stream: rows outside windows, with state and timers of the key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from panestream.datastream.events import KeyedEvents, Options, check_options
from panestream.datastream.result import WindowedResult
from panestream.datastream.windowed import Schema, WindowedStream
from panestream.engine.operators.row.process import process_spec
from panestream.engine.query import WindowQuery
from panestream.errors import InvalidPlanError
from panestream.windowing.assigners import GlobalWindows
from panestream.windowing.process_functions import KeyedProcessFunction
from panestream.windowing.signatures import check_methods

_OPTIONS = ("key_groups", "tasks", "memory_limit", "allow_pickled_state")


@dataclass(frozen=True, eq=False, repr=False)
class ProcessedResult(WindowedResult):
    """The outputs of a keyed process function. ``main`` has the key columns and the columns of the schema."""

    def top(self, n: int, by: str) -> WindowedResult:
        """Refuse, since the rows belong to no window whose largest could be taken."""
        raise InvalidPlanError(
            "top ranks the keys of a window, and a process function has none: rank the rows of .main with Spark"
        )

    def trace(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse, since a trace shows windows."""
        raise InvalidPlanError(
            "trace shows the windows of rows, and a process function has none: look at its state and timers, "
            "pst.state.read_checkpoint(spark, path).user_state"
        )


def processed_result(
    keyed: KeyedEvents,
    function: KeyedProcessFunction,
    schema: Schema,
    side_outputs: Mapping[str, Schema] | None,
    options: Options,
) -> WindowedResult:
    """Return the outputs of a process function over keyed rows; :meth:`KeyedStream.process` documents the arguments."""
    if isinstance(function, type) and issubclass(function, KeyedProcessFunction):
        raise InvalidPlanError(f"process wants an object, not the class itself: {function.__name__}()")
    if not isinstance(function, KeyedProcessFunction):
        raise InvalidPlanError(
            f"process wants an object of a class that extends KeyedProcessFunction, got {function!r}; for a function of the "
            "rows of a window, write .window(...).process(function, schema)"
        )
    check_methods(function, KeyedProcessFunction)
    windowed = WindowedStream(keyed, WindowQuery(GlobalWindows()))
    if options:
        check_options(options, dict.fromkeys(_OPTIONS))
        windowed = windowed.options(**options)
    for tag, columns in (side_outputs or {}).items():
        windowed = windowed.side_output(tag, columns)
    results = windowed.result_columns(schema)
    pickled = windowed.windowing.pickled_state
    return ProcessedResult(windowed, process_spec(function, results, keyed.source.row_schema, pickled_state=pickled))


__all__ = ["ProcessedResult", "processed_result"]
