"""The outputs of a windowed query, and the methods that run it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from panestream.datastream.events import History, Positions, history_rows
from panestream.datastream.planned import PlannedQuery
from panestream.datastream.starting import (
    ASKED_FOR,
    check_added,
    check_ending,
    check_no_place,
    reads_own_offsets,
    sinks_of,
    spark_trigger,
    takes_outputs,
    warn_of_missing_sinks,
)
from panestream.datastream.traced import MOST_ROWS, Wanted, traced
from panestream.engine.explain import Explanation, ReprHtml, explain_plan, listed, parts_of
from panestream.engine.operators.row.spec import RowSpec
from panestream.engine.operators.two_sides import TwoSidesSpec
from panestream.engine.plan import FIRING_COLUMNS, MAIN, OP_COLUMN, OperatorSpec, Top, WindowPlan
from panestream.engine.rule import told
from panestream.engine.runtime.sides import SIDES
from panestream.engine.savepoint.operators import OPERATOR_NAME
from panestream.errors import CheckpointError, InvalidPlanError, did_you_mean
from panestream.spark.batch_output import output
from panestream.spark.catalyst import reducible
from panestream.spark.columns import Names
from panestream.spark.compat import silence_analysis_errors
from panestream.spark.failures import of_sink, raise_as
from panestream.spark.open_lineage.emitter import OpenLineage
from panestream.spark.places import FilePath, path_of
from panestream.spark.progress.micro_batch import BatchProgress
from panestream.spark.query import RunningQuery, StartRequest
from panestream.spark.savepoint.history import before, bootstrap, instant_of, sources_of
from panestream.spark.savepoint.saved import Savepoint
from panestream.spark.session import (
    chosen_partitions,
    missing_startup_settings,
    session_settings,
    settings_for,
)
from panestream.spark.sinks.base import Sink
from panestream.spark.sinks.outputs import open_for_batch
from panestream.spark.sinks.spark_sinks import check_sink_of_spark
from panestream.tracing.events import Trace
from panestream.tracing.why import ANY, TraceableByKey
from panestream.windowing.signatures import ON_PROGRESS, check_function
from panestream.windowing.time import Duration

if TYPE_CHECKING:
    from typing_extensions import Never, Self

_CHECKPOINT = "start needs a directory for the state of the windows: write start(checkpoint='checkpoint', ...)"


@dataclass(frozen=True, eq=False, repr=False)
class WindowedResult(PlannedQuery, ReprHtml, TraceableByKey):
    """The outputs of a windowed query: main, late rows, invalid rows, side outputs.

    >>> result = hours.aggregate(agg.sum("price").alias("total"))
    >>> result.main.select("user", "total").sort("user", "total").show()
    +----+-----+
    |user|total|
    +----+-----+
    | ann|  3.0|
    | ann|  5.0|
    | bob|  1.0|
    +----+-----+
    <BLANKLINE>
    """

    def with_firing(self) -> WindowedResult:
        """Add columns to ``main`` that identify the firing of each row.

        ``firing`` is ``early`` (before the window's end), ``on_time`` (time reached the end) or ``late`` (a row came after it).
        ``firing_number`` is 0 for the first firing that was emitted for the key and window. ``is_last`` is true if no other
        firing can follow. Do not filter by it, since a window can end without such a row: the newest result of a key and window
        has the largest ``firing_number``.

        A columnar operator emits and numbers a window once per micro-batch. The row operator numbers every firing, and all rows
        of a firing share its number. Firings of the global window, which never ends, are all early.

        Raises:
            InvalidPlanError: the operator does not track firings, a column has such a name, or :meth:`top` is used.
        """
        self._check_firings("with_firing", self.operator.capabilities.no_firings, FIRING_COLUMNS)
        return replace(self, firing=True)

    def uid(self, name: str) -> Self:
        """Name the operator, so that savepoints find its state again. Flink: ``SingleOutputStreamOperator.uid``.

        A query of several operators needs names if its operators may be removed, inserted or moved later. Without a name, an
        operator is called ``operator-1``, ``operator-2`` and so on, counted from the input.

        Args:
            name: 1 to 100 letters, digits, ``_``, ``-`` and ``.``. Names must differ within a query.

        Raises:
            InvalidPlanError: it is not such a name.

        Examples:
            >>> hours.aggregate(agg.count().alias("n")).uid("hourly-counts").main.columns
            ['user', 'window_start', 'window_end', 'n']
        """
        if not isinstance(name, str) or not OPERATOR_NAME.fullmatch(name):
            raise InvalidPlanError(f"uid is a name of 1 to 100 letters, digits, '_', '-' and '.', got {name!r}")
        return replace(self, given_uid=name)

    def changelog(self) -> WindowedResult:
        """Turn the rows of ``main`` into changes for a MERGE by key and window, and add the column ``op``.

        ``insert`` is the first result of a key and window. ``update_before`` is a replaced result and comes directly ahead of its
        replacement, ``update_after``. ``delete`` removes the result of a session that grew or merged into a longer one. The state
        keeps the last result of each window while the window may fire again. A micro-batch has at most one change per window.
        :class:`~panestream.MergeSink` writes such rows to a table.

        Raises:
            InvalidPlanError: the operator cannot emit changes, a column has this name, the trigger purges, or :meth:`top` is
                used.
        """
        self._check_firings("changelog", self.operator.capabilities.no_changelog, (OP_COLUMN,))
        return replace(self, changes=True)

    def _check_firings(self, what: str, why_not: str | None, columns: Sequence[pa.Field]) -> None:
        self._check_not_split(what)
        if why_not is not None:
            raise InvalidPlanError(f"{what}: {why_not}")
        if self.largest is not None:
            raise InvalidPlanError(f"{what} and top cannot be combined: a top replaces the other results of its window")
        check_added(what, columns, (*self.windowed.keyed.key_schema.names, *self._result_names), Names.of(self._df.sparkSession))

    @property
    def _result_names(self) -> Sequence[str]:
        return tuple(self.operator.result_schema.names)

    def top(self, n: int, by: str) -> WindowedResult:
        """Keep, for each window, only the ``n`` rows with the largest result ``by``, and add their ``rank`` (1 first).

        Ties go to the smaller key. ``by`` is the name of a result, always in descending order. On a stream use :meth:`start`,
        which ranks each window when it fires; :attr:`main` cannot. A stream needs the default trigger and no allowed lateness.
        """
        self._check_not_split("top")
        if self.operator.capabilities.holds_from is not None:
            raise InvalidPlanError(
                "top ranks the keys of a window that fires, and rolling values change key by key: rank the rows of "
                "a table that a MergeSink keeps"
            )
        names = self.operator.result_schema.names
        if self.firing or self.changes:
            raise InvalidPlanError(
                "top cannot be combined with with_firing or changelog: a top replaces the other results of its window"
            )
        if not isinstance(n, int) or n < 1:
            raise InvalidPlanError(f"top needs a positive number of rows, got {n!r}")
        result = Names.of(self._df.sparkSession).find(str(by), names)
        if result is None:
            raise InvalidPlanError(f"top: there is no result {by!r}; {did_you_mean(str(by), names)}")
        if result in self.collated:
            raise InvalidPlanError(
                f"top: the strings of {by!r} compare by a collation, but panestream compares bytes. Use an expression that "
                f"makes equal strings equal bytes, e.g. agg.first('lower(name COLLATE UTF8_BINARY)')"
            )
        if self.is_streaming and not self.operator.capabilities.fires_once:
            raise InvalidPlanError(
                "top on a stream ranks each window when it fires: it needs windows that fire once, for all keys in the same "
                "micro-batch (tumbling or sliding event-time windows, default trigger, no allowed lateness, declared aggregates)"
            )
        return replace(self, largest=Top(n, result))

    @property
    def main(self) -> DataFrame:
        """The results as a DataFrame with key columns, window_start, window_end and results.

        A stream is in append mode: a row is emitted in the micro-batch whose rows move the watermark past the window's end. Late
        rows and the watermark are in the query's progress, ``observedMetrics["panestream"]``. Set
        ``spark.sql.shuffle.partitions`` to the number of key groups, and use the RocksDB state store; :meth:`start` does both.
        Warns (:class:`~panestream.errors.PanestreamWarning`) if settings would make the stream slow, with the lines to set.

        A checkpoint is tied to its number of key groups, which is unknown here. If it was created with another number, the query
        fails and asks for ``.options(key_groups=n)``. To continue a checkpoint of Spark 4.0 on a later version, first call
        ``spark.conf.set("panestreamDataFrames", "true")``.

        A batch that only reads files first reads 10,000 of their rows, to choose the faster way. With
        ``.options(rows_per_pane=n)`` it does not.
        """
        return self._output(MAIN, self._df)

    def output(self, tag: str) -> DataFrame:
        """Return the rows of one output as a DataFrame; see :attr:`main` for the settings that a stream needs.

        Each query over it computes the operator again, whereas :meth:`start` computes it once for all outputs. Raises
        InvalidPlanError if the output does not exist, or for ``main`` of a stream with ``top``.
        """
        return self._output(tag, self._df)

    def output_over(self, rows: DataFrame, tag: str, *, quiet: bool = False) -> DataFrame:
        """Return one output of the same query over other rows, for :func:`panestream.prepare`; ``quiet`` omits warnings."""
        return self._output(tag, rows, quiet=quiet)

    @takes_outputs
    def start(
        self,
        *places: Never,
        outputs: Mapping[str, Sink] | None = None,
        checkpoint: FilePath | None = None,
        trigger: str | timedelta | Mapping[str, Any] | None = None,
        processing_time: Duration | None = None,
        name: str | None = None,
        savepoint: FilePath | None = None,
        source_offsets: Literal["savepoint", "job"] = "savepoint",
        allow_incomplete: bool = False,
        allow_non_restored_state: bool = False,
        migrate: Mapping[str, Callable[[Any], Any] | Mapping[str, Callable[[Any], Any]]] | None = None,
        fire_at_end: bool = False,
        on_progress: Callable[[BatchProgress], Any] | None = None,
        lineage: OpenLineage | None = None,
        **sinks: Sink,
    ) -> RunningQuery:
        """Start one streaming query that computes the operator once per micro-batch and writes to every sink.

        A repeated micro-batch replaces its earlier output if the sink supports that (:meth:`Sink.guarantee`). A sink that is only
        at-least-once warns. If two copies of a query use one checkpoint, the copy that started later continues.

        Args:
            outputs: a sink for each output, e.g. ``{"main": ParquetSink("out/main"), "late": ...}``. An output without a sink is
                computed and dropped, with a warning.
            checkpoint: a directory, which belongs to this plan from then on. Its number of key groups is used unless the query
                sets its own (``.options(key_groups=n)``).
            trigger: when micro-batches run. ``"availableNow"`` (default) reads all available rows and ends, ``"once"`` does the
                same in one micro-batch, and e.g. ``"10 seconds"`` runs at that interval without end. Spark's arguments work too,
                e.g. ``{"processingTime": "10 seconds"}``.
            processing_time: the interval of micro-batches, e.g. ``"10 seconds"``. The same as ``trigger="10 seconds"``.
            name: the name of the query in Spark's UI.
            savepoint: a folder made by :func:`panestream.savepoint`, whose state the query restores into a new checkpoint. The
                query takes its number of key groups unless it sets its own; docs/how-to/savepoints.md lists the allowed changes.
                Needed until the first micro-batch is committed, and not read afterwards. Sources begin at the end of the
                savepoint: files that were read are skipped, and a Kafka or Delta stream must use its
                :meth:`~panestream.state.Savepoint.source_options`. Outputs continue in the old query's places as if they belonged
                to it; the old query is fenced off and publishes nothing more.
            source_offsets: where sources begin with ``savepoint``. ``"savepoint"`` means its end, which is checked. ``"job"``
                means the sources' own options, without checks or skipping.
            allow_incomplete: accept new aggregates that, in windows open in the savepoint, cover only rows from now on, even if
                no ``agg.complete`` in the results marks them.
            allow_non_restored_state: drop the state of operators in the savepoint that the query no longer has, by their names
                (:meth:`uid`). Flink: ``--allowNonRestoredState``.
            migrate: with ``savepoint``, functions that convert old values after user code changed its state. ``"accumulator"``
                converts accumulators of an :class:`AggregateFunction` (which may be a different function) or of ``reduce``. With
                ``accumulator_type`` it gets a named tuple of the old columns, or the value of a single column. ``"state:NAME"``
                converts the state of a trigger or function with that descriptor name, as a Python object (a list for list state,
                a dict for map state). In a query of several operators, such a dict for each, by its name.
            fire_at_end: with ``availableNow`` or ``once``, treat the end of the available data as endless silence. Open windows
                fire and close in a separate micro-batch while ``await_termination`` waits. The watermark stays at the end of the
                last window, so earlier rows are late in the next run. The checkpoint must be created with it. The next run
                completes an interrupted one.
            on_progress: called on the driver with a :class:`BatchProgress` after each micro-batch. An exception fails the query.
                Through Spark Connect it is called in the client about a second later. An exception then stops the query, possibly
                some micro-batches later, and ``await_termination`` raises it.
            lineage: receives OpenLineage run events with inputs, outputs and late rows, e.g.
                ``pst.tools.OpenLineage("http://marquez:5000", job="clicks")``. Its errors never fail the query.
            *places: not accepted, since sinks are passed by the name of their output.
            **sinks: outputs whose names are not options, in short form, e.g. ``main=ParquetSink(...)``.

        Warns (:class:`~panestream.errors.PanestreamWarning`) if the session was started without a setting that keeps small
        micro-batches fast and that cannot be set later. Also warns once, in the first micro-batch that drops late rows, if the
        query sends late rows to no sink. Their number per micro-batch is in :attr:`RunningQuery.recent_progress` and in Spark's
        progress, ``observedMetrics["panestream"]``. Through Spark Connect that warning appears while ``await_termination`` waits,
        or at ``stop``.

        Raises:
            InvalidPlanError: the DataFrame is a batch, an output is unknown, or Spark does not have the trigger. Also for
                ``availableNow`` with processing-time windows, which Spark would never end, and for ``fire_at_end`` if the query
                does not end or no clock determines the end of its windows.
            PlanMismatchError: the checkpoint belongs to another plan, or the query cannot take over the savepoint's state.
            CheckpointError: the savepoint does not exist, the checkpoint did not start from it, or a source cannot begin at its
                end. Also if the old query continued in the same places after the savepoint, or a newer query succeeded it there.
                Also if the checkpoint was created without ``fire_at_end`` or without a clock that the query needs.
            SinkError: a sink's place belongs to another query or has lost its contents, or two outputs share a place.
            StateDamagedError: a marker in the checkpoint or in a sink's place cannot be read. Names the file.
            StateFormatError: a newer panestream wrote the checkpoint.
            FencedError: another copy of the query was started at the same moment.
            EnvironmentNotReadyError: pandas is missing on Spark 4.0 or for a checkpoint created there, or 4.0 gets a checkpoint
                of a later version.
        """
        if not self.is_streaming:
            raise InvalidPlanError("start is for streams; this DataFrame is a batch: use result.run(main=...) or result.main")
        check_no_place("start", places)
        options = {"checkpoint": checkpoint, "trigger": trigger, "name": name, "savepoint": savepoint, "on_progress": on_progress}
        every = self._sinks("start", outputs, sinks, {**options, "lineage": lineage})
        check_sink_of_spark(every, self.plan, savepoint)
        when = spark_trigger(trigger, processing_time)
        if on_progress is not None:
            check_function(on_progress, ON_PROGRESS)
        if lineage is not None and not isinstance(lineage, OpenLineage):
            raise InvalidPlanError(f"start: lineage is a pst.tools.OpenLineage, got {type(lineage).__name__}")
        check_ending(self.plan, when, fire_at_end=fire_at_end)
        request = StartRequest(
            sinks=every,
            checkpoint=path_of(checkpoint, _CHECKPOINT, InvalidPlanError),
            trigger=when,
            name=name,
            savepoint=None if savepoint is None else path_of(savepoint, "savepoint= must be a folder", CheckpointError),
            own_position=reads_own_offsets(source_offsets),
            allow_incomplete=allow_incomplete,
            allow_non_restored_state=allow_non_restored_state,
            migrate=migrate or {},
            fire_at_end=fire_at_end,
            on_progress=on_progress,
            lineage=None if lineage is None else lineage.prepared(self._df, name, self.plan.tags),
        )
        return self._started(request)

    @takes_outputs
    def bootstrap(
        self,
        history: History,
        path: FilePath,
        *,
        outputs: Mapping[str, Sink] | None = None,
        until: str | datetime | None = None,
        position: Positions = None,
        **sinks: Sink,
    ) -> Savepoint:
        """Compute the history before this stream, and write and return the savepoint that the stream starts from.

        History uses the windows, aggregates and watermark of the stream. It is read at once, as a batch without late rows.
        Windows that end by its watermark fire into the sinks, and open windows go into the savepoint. A stream that starts from
        it (:meth:`start` with ``savepoint=path``) completes the output as if it had read history itself.

        Args:
            history: a batch with the columns and types of the stream. Other columns are ignored. For two streams a pair, the left
                one first, e.g. ``(views, clicks)``. For a stream without history pass an empty DataFrame with its columns.
            path: an empty or new folder.
            outputs: sinks for the outputs of history, by name. They may be the stream's own.
            until: the seam between overlapping history and stream. Rows of history at or after this event time are skipped, and
                so are earlier rows of the stream (counted as ``history_rows`` in the progress). ISO 8601 or a ``datetime``, in
                UTC by default. Without it all rows of both are read.
            position: for Kafka, the first offset of each partition that is not in history, by topic (``{"clicks": {"0": 23}}``).
                For two streams one for each. ``start`` then refuses a stream that begins elsewhere. By default nothing is
                checked.
            **sinks: outputs whose names are not options, in short form.

        Raises:
            InvalidPlanError: columns are missing or have another type, the windows or the trigger use processing time, a Column
                of the stream's own DataFrame was used (``F.col('name')`` works), or an output is unknown.
            CheckpointError: the folder is not empty.
            SinkError: a sink's place belongs to another query, or two outputs share a place.
            PanestreamError: a failure in the workers, as :meth:`RunningQuery.await_termination` raises it.
        """
        if not self.is_streaming:
            raise InvalidPlanError("call bootstrap on the stream's result, and give it the history as an argument")
        every: Mapping[str, Sink] = {}
        if sinks or outputs:
            every = self._sinks("bootstrap", outputs, sinks, {"until": until, "position": position})
            warn_of_missing_sinks(self._of_batch, every, "bootstrap")
        folder, events = path_of(path, "bootstrap needs a folder for the savepoint", CheckpointError), self.windowed.keyed.source
        sources = sources_of(position, streams=len(SIDES) if events.sides else 1)
        seam = None if until is None else instant_of(until)
        try:
            with silence_analysis_errors():
                rows = history_rows(history, events)
                if seam is not None:
                    rows = rows.where(before(self._time_over(rows), seam))
                projection = self._projection_over(rows)
        except AnalysisException as error:
            reason = str(error).strip().splitlines()[0]
            refused = "bootstrap: the query uses a Column of the stream's DataFrame, which history does not have. Write the name"
            raise_as(InvalidPlanError(f"{refused} or F.col('name') ({reason})"), error)
        return bootstrap(rows, self.chain, projection, folder, every, seam, sources)

    @takes_outputs
    def run(self, *places: Never, outputs: Mapping[str, Sink] | None = None, **sinks: Sink) -> None:
        """Compute the operator over a batch once and write every output to its sink, e.g. ``run(main=ParquetSink(...))``.

        ``outputs`` and ``sinks`` have the sinks by the name of their output; ``places`` are not accepted. Raises InvalidPlanError
        for a stream or an unknown output, SinkError if a sink's place belongs to another query or two outputs share a place, and
        a failure in the workers as :meth:`RunningQuery.await_termination` does.
        """
        if self.is_streaming:
            raise InvalidPlanError("run is for batches; this DataFrame is a stream: use result.start(checkpoint=..., main=...)")
        check_no_place("run", places)
        every = self._sinks("run", outputs, sinks, {})
        spark = self._df.sparkSession
        opened = open_for_batch(spark, self.plan, every)
        warn_of_missing_sinks(self._of_batch, every, "run")
        with session_settings(spark, settings_for(spark, self.plan.groups)):
            operated = self._operated.persist()
            try:
                for tag, sink in opened.items():
                    with of_sink(tag, sink, None):
                        sink.write(output(operated, self.plan, tag), None)
            finally:
                operated.unpersist()

    def trace(self, *, key: Any = ANY, most_rows: int = MOST_ROWS, rows_per_batch: int | None = None) -> Trace:
        """Trace every row and window of a batch, for :func:`panestream.tools.why` and :func:`panestream.tools.timeline`.

        The rows are collected on the driver and processed by the row operator, in the order of :meth:`DataStream.arrival_order`
        or else as Spark returns them. A batch does not have late rows.

        Args:
            key: trace only rows of this key, which is a value, or a tuple for several key columns.
            most_rows: the largest number of rows that is accepted.
            rows_per_batch: process the rows as a stream would, in micro-batches of this many rows with the query's watermark.
                Rows may then be late, and windows may stay open. Not together with ``key``.

        Raises:
            InvalidPlanError: the DataFrame is a stream, there are several kinds of windows, or there are too many rows. The
                message explains how to select fewer.
            WindowFunctionError: a user function raised.
        """

        def plan_of(operator: OperatorSpec) -> WindowPlan:
            return replace(self, operator=operator, largest=None, firing=False, changes=False, split=None).plan

        asked = self.operator if isinstance(self.operator, TwoSidesSpec) else self.asked
        return traced(self.windowed, asked, self.inputs, plan_of, Wanted(key, most_rows, rows_per_batch))

    @takes_outputs
    def explain(self, *, outputs: Mapping[str, Sink] | None = None, **sinks: Sink) -> Explanation:
        """Return a printable explanation of how the query will run: operator, panes, state, exchange, and the reasons.

        With sinks as for :meth:`start` and :meth:`run`, it also shows the place of each output and, for a stream, how often a row
        may be written if a micro-batch is repeated. Nothing is opened or created. A batch may read 10,000 rows, as ``main`` does.
        """
        chosen = chosen_partitions(self._df.sparkSession)
        reduced = not self.is_streaming and reducible(self._plan_chosen)
        every: Mapping[str, Sink] = self._sinks("explain", outputs, sinks, {}) if sinks or outputs else {}
        spark = self._df.sparkSession
        sent = {
            tag: f"{sink.describe()}{', ' + sink.guarantee(spark) if self.is_streaming else ''}" for tag, sink in every.items()
        }
        how: dict[str, Any] = {"streaming": self.is_streaming, "chosen": chosen, "reduced_by_spark": reduced, "sinks": sent}
        how |= {
            "sampled": self._sampled,
            "tasks": self._tasks,
            "session": missing_startup_settings(spark) if self.is_streaming else None,
        }
        how["trigger"] = told(self.windowed.windowing, columnar=not isinstance(self.operator, RowSpec))
        return Explanation(explain_plan(self.plan, **how))

    def _instead_of(self, name: str) -> str | None:
        """Return the correct call for an output that was accessed as an attribute, or None if it is not an output."""
        windowed = self.windowed
        if name in (windowed.late_tag, windowed.keyed.source.invalid_tag, *windowed.side_outputs):
            return f"that is an output: write result.output({name!r})"
        return ASKED_FOR.get(name)

    def _parts(self) -> Mapping[str, str]:
        results = [f"{column.name} {column.type}" for column in self.operator.result_schema]
        own = {"top": f"{self.largest.n} by {self.largest.by}" if self.largest else "", "operator": self.operator.name}
        return {"results": listed(results), **own, **parts_of(self.windowed)}

    def _sinks(
        self, method: str, outputs: Mapping[str, Sink] | None, keywords: Mapping[str, Sink], options: Mapping[str, object]
    ) -> dict[str, Sink]:
        """Return the checked sinks by output."""
        if not outputs and not keywords:
            raise InvalidPlanError("name at least one sink, e.g. main=ParquetSink('out/main')")
        return sinks_of(method, outputs, keywords, options, self.plan.tags)
