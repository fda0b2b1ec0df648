"""Keyed process functions on a stream: rows outside windows, with state and timers of the key, and with broadcast rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from pyspark.sql import functions as F

from panestream.datastream.events import Events, KeyedEvents, Options, check_options
from panestream.datastream.result import WindowedResult
from panestream.datastream.two_streams import merge_streams
from panestream.datastream.windowed import Schema, WindowedStream, with_schema
from panestream.engine.explain import ReprHtml, parts_of
from panestream.engine.operators.row.broadcast import broadcast_spec
from panestream.engine.operators.row.process import process_spec
from panestream.engine.plan import WindowQuery
from panestream.engine.runtime.sides import RIGHT
from panestream.errors import InvalidPlanError
from panestream.spark.columns import type_of
from panestream.windowing.assigners import GlobalWindows
from panestream.windowing.foreign_names import advised
from panestream.windowing.process_functions import KeyedBroadcastProcessFunction, KeyedProcessFunction
from panestream.windowing.signatures import check_methods

if TYPE_CHECKING:
    from typing_extensions import Unpack

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
    keyed: KeyedEvents, function: object, schema: Schema, side_outputs: Mapping[str, Schema] | None, options: Options
) -> WindowedResult:
    """Return the outputs of a process function over keyed rows; :meth:`KeyedStream.process` documents the arguments."""
    sides = keyed.source.sides
    base: type[Any] = KeyedProcessFunction if sides is None else KeyedBroadcastProcessFunction
    if isinstance(function, type) and issubclass(function, base):
        raise InvalidPlanError(f"process wants an object, not the class itself: {function.__name__}()")
    if not isinstance(function, base):
        way_out = (
            "for rules, write .connect(rules).process(function, schema)"
            if isinstance(function, KeyedBroadcastProcessFunction)
            else "for a function of the rows of a window, write .window(...).process(function, schema)"
        )
        raise InvalidPlanError(f"process wants an object of a class that extends {base.__name__}, got {function!r}; {way_out}")
    check_methods(function, base)
    windowed = WindowedStream(keyed, WindowQuery(GlobalWindows()))
    if options:
        check_options(options, dict.fromkeys(_OPTIONS))
        windowed = windowed.options(**options)
    for tag, columns in (side_outputs or {}).items():
        windowed = windowed.side_output(tag, columns)
    results, pickled = windowed.result_columns(schema), windowed.windowing.pickled_state
    if sides is None:
        spec = process_spec(function, results, keyed.source.row_schema, pickled_state=pickled)
    else:
        spec = broadcast_spec(function, results, sides.left, sides.right, pickled_state=pickled)
    return ProcessedResult(windowed, spec)


@dataclass(frozen=True, eq=False, repr=False)
class BroadcastConnectedStream(ReprHtml):
    """A keyed stream and rules for all its keys, made by :meth:`KeyedStream.connect`. Flink: ``BroadcastConnectedStream``.

    >>> import panestream as pst
    >>> class Above(pst.functions.KeyedBroadcastProcessFunction):
    ...     LIMITS = pst.state.MapStateDescriptor("limits")
    ...     def process_element(self, value, ctx):
    ...         limits = ctx.get_broadcast_state(self.LIMITS)
    ...         return [page for page, limit in limits.items() if value.page == page and value.price > limit]
    ...     def process_broadcast_element(self, value, ctx):
    ...         ctx.get_broadcast_state(self.LIMITS).put(value.page, value.price)
    >>> keyed.connect(rules).process(Above(), "page string").main.columns
    ['user', 'page']
    """

    keyed: KeyedEvents

    @advised(with_schema)
    def process(
        self,
        function: KeyedBroadcastProcessFunction,
        schema: Schema,
        *,
        side_outputs: Mapping[str, Schema] | None = None,
        **options: Unpack[Options],
    ) -> WindowedResult:
        """Process rows with the rules, one by one, without windows. Flink: ``BroadcastConnectedStream.process``.

        Every key group processes every rule. Within a micro-batch, rules and rows come in the order of event time, rules first
        at the same time, and otherwise in order of arrival. Then the watermark moves and timers fire. A batch is one micro-batch.

        Args:
            function: a :class:`~panestream.functions.KeyedBroadcastProcessFunction`.
            schema: the columns of the results, as for :meth:`KeyedStream.process`. Results of a rule itself have null keys.
            side_outputs: the columns of each other output.
            **options: as for :meth:`KeyedStream.process`.

        Raises:
            InvalidPlanError: it is not such a function, a column is named like a key, or an option is unknown.
        """
        return processed_result(self.keyed, function, schema, side_outputs, options)

    def _parts(self) -> Mapping[str, str]:
        return {"streams": "rows and broadcast rules", **parts_of(self.keyed)}


def connected(keyed: KeyedEvents, rules: object) -> BroadcastConnectedStream:
    """Return a keyed stream with rules, or raise InvalidPlanError; :meth:`KeyedStream.connect` documents the arguments."""
    if not isinstance(rules, Events):
        raise InvalidPlanError(f"connect broadcasts a stream without a key, pst.stream(rules, ...), got {rules!r}")
    if rules.event_time is not None and rules.watermark.has_watermarks and rules.watermark.idle_timeout is None:
        raise InvalidPlanError(
            "connect: silent rules would hold the watermark back. Let the rows alone move it, pst.stream(rules, time='ts', "
            "watermark=WatermarkStrategy.no_watermarks()), or say when rules are idle, "
            "WatermarkStrategy.for_bounded_out_of_orderness('5 seconds').with_idleness('1 minute')"
        )
    df = keyed.source.df
    keys = [F.lit(None).cast(type_of(df, column)).alias(name) for name, column in keyed.key_columns]
    return BroadcastConnectedStream(
        KeyedEvents(*merge_streams(keyed, KeyedEvents(rules, tuple(keys)), "connect", follower=RIGHT))
    )


__all__ = ["BroadcastConnectedStream", "ProcessedResult", "connected", "processed_result"]
