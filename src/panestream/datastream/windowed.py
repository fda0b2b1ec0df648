"""Events in windows: when they fire, what is left out, what is computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from panestream.datastream.events import WindowedEvents
from panestream.datastream.inputs import (
    check_collations,
    check_gap_of_rows,
    check_results,
    declared_of,
    gap_input,
    one_by_one,
    predicate_inputs,
    resolve_inputs,
)
from panestream.datastream.look_back import look_back_result
from panestream.datastream.names import RESERVED, checked_tag
from panestream.datastream.options import Options, check_options
from panestream.datastream.panes import PanesResult, panes_of
from panestream.datastream.result import WindowedResult
from panestream.engine.operators.accumulating.windowed_rows import AllWindows, OverRows, TablePerWindow
from panestream.engine.operators.row.row_plan import Aggregate, AnyWindowFunction, Elements, Reduce
from panestream.engine.plan import OperatorSpec
from panestream.engine.planner import choose
from panestream.engine.rule import DeclaredAggregates, FunctionOfRows, FunctionOfTables
from panestream.engine.split import split_of
from panestream.errors import InvalidPlanError, InvalidWindowError
from panestream.spark.columns import quoted, types_of
from panestream.spark.names import Names, shown
from panestream.spark.types import schema_of, to_arrow
from panestream.windowing import aggregates as recipes
from panestream.windowing.assigners.look_back import look_backs_of
from panestream.windowing.assigners.several import SeveralWindows
from panestream.windowing.evictors import Evictor, TimeEvictor
from panestream.windowing.foreign_names import advised
from panestream.windowing.functions import (
    AggregateFunction,
    ProcessWindowFunction,
    ReduceFunction,
    WindowFunction,
    applied,
    following,
    processed,
)
from panestream.windowing.signatures import (
    ALL_WINDOWS,
    APPLY_ARROW,
    APPLY_IN_PANDAS,
    REDUCE,
    check_function,
    check_methods,
)
from panestream.windowing.time import Duration, to_micros
from panestream.windowing.triggers import Trigger

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

Schema: TypeAlias = "str | StructType | pa.Schema"
"""The columns of what a function returns: DDL (``"n bigint, label string"``), Spark's type or Arrow's."""


def _aliases(given: Mapping[str, Any]) -> str:
    """How aggregates are written that were given by name."""
    named = [f"{one!r}.alias({name!r})" for name, one in given.items() if isinstance(one, recipes.Aggregate)]
    return f"write .aggregate({', '.join(named) or 'agg.count()'})"


def _at_the_start(given: object) -> str:
    """How to write a trigger of micro-batches, which was taken for one of windows."""
    return f"to say when micro-batches run, write start(trigger={given or '10 seconds'!r}, ...)"


def _no_trigger(given: object) -> InvalidPlanError:
    """The error for something else in place of a trigger."""
    instead = f"; {_at_the_start(given)}" if isinstance(given, (str, timedelta, Mapping)) else ""
    return InvalidPlanError(f"trigger wants a trigger such as CountTrigger.of(100), got {given!r}{instead}")


def with_schema(_: Mapping[str, Any]) -> str:
    """How to give the columns that a function returns."""
    return "give the columns of what the function returns, e.g. schema='n bigint, label string'"


class WindowedStream(WindowedEvents):
    """Events in windows. Flink: ``WindowedStream``."""

    @advised(_at_the_start)
    def trigger(self, trigger: Trigger) -> Self:
        """Decides when windows fire, instead of the assigner's default trigger. Flink: ``trigger``.

        Args:
            trigger: e.g. ``ContinuousEventTimeTrigger.of("5 minutes")``, or one of your own.
        """
        if not isinstance(trigger, Trigger):
            raise _no_trigger(trigger)
        check_methods(trigger, Trigger)
        return replace(self, windowing=replace(self.windowing, trigger=trigger))

    def evictor(self, evictor: Evictor) -> Self:
        """Leaves elements out before (or drops them after) the window's function runs. Keeps all elements. Flink: ``evictor``.

        Args:
            evictor: e.g. ``TimeEvictor.of("10 seconds")``, or one of your own.
        """
        if not isinstance(evictor, Evictor):
            raise InvalidPlanError(f"evictor wants an evictor such as CountEvictor.of(100), got {evictor!r}")
        check_methods(evictor, Evictor)
        if isinstance(evictor, TimeEvictor) and self.keyed.source.event_time is None:
            raise InvalidPlanError("a TimeEvictor looks at event times: .assign_timestamps(column, strategy) first")
        return replace(self, windowing=replace(self.windowing, evictor=evictor))

    def allowed_lateness(self, lateness: Duration) -> Self:
        """Windows take rows for ``lateness`` after their end, and fire again for each. Only event time knows lateness.

        A row later than that goes to the late output, or is counted. Flink: ``allowedLateness``.

        May be changed on an existing checkpoint, as long as the same operator runs the query: windows that are open then have the
        new lateness, and those that it closes go at once. A window that was closed stays closed: under a larger lateness rows for
        it are still late.
        """
        micros = to_micros(lateness, "allowed lateness")
        if micros < 0:
            raise InvalidWindowError(f"the allowed lateness must not be negative, got {lateness!r}")
        return replace(self, windowing=replace(self.windowing, allowed_lateness=micros))

    def side_output_late_data(self, tag: str) -> Self:
        """Sends late rows, whole, to the output ``tag``. Without it they are counted and dropped. Flink: ``sideOutputLateData``.

        Whole rows then have to cross the shuffle, since only the key group knows the watermark: ask for it where it is needed.
        """
        self._check_free(tag, [self.keyed.source.invalid_tag, *self.side_outputs])
        return replace(self, late_tag=checked_tag(tag))

    def side_output(self, tag: str, schema: Schema) -> Self:
        """Declares an output that a process function sends to with ``context.output(tag, value)``.

        Its rows have the key columns, ``window_start``, ``window_end``, and the columns of ``schema``. Flink: ``OutputTag``.
        """
        self._check_free(tag, [self.keyed.source.invalid_tag, self.late_tag])
        return replace(self, side_outputs={**self.side_outputs, checked_tag(tag): self._results(schema)})

    def options(self, **options: Unpack[Options]) -> Self:
        """Set options of the query. Of two calls the later one counts.

        Args:
            **options: see :class:`~panestream.datastream.Options`: ``key_groups``, ``tasks``, ``memory_limit``,
                ``split_distinct``, ``every_firing``, ``allow_pickled_state``.

        Raises:
            InvalidPlanError: an unknown option, or a value that it does not take.

        Examples:
            >>> keyed.window(pst.tumbling("1 hour")).options(key_groups=8, tasks=4)  # doctest: +SKIP
        """
        check_options(options)
        own: dict[str, Any] = dict(options)
        windowing = replace(
            self.windowing,
            every_firing=own.pop("every_firing", self.windowing.every_firing),
            pickled_state=own.pop("allow_pickled_state", self.windowing.pickled_state),
        )
        return replace(self, windowing=windowing, **own)

    @advised(_aliases)
    def aggregate(
        self,
        *aggregates: recipes.Aggregate | Column,
        then: AnyWindowFunction | Callable[..., Any] | None = None,
        schema: Schema | None = None,
    ) -> WindowedResult:
        """Aggregate the rows of each key and window, as columns.

        Args:
            *aggregates: aggregates of ``panestream.agg``, or aggregates of PySpark that mean the same: ``F.sum("price")``.
            then: a process function that is given the results of each firing window, as a tuple in their order. Flink: the
                second argument of ``aggregate``.
            schema: the columns that ``then`` returns (DDL, Spark's type or Arrow's).

        Returns:
            ``.main`` has the key columns, ``window_start``, ``window_end`` and a column for each aggregate, or the columns of
            ``schema``. Look-backs emit a row for each row: the key columns, the other columns of the row (see :meth:`keep`), and
            the aggregates; with several look-backs the label follows the name (``clicks_1h``).

        Raises:
            InvalidPlanError: no aggregate was given, a column is unknown, an aggregate does not take a type, or two results have
                the same name.

        Examples:
            >>> hours.aggregate(agg.count().alias("n"), F.sum("price").alias("total"))  # doctest: +SKIP
        """
        if not aggregates:
            raise InvalidPlanError("aggregate wants at least one aggregate, e.g. agg.count()")
        first: object = aggregates[0]
        if isinstance(first, AggregateFunction) or (isinstance(first, type) and issubclass(first, AggregateFunction)):
            name = first.__name__ if isinstance(first, type) else type(first).__name__
            raise InvalidPlanError(f"aggregate takes declared aggregates: write .aggregate_with({name}(), schema='...')")
        declared, inputs = resolve_inputs(self._df, declared_of(self._df, aggregates))
        look_backs = look_backs_of(self.windowing.assigner)
        if look_backs is not None:
            self._check_not_split("look-backs")
            return look_back_result(self, look_backs, declared, inputs, self.kept, following(then))
        if self.kept is not None:
            raise InvalidPlanError(
                "keep is for look-backs, whose results are of rows: a window has no row of its own, leave it out"
            )
        label = ["window"] if isinstance(self.windowing.assigner, SeveralWindows) else []
        check_results(self._df, declared, self.keyed.key_schema.names, label)
        inputs |= gap_input(self._df, self.windowing.assigner, self.gap)
        inputs |= predicate_inputs(self._df, self.windowing.assigner, self.predicates)
        looked_at = {name: F.col(quoted(name)) for name in self._df.columns} if self.windowing.sees_elements else {}
        inputs = {**looked_at, **inputs}
        kinds = types_of(self._df, inputs)
        collated = check_collations(declared, kinds)
        types = {text: to_arrow(kind, text) for text, kind in kinds.items()}
        function, results = following(then), None
        if function is not None:
            results = self._results(self._needed(schema, "then"))
        asked = DeclaredAggregates(declared, types, self.keyed.key_schema, function, results, tuple(looked_at))
        operator = choose(self.windowing, asked)
        split = None if self.split_distinct is None else split_of(self.split_distinct, declared, operator)
        collated = frozenset() if results is not None else collated
        return WindowedResult(self, operator, inputs, collated, split=split, asked=asked)

    @advised(with_schema)
    def aggregate_with(
        self,
        function: AggregateFunction,
        schema: Schema,
        *,
        then: AnyWindowFunction | Callable[..., Any] | None = None,
        accumulator_type: Schema | None = None,
    ) -> WindowedResult:
        """Aggregate the rows of each key and window with an aggregate function of your own. Flink: ``aggregate``.

        Args:
            function: its ``add`` is called with every row.
            schema: the columns that ``get_result`` returns, or ``then``.
            then: a process function that is given the one result of each firing window. Flink: the second argument.
            accumulator_type: the columns of an accumulator (``"total double, n bigint"``; PyFlink's argument). With it the
                function runs in two phases: ``add`` before the shuffle, in all tasks that read the input and once for all windows
                that a row lies in, ``merge`` in the task of the key. The answer stays the same if ``merge`` of two accumulators
                is what ``add`` makes of all their rows in any order. It needs ``merge``, the default or a continuous trigger, and
                no evictor. A checkpoint is tied to it. For a key that has most of the rows, see docs/how-to/skew.md.

        Returns:
            ``.main`` has the key columns, ``window_start``, ``window_end`` and the columns of ``schema``.

        Raises:
            InvalidPlanError: it is not an aggregate function; accumulators do not fit ``accumulator_type``, or the windows need
                every row.
        """
        if isinstance(function, type) and issubclass(function, AggregateFunction):
            raise InvalidPlanError(f"aggregate_with wants an object, not the class itself: {function.__name__}()")
        if isinstance(function, recipes.Aggregate):
            raise InvalidPlanError(f"aggregate_with takes a function of your own: write .aggregate({function!r})")
        if not isinstance(function, AggregateFunction):
            raise InvalidPlanError(f"aggregate_with wants an object of a class that extends AggregateFunction, got {function!r}")
        check_methods(function, AggregateFunction)
        accumulators = None if accumulator_type is None else self._columns(accumulator_type)
        return self._calling(Aggregate(function, following(then)), schema, "aggregate_with", accumulators)

    def keep(self, *columns: str) -> Self:
        """Name the columns of the row that the results of look-backs have; without it they have all.

        Args:
            *columns: names, or one list of names.
        """
        return replace(self, kept=one_by_one(columns))

    def panes(self, *aggregates: recipes.Aggregate) -> PanesResult:
        """Gives out what aggregates keep of the rows of each key and slice of time, instead of their results: tiles.

        The windows are the slices: tumbling, or of a calendar one behind the other. All else is as with :meth:`aggregate`: a tile
        goes out when the watermark passes its slice, and again, whole, for late rows within :meth:`allowed_lateness`. Longer
        windows are put together from stored tiles by :func:`panestream.from_panes`; docs/reference/tiles.md has the format. Flink
        has no counterpart.

        Args:
            *aggregates: declared aggregates (``panestream.agg``). Those that keep the same share it: of ``sum`` and ``mean`` of
                one column, the tiles have one.

        Returns:
            The result: ``.main`` has the key columns, ``window_start``, ``window_end``, ``rows``, a struct for each partial, and
            ``tile``, which says what they are of.

        Raises:
            InvalidPlanError: windows that overlap, or of another kind; a trigger other than the default; none given, or one whose
                partials cannot be kept.

        Examples:
            >>> keyed.window(TumblingEventTimeWindows.of("1 hour")).panes(agg.sum("price"))  # doctest: +SKIP
        """
        if not aggregates:
            raise InvalidPlanError("panes wants at least one aggregate, e.g. agg.count()")
        self._check_not_split("panes")
        return panes_of(self, aggregates)

    def reduce(
        self,
        function: ReduceFunction,
        *,
        then: AnyWindowFunction | Callable[..., Any] | None = None,
        schema: Schema | None = None,
        two_phase: bool = False,
    ) -> WindowedResult:
        """Combines rows two at a time into one. Flink: ``reduce``.

        Args:
            function: given two rows, returns one (``a.replace(n=a.n + b.n)``, or a tuple of the same columns).
            then: a process function that is given the one row of each firing window; needs ``schema``.
            schema: the columns of what ``then`` returns.
            two_phase: combine rows before the shuffle too, in all tasks that read the input, as ``accumulator_type`` of
                :meth:`aggregate_with` does. The function must not depend on the order of rows.

        Returns:
            Without ``then``: key columns, window, and the other columns of the row.
        """
        check_function(function, REDUCE)
        after = following(then)
        if after is not None:
            accumulators = self.keyed.source.row_schema if two_phase else None
            return self._calling(Reduce(function, after), schema, "reduce", accumulators)
        self._check_not_split("reduce")
        check_gap_of_rows(self._df, self.windowing.assigner, self.gap)
        rows = self.keyed.source.row_schema
        naming = Names.of(self._df.sparkSession)
        find_key, find_reserved = naming.finder(self.keyed.key_schema.names), naming.finder(RESERVED)
        kept = [column for column in rows if find_key(column.name) is None]
        taken = [column.name for column in kept if find_reserved(column.name) is not None]
        if taken:
            raise InvalidPlanError(f"the input has a column {taken[0]!r}, results have such a column too: rename it first")
        keys, accumulators = (self.keyed.key_schema, rows) if two_phase else (None, None)
        asked = FunctionOfRows(Reduce(function), pa.schema(kept), rows, function, keys, accumulators)
        operator = choose(self.windowing, asked)
        return WindowedResult(self, operator, self._inputs_of(operator), asked=asked)

    @advised(with_schema)
    def apply(self, function: WindowFunction | Callable[..., Any], schema: Schema) -> WindowedResult:
        """Runs a function over all rows of each firing window. Flink: ``apply``.

        Args:
            function: a :class:`WindowFunction`, or a function of key, window and rows that returns results, none to many.
            schema: their columns. A result is a tuple or dict of such, or the bare value where there is one column. A value that
                would lose something in its column is refused; the page on functions has a table.
        """
        return self._calling(Elements(applied(function)), schema, "apply")

    @advised(with_schema)
    def process(
        self, function: ProcessWindowFunction | Callable[..., Any], schema: Schema, *, stateless: bool = False
    ) -> WindowedResult:
        """Runs a function over all rows of each firing window, with a context. Flink: ``process``.

        Args:
            function: a :class:`ProcessWindowFunction`, or a function of key, context and rows that returns results, none to many.
            schema: their columns. A result is a tuple or dict of such, or the bare value where there is one column.
            stateless: the function keeps nothing between its calls: it never asks for ``context.window_state()`` or
                ``context.global_state()``, which raise then. On tumbling, sliding and cumulating windows of event time that fire
                at their end, rows rest as columns, each once, as those of :meth:`apply` do; of several late firings of a window
                in one micro-batch it sees the last. A checkpoint is tied to it. Flink has no counterpart.
        """
        return self._calling(Elements(processed(function), stateless), schema, "process")

    def _calling(
        self, function: Reduce | Aggregate | Elements, schema: Schema | None, what: str, accumulators: pa.Schema | None = None
    ) -> WindowedResult:
        self._check_not_split(what)
        results = self._results(self._needed(schema, what))
        check_gap_of_rows(self._df, self.windowing.assigner, self.gap)
        rows = self.keyed.source.row_schema
        asked = FunctionOfRows(function, results, rows, _shown(function), self.keyed.key_schema, accumulators)
        operator = choose(self.windowing, asked)
        return WindowedResult(self, operator, self._inputs_of(operator), asked=asked)

    def _inputs_of(self, operator: OperatorSpec) -> dict[str, Column]:
        """The columns of rows that an operator wants one by one, by their names; none where it takes rows whole."""
        if not operator.inputs:
            return {}
        wanted = [name for name in operator.inputs if name in self._df.columns]
        return {name: F.col(quoted(name)) for name in wanted} | gap_input(self._df, self.windowing.assigner, self.gap)

    @advised(with_schema)
    def apply_arrow(self, function: Callable[..., Any], schema: Schema, *, all_windows: bool = False) -> WindowedResult:
        """Runs a function over the rows of firing windows, as Arrow tables. Flink has no counterpart.

        On tumbling, sliding and cumulating event-time windows with the default trigger each row is kept once, however many
        windows it lies in, and no row becomes a Python object.

        Args:
            function: of key, window and a ``pyarrow.Table`` with the rows in the order of arrival; returns a table with the
                columns of ``schema``, of any number of rows, or rows as :meth:`apply` does (a list of tuples, or it yields them:
                for a row or two the faster way), or None. The key of several columns is a tuple. With
                ``all_windows``: of one table with the rows of all windows that fire in a key group (very many of them in
                several calls): key columns, ``window_start``, ``window_end``, then the other columns; returns key columns,
                bounds and the columns of ``schema``.
            schema: the columns of the results, besides keys and window.
            all_windows: one call instead of one for each key and window.

        Raises:
            InvalidPlanError: ``all_windows`` with windows or triggers that need the row operator.
        """
        check_function(function, ALL_WINDOWS if all_windows else APPLY_ARROW)
        shape = AllWindows(function) if all_windows else TablePerWindow(function)
        return self._over_tables(shape, schema, "apply_arrow")

    @advised(with_schema)
    def apply_in_pandas(self, function: Callable[..., Any], schema: Schema) -> WindowedResult:
        """Runs a function over the rows of each firing window, as a pandas frame; see :meth:`apply_arrow`.

        Args:
            function: of key, window and a ``pandas.DataFrame``; returns a frame with the columns of ``schema``, or rows
                as :meth:`apply` does, or None. Whole numbers stay exact: a column of them that has a null in this window is of a
                nullable type, such as ``Int64``; within arrays, structs and maps they are Python's, in arrays of objects.
            schema: the columns of the results, besides keys and window.
        """
        check_function(function, APPLY_IN_PANDAS)
        return self._over_tables(TablePerWindow(function, "pandas"), schema, "apply_in_pandas")

    def _over_tables(self, function: OverRows, schema: Schema, what: str) -> WindowedResult:
        self._check_not_split(what)
        results = self._results(self._needed(schema, what))
        check_gap_of_rows(self._df, self.windowing.assigner, self.gap)
        rows = self.keyed.source.row_schema
        asked = FunctionOfTables(function, results, rows, self.keyed.key_schema)
        return WindowedResult(self, choose(self.windowing, asked), asked=asked)

    def _check_not_split(self, what: str) -> None:
        if self.split_distinct is not None:
            raise InvalidPlanError(f"split_distinct is for agg.count_distinct, not for {what}: leave it out")

    @staticmethod
    def _check_free(tag: str, taken: Sequence[str | None]) -> None:
        if tag in taken:
            raise InvalidPlanError(f"there is an output {tag!r} already: the rows of the two differ, choose another tag")

    @staticmethod
    def _needed(schema: Schema | None, what: str) -> Schema:
        if schema is None:
            raise InvalidPlanError(f"{what} needs the columns that your function returns, e.g. schema='n bigint, label string'")
        return schema

    def _columns(self, schema: Schema) -> pa.Schema:
        return schema if isinstance(schema, pa.Schema) else schema_of(self._df.sparkSession, schema)

    def _results(self, schema: Schema) -> pa.Schema:
        """Columns that come after the key columns and the window."""
        columns = self._columns(schema)
        naming = Names.of(self._df.sparkSession)
        find_taken = naming.finder((*RESERVED, *self.keyed.key_schema.names))
        for name in columns.names:
            if find_taken(name) is not None:
                raise InvalidPlanError(
                    f"the schema has a column {name!r}: outputs have it anyway, leave it out and do not return it, or rename it"
                )
        doubled = naming.doubled(columns.names)
        if doubled is not None:
            raise InvalidPlanError(f"the schema has more than one column {shown(*doubled)}")
        return columns

    @property
    def _df(self) -> Any:
        return self.keyed.source.df


def _shown(function: Reduce | Aggregate | Elements) -> object:
    return function.function if isinstance(function, Elements) or function.then is None else (function.function, function.then)
