"""Windowed streams: when windows fire, which rows count, and the functions to compute, also over look-backs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from panestream.datastream.events import Options, WindowedEvents, check_options
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
from panestream.datastream.listed_keys import listed_keys
from panestream.datastream.look_backs import look_back_result
from panestream.datastream.result import WindowedResult
from panestream.datastream.starting import checked_tag
from panestream.datastream.stored import PanesResult, panes_of
from panestream.engine.operators.accumulating.windowed_rows import AllWindows, OverRows, TablePerWindow
from panestream.engine.operators.row.contents import AggregateRows, AnyWindowFunction, KeepRows, ReduceRows
from panestream.engine.plan import RESERVED, OperatorSpec
from panestream.engine.planner import choose, split_of
from panestream.engine.rule import DeclaredAggregates, FunctionOfRows, FunctionOfTables
from panestream.errors import InvalidPlanError, InvalidWindowError
from panestream.spark.columns import Names, quoted, shown_names, types_of
from panestream.spark.types import schema_of, to_arrow
from panestream.windowing import aggregates as recipes
from panestream.windowing.assigners.base import SeveralWindows
from panestream.windowing.assigners.look_back import look_backs_of, result_name
from panestream.windowing.assigners.rolling import AS_OF, RollingWindows
from panestream.windowing.evictors import Evictor, TimeEvictor
from panestream.windowing.fill import Fill
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
from panestream.windowing.signatures import ALL_WINDOWS, APPLY_ARROW, APPLY_IN_PANDAS, REDUCE, check_function, check_methods
from panestream.windowing.time import Duration, to_micros
from panestream.windowing.triggers import Trigger

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from typing_extensions import Self, Unpack


Schema: TypeAlias = "str | StructType | pa.Schema"
"""The columns that a function returns, as DDL (``"n bigint, label string"``), Spark type or Arrow schema."""


def _aliases(given: Mapping[str, Any]) -> str:
    """Return the correct call for aggregates that were passed by keyword."""
    named = [f"{value!r}.alias({name!r})" for name, value in given.items() if isinstance(value, recipes.Aggregate)]
    shown = [*named[:3], "..."] if len(named) > 4 else named
    return f"write .aggregate({', '.join(shown) or 'agg.count()'})"


def _at_the_start(given: object) -> str:
    """Return the correct call for a micro-batch trigger that was passed as a window trigger."""
    return f"to set when micro-batches run, write start(trigger={given or '10 seconds'!r}, ...)"


def _no_trigger(given: object) -> InvalidPlanError:
    instead = f"; {_at_the_start(given)}" if isinstance(given, (str, timedelta, Mapping)) else ""
    return InvalidPlanError(f"trigger needs a trigger such as CountTrigger.of(100), got {given!r}{instead}")


def with_schema(_: Mapping[str, Any]) -> str:
    """Return how to pass the columns that a function returns."""
    return "give the columns that the function returns, e.g. schema='n bigint, label string'"


class WindowedStream(WindowedEvents):
    """Events in windows. Flink: ``WindowedStream``.

    >>> windows = keyed.window(pst.tumbling("1 hour")).allowed_lateness("5 minutes").side_output_late_data("late")
    >>> windows.aggregate(agg.sum("price").alias("total")).output("late").columns
    ['user', 'page', 'price', 'ts']
    """

    @advised(_at_the_start)
    def trigger(self, trigger: Trigger) -> Self:
        """Set a trigger, built-in (``pst.triggers``) or user-defined, instead of the assigner's. Flink: ``trigger``.

        For a result after every third row, at the end of the window, and after each late row:
        ``AfterWatermark().early(AfterCount.of(3)).late(AfterCount.of(1))``. ``CountTrigger.of(3)`` alone never emits the
        remainder of a window.
        """
        if not isinstance(trigger, Trigger):
            raise _no_trigger(trigger)
        check_methods(trigger, Trigger)
        return replace(self, windowing=replace(self.windowing, trigger=trigger))

    def evictor(self, evictor: Evictor) -> Self:
        """Remove elements, which the state must then keep, before or after the window's function runs. Flink: ``evictor``.

        E.g. ``TimeEvictor.of("10 seconds")``, or a user-defined evictor.
        """
        if not isinstance(evictor, Evictor):
            raise InvalidPlanError(f"evictor needs an evictor such as CountEvictor.of(100), got {evictor!r}")
        check_methods(evictor, Evictor)
        if isinstance(evictor, TimeEvictor) and self.keyed.source.event_time is None:
            raise InvalidPlanError("a TimeEvictor needs event times. Call .assign_timestamps(column, strategy) first")
        return replace(self, windowing=replace(self.windowing, evictor=evictor))

    def allowed_lateness(self, lateness: Duration) -> Self:
        """Accept rows for ``lateness`` after a window's end, and fire again for each. Flink: ``allowedLateness``.

        The new result is a whole row that replaces the earlier one. A file sink keeps both: take the last one by the number of
        :meth:`WindowedResult.with_firing`, or write to a :class:`~panestream.MergeSink`. (The watermark's delay makes all results
        wait; lateness corrects them afterwards.)

        It applies to event time only, and not to a batch, which has no late rows. Later rows go to the late output, or are
        counted and dropped. It may be changed on an existing checkpoint while the same operator runs the query. Open windows then
        have the new lateness, and those that it closes are removed at once. Closed windows stay closed: under a larger lateness,
        their rows are still late.
        """
        micros = to_micros(lateness, "allowed lateness")
        if micros < 0:
            raise InvalidWindowError(f"the allowed lateness must not be negative, got {lateness!r}")
        return replace(self, windowing=replace(self.windowing, allowed_lateness=micros))

    def fill(
        self,
        method: str,
        results: Mapping[str, str] | None = None,
        *,
        max_gap: Duration | None = None,
        keys: DataFrame | Sequence[Any] | None = None,
    ) -> Self:
        """Also emit windows without rows, for each key from its first window with rows on. Not in Flink.

        A window without rows is emitted when the watermark passes its end, like other windows and in order. At the end of a
        batch, and of a stream with ``fire_at_end``, windows are filled up to the last one of the newest row. While no key has
        rows, the watermark does not move, and nothing is emitted. A row that arrives within :meth:`allowed_lateness` replaces a
        filled window, and corrects later ones that repeat its value.

        Args:
            method: how results get their values. ``"zero"`` is 0 for counts and sums, and null for others. ``"null"`` is null for
                all. ``"last"`` repeats the key's last window with rows. ``"linear"`` interpolates between the windows with rows
                before and after, by their starts. It emits filled windows together with the one after them, takes only
                floating-point results, and does not support :meth:`allowed_lateness`.
            results: other methods for single results, by name.
            max_gap: how long after the end of its last window with rows a key is filled, at least until the end of a window. With
                ``"linear"``, a longer gap is not filled at all. By default there is no limit: each known key gets a row for each
                window, forever.
            keys: keys that are filled even without rows, from the first window of the query on: the window of its earliest row.
                A batch DataFrame with the key columns (others are ignored), or a list of keys, read now. They may change between
                runs. A key that is added later begins with the first window that has not ended. A key that is left out is filled
                on. ``max_gap`` counts from the window before its first one. Not together with :meth:`allowed_lateness`.

        Raises:
            InvalidPlanError: a method or a duration is invalid, or ``keys`` lacks a key column, has another type, a null, or more
                than 10,000 keys. :meth:`aggregate` raises it for a result that is unknown or
                cannot be interpolated, and for windows that cannot be filled: they must be tumbling, sliding, cumulating or
                calendar windows of event time, with declared aggregates and the default trigger.

        Examples:
            >>> filled = keyed.window(pst.tumbling("1 hour")).fill("last", {"n": "zero"}, max_gap="1 day")
            >>> filled.aggregate(agg.last("price"), agg.count().alias("n")).main.select("user", "n").sort("user", "n").show()
            +----+---+
            |user|  n|
            +----+---+
            | ann|  1|
            | ann|  1|
            | bob|  0|
            | bob|  1|
            +----+---+
            <BLANKLINE>
        """
        fill = Fill.of(method, results, max_gap)
        listed = None if keys is None else listed_keys(self._df, self.keyed.key_schema, keys)
        return replace(self, windowing=replace(self.windowing, fill=fill, listed_keys=listed))

    def side_output_late_data(self, tag: str) -> Self:
        """Send late rows, whole, to the output ``tag`` instead of counting and dropping them. Flink: ``sideOutputLateData``.

        A row is late if all its windows are closed. With overlapping windows, a row that missed only some of them is counted in
        the others, and does not come here. A batch has no late rows: all rows count, and the output is empty.

        Whole rows must then cross the shuffle, since only the key group has the watermark. Use it only if you need it.
        """
        self._check_free(tag, [self.keyed.source.invalid_tag, *self.side_outputs])
        return replace(self, late_tag=checked_tag(tag))

    def side_output(self, tag: str, schema: Schema) -> Self:
        """Declare an output that a process function writes to with ``context.output(tag, value)``.

        Its rows have the key columns, ``window_start``, ``window_end``, and the columns of ``schema``. Flink: ``OutputTag``.
        """
        self._check_free(tag, [self.keyed.source.invalid_tag, self.late_tag])
        return replace(self, side_outputs={**self.side_outputs, checked_tag(tag): self.result_columns(schema)})

    def options(self, **options: Unpack[Options]) -> Self:
        """Set options of the query; a later call overrides an earlier one.

        ``key_groups``, ``tasks``, ``memory_limit``, ``split_distinct``, ``rows_per_pane``, ``every_firing`` and
        ``allow_pickled_state`` are described in :class:`~panestream.datastream.Options`. Raises InvalidPlanError if an option is
        unknown or its value is invalid.

        Examples:
            >>> hours = keyed.window(pst.tumbling("1 hour")).options(key_groups=8, tasks=4)
            >>> hours.key_groups, hours.tasks
            (8, 4)
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

        ``.main`` has the key columns, ``window_start``, ``window_end`` and a column for each aggregate, or the columns of
        ``schema``. Look-backs emit a row for each row: the key columns, its other columns (see :meth:`keep`), and the aggregates.
        With several look-backs their label is appended to the names (``clicks_1h``). Rolling windows
        (:meth:`KeyedStream.rolling`) emit the key columns, ``as_of`` and the aggregates, with the labels.

        Args:
            *aggregates: aggregates of ``panestream.agg``, or equivalent PySpark aggregates such as ``F.sum("price")``.
            then: a process function of key, context and results. The results are a list of one plain tuple, the values in the
                order of the aggregates. It returns all columns of ``schema``. Flink: the second argument of ``aggregate``.
            schema: the columns that ``then`` returns (DDL, Spark type or Arrow schema).

        Raises:
            InvalidPlanError: ``aggregates`` is empty, a column is unknown, an aggregate does not accept a type, or result names
                repeat.

        Examples:
            >>> hours.aggregate(agg.count().alias("n"), F.sum("price").alias("total")).main.columns
            ['user', 'window_start', 'window_end', 'n', 'total']
        """
        if not aggregates:
            raise InvalidPlanError("aggregate needs at least one aggregate, e.g. agg.count()")
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
                "keep is for look-backs, whose results belong to rows. Leave it out: a window does not have a row"
            )
        self._check_names(declared)
        inputs |= gap_input(self._df, self.windowing.assigner, self.gap)
        inputs |= predicate_inputs(self._df, self.windowing.assigner, self.predicates)
        looked_at = {name: F.col(quoted(name)) for name in self._df.columns} if self.windowing.sees_elements else {}
        inputs = {**looked_at, **inputs}
        kinds = types_of(self._df, inputs)
        collated = check_collations(declared, kinds)
        types = {text: to_arrow(kind, text) for text, kind in kinds.items()}
        function, results = following(then), None
        if function is not None:
            results = self.result_columns(self._needed(schema, "then"))
        request = DeclaredAggregates(declared, types, self.keyed.key_schema, function, results, tuple(looked_at))
        operator = choose(self.windowing, request)
        split = None if self.split_distinct is None else split_of(self.split_distinct, declared, operator)
        collated = frozenset() if results is not None else collated
        return WindowedResult(self, operator, inputs, collated, split=split, asked=request)

    if TYPE_CHECKING:
        agg = aggregate  # PySpark's name for it, which windowing/foreign_names.py resolves at run time

    @advised(with_schema)
    def aggregate_with(
        self,
        function: AggregateFunction,
        schema: Schema,
        *,
        then: AnyWindowFunction | Callable[..., Any] | None = None,
        accumulator_type: Schema | None = None,
    ) -> WindowedResult:
        """Aggregate the rows of each key and window with a user-defined aggregate function. Flink: ``aggregate``.

        ``.main`` has the key columns, ``window_start``, ``window_end`` and the columns of ``schema``.

        Args:
            function: its ``add`` is called with every row.
            schema: the columns that ``get_result`` returns, or ``then`` if given.
            then: a process function that gets the result of each firing window. Flink: the second argument.
            accumulator_type: the columns of an accumulator, e.g. ``"total double, n bigint"`` (PyFlink's argument), to run in two
                phases. ``add`` runs before the shuffle, in all tasks that read the input and once for all windows of a row, and
                ``merge`` runs in the task of the key. The result is the same only if ``merge`` of two accumulators equals ``add``
                over all their rows in any order. Requires ``merge``, the default or a continuous trigger, and no evictor. A
                checkpoint is tied to it. For a key with most of the rows, see docs/how-to/skew.md.

        Raises:
            InvalidPlanError: it is not an aggregate function, accumulators do not fit ``accumulator_type``, or the windows need
                every row.
        """
        if isinstance(function, type) and issubclass(function, AggregateFunction):
            raise InvalidPlanError(f"aggregate_with needs an object, not the class itself: {function.__name__}()")
        if isinstance(function, recipes.Aggregate):
            raise InvalidPlanError(f"aggregate_with takes a user function. Write .aggregate({function!r})")
        if not isinstance(function, AggregateFunction):
            raise InvalidPlanError(f"aggregate_with needs an object of a class that extends AggregateFunction, got {function!r}")
        check_methods(function, AggregateFunction)
        accumulators = None if accumulator_type is None else self._columns(accumulator_type)
        return self._calling(AggregateRows(function, following(then)), schema, "aggregate_with", accumulators)

    def keep(self, *columns: str) -> Self:
        """Choose the input columns that look-back results include, by names or one list of names. The default is all."""
        return replace(self, kept=one_by_one(columns))

    def panes(self, *aggregates: recipes.Aggregate) -> PanesResult:
        """Emit the partial aggregates of each key and time slice, called tiles, instead of results. Not in Flink.

        The windows are the slices: tumbling windows, or consecutive calendar windows. As with :meth:`aggregate`, a tile is
        emitted when the watermark passes its slice, and again, whole, for late rows within :meth:`allowed_lateness`.
        :func:`panestream.from_panes` combines stored tiles into longer windows; docs/reference/tiles.md has the format. ``.main``
        has the key columns, ``window_start``, ``window_end``, ``rows``, a struct for each partial, and ``tile``, which describes
        the slices and aggregates.

        Args:
            *aggregates: declared aggregates (``panestream.agg``). Aggregates with the same partials share them, e.g. ``sum`` and
                ``mean``.

        Raises:
            InvalidPlanError: the windows overlap or are of another kind, the trigger is not the default, ``aggregates`` is empty,
                or partials cannot be stored.

        Examples:
            >>> hours.panes(agg.sum("price")).main.columns[:4]
            ['user', 'window_start', 'window_end', 'rows']
        """
        if not aggregates:
            raise InvalidPlanError("panes needs at least one aggregate, e.g. agg.count()")
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
        """Combine rows two at a time into one. Flink: ``reduce``.

        Without ``then`` the results are key columns, window, and the other columns of the row.

        Args:
            function: takes two rows and returns one (``a.replace(n=a.n + b.n)``, or a tuple of the same columns).
            then: a process function that gets the one row of each firing window and returns the columns of ``schema``.
            schema: the columns that ``then`` returns, required with ``then``.
            two_phase: also combine rows before the shuffle, like ``accumulator_type`` of :meth:`aggregate_with`. The function
                must not depend on the order of rows.
        """
        check_function(function, REDUCE)
        after = following(then)
        if after is not None:
            accumulators = self.keyed.source.row_schema if two_phase else None
            return self._calling(ReduceRows(function, after), schema, "reduce", accumulators)
        self._check_not_split("reduce")
        check_gap_of_rows(self._df, self.windowing.assigner, self.gap)
        rows = self.keyed.source.row_schema
        naming = Names.of(self._df.sparkSession)
        find_key, find_reserved = naming.finder(self.keyed.key_schema.names), naming.finder(RESERVED)
        columns = [column for column in rows if find_key(column.name) is None]
        reserved = [column.name for column in columns if find_reserved(column.name) is not None]
        if reserved:
            raise InvalidPlanError(f"the input has a column {reserved[0]!r}, and results have one, too. Rename it first")
        keys, accumulators = (self.keyed.key_schema, rows) if two_phase else (None, None)
        request = FunctionOfRows(ReduceRows(function), pa.schema(columns), rows, function, keys, accumulators)
        operator = choose(self.windowing, request)
        return WindowedResult(self, operator, self._inputs_of(operator), asked=request)

    @advised(with_schema)
    def apply(self, function: WindowFunction | Callable[..., Any], schema: Schema) -> WindowedResult:
        """Run a function over all rows of each firing window. Flink: ``apply``.

        Args:
            function: a :class:`WindowFunction`, or a function of key, window and rows that returns a list of results or yields
                them. The rows are a list of ``Row`` in the order in which they came: sort them by time if that matters.
                Timestamps are datetimes in UTC, ``window.start`` and ``window.end`` microseconds. A key of several columns is a
                tuple.
            schema: the columns of the results. A result is a tuple, a dict, or the bare value of a single column. A value that
                would lose information in its column is refused; the page on functions has a table.

        Examples:
            >>> def visit(user, window, rows):
            ...     rows = sorted(rows, key=lambda row: row.ts)
            ...     yield rows[-1].ts - rows[0].ts, [row.page for row in rows]
            >>> sessions.apply(visit, "length interval day to second, pages array<string>").main.columns
            ['user', 'window_start', 'window_end', 'length', 'pages']
        """
        return self._calling(KeepRows(applied(function)), schema, "apply")

    @advised(with_schema)
    def process(
        self, function: ProcessWindowFunction | Callable[..., Any], schema: Schema, *, stateless: bool = False
    ) -> WindowedResult:
        """Run a function over all rows of each firing window, with a context. Flink: ``process``.

        Args:
            function: a :class:`ProcessWindowFunction`, or a function of key, context and rows that returns zero or more results.
            schema: the columns of the results. A result is a tuple, a dict, or the bare value of a single column.
            stateless: the function stores nothing between calls, and ``context.window_state()`` and ``context.global_state()``
                raise. In tumbling, sliding and cumulating event-time windows that fire at their end, each row is then stored
                once, as columns, like rows of :meth:`apply`. If a window has several late firings in a micro-batch, the function
                gets only the last. A checkpoint is tied to it. Not in Flink.
        """
        return self._calling(KeepRows(processed(function), stateless), schema, "process")

    def _calling(
        self,
        function: ReduceRows | AggregateRows | KeepRows,
        schema: Schema | None,
        what: str,
        accumulators: pa.Schema | None = None,
    ) -> WindowedResult:
        self._check_not_split(what)
        results = self.result_columns(self._needed(schema, what))
        check_gap_of_rows(self._df, self.windowing.assigner, self.gap)
        rows = self.keyed.source.row_schema
        request = FunctionOfRows(function, results, rows, _shown(function), self.keyed.key_schema, accumulators)
        operator = choose(self.windowing, request)
        return WindowedResult(self, operator, self._inputs_of(operator), asked=request)

    def _inputs_of(self, operator: OperatorSpec) -> dict[str, Column]:
        """Return the columns that the operator reads individually, by name. Empty if it reads whole rows."""
        if not operator.inputs:
            return {}
        wanted = [name for name in operator.inputs if name in self._df.columns]
        return {name: F.col(quoted(name)) for name in wanted} | gap_input(self._df, self.windowing.assigner, self.gap)

    @advised(with_schema)
    def apply_arrow(self, function: Callable[..., Any], schema: Schema, *, all_windows: bool = False) -> WindowedResult:
        """Run a function over the rows of firing windows, as Arrow tables. Not in Flink.

        In tumbling, sliding and cumulating event-time windows with the default trigger, each row is stored once, however many
        windows contain it, and no row becomes a Python object.

        Args:
            function: takes key, window and a ``pyarrow.Table`` with the rows in order of arrival. The key is a tuple if it has
                several columns. Returns a table with the columns of ``schema`` and any number of rows, or None, or rows as for
                :meth:`apply` (a list of tuples or a generator, which is faster for one or two rows). With ``all_windows`` it
                takes one table with the rows of all windows that fire in a key group, in several calls if they are very many.
                That table has key columns, ``window_start``, ``window_end`` and the other columns. The result then has key
                columns, bounds and the columns of ``schema``.
            schema: the columns of the results, without keys and window.
            all_windows: call the function once instead of once for each key and window.

        Raises:
            InvalidPlanError: ``all_windows`` with windows or triggers that need the row operator.
        """
        check_function(function, ALL_WINDOWS if all_windows else APPLY_ARROW)
        shape = AllWindows(function) if all_windows else TablePerWindow(function)
        return self._over_tables(shape, schema, "apply_arrow")

    @advised(with_schema)
    def apply_in_pandas(self, function: Callable[..., Any], schema: Schema) -> WindowedResult:
        """Run a function over the rows of each firing window, as a pandas frame; see :meth:`apply_arrow`.

        Args:
            function: takes key, window and a ``pandas.DataFrame``, and returns a frame with the columns of ``schema``, rows as
                for :meth:`apply`, or None. Whole numbers stay exact: a column with a null in this window has a nullable type such
                as ``Int64``. Within arrays, structs and maps they are Python integers, and arrays are object arrays.
            schema: the columns of the results, without keys and window.
        """
        check_function(function, APPLY_IN_PANDAS)
        return self._over_tables(TablePerWindow(function, "pandas"), schema, "apply_in_pandas")

    def _over_tables(self, function: OverRows, schema: Schema, what: str) -> WindowedResult:
        self._check_not_split(what)
        results = self.result_columns(self._needed(schema, what))
        check_gap_of_rows(self._df, self.windowing.assigner, self.gap)
        rows = self.keyed.source.row_schema
        request = FunctionOfTables(function, results, rows, self.keyed.key_schema)
        return WindowedResult(self, choose(self.windowing, request), asked=request)

    def _check_names(self, declared: Sequence[recipes.Aggregate]) -> None:
        assigner, keys = self.windowing.assigner, self.keyed.key_schema.names
        if isinstance(assigner, RollingWindows):
            declared = [one.alias(result_name(one.name, label)) for label, _ in assigner.windows for one in declared]
            if Names.of(self._df.sparkSession).find(AS_OF, keys) is not None:
                raise InvalidPlanError(f"rolling results have a column {AS_OF!r}: give the key another name with AS")
            check_results(self._df, declared, keys, [AS_OF])
        else:
            check_results(self._df, declared, keys, ["window"] if isinstance(assigner, SeveralWindows) else [])

    def _check_not_split(self, what: str) -> None:
        if self.split_distinct is not None:
            raise InvalidPlanError(f"split_distinct is for agg.count_distinct, not for {what}: leave it out")

    @staticmethod
    def _check_free(tag: str, taken: Sequence[str | None]) -> None:
        if tag in taken:
            raise InvalidPlanError(f"there is an output {tag!r} already: and its rows differ. Choose another tag")

    @staticmethod
    def _needed(schema: Schema | None, what: str) -> Schema:
        if schema is None:
            raise InvalidPlanError(f"{what} needs the columns that your function returns, e.g. schema='n bigint, label string'")
        return schema

    def _columns(self, schema: Schema) -> pa.Schema:
        return schema if isinstance(schema, pa.Schema) else schema_of(self._df.sparkSession, schema)

    def result_columns(self, schema: Schema) -> pa.Schema:
        """Return the checked result columns, which follow the key columns and the window."""
        columns = self._columns(schema)
        naming = Names.of(self._df.sparkSession)
        find_taken = naming.finder((*RESERVED, *self.keyed.key_schema.names))
        for name in columns.names:
            if find_taken(name) is not None:
                raise InvalidPlanError(
                    f"the schema has a column {name!r}: which outputs have already. Rename it, or leave it out and do not "
                    f"return it"
                )
        doubled = naming.doubled(columns.names)
        if doubled is not None:
            raise InvalidPlanError(f"the schema has more than one column {shown_names(*doubled)}")
        return columns

    @property
    def _df(self) -> Any:
        return self.keyed.source.df


def _shown(function: ReduceRows | AggregateRows | KeepRows) -> object:
    return function.function if isinstance(function, KeepRows) or function.then is None else (function.function, function.then)
