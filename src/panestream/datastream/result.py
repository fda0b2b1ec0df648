"""What a windowed query gives: its outputs, and the ways to run it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame

from panestream.datastream.histories import History, Positions, history_rows
from panestream.datastream.names import ASKED_FOR, check_added, check_output, sinks_of, takes_outputs
from panestream.datastream.planned import PlannedQuery
from panestream.datastream.starting import (
    StartRequest,
    check_ending,
    check_no_place,
    ends_by_itself,
    reads_own_offsets,
    spark_trigger,
    warn_of_birth,
    warn_of_missing_sinks,
    warn_of_stale_rows,
)
from panestream.datastream.traced import MOST_ROWS, Wanted, traced
from panestream.engine.explain import Explanation, Shown, explain_plan, listed, parts_of
from panestream.engine.operators.row.spec import RowSpec
from panestream.engine.plan import FIRING_COLUMNS, KEY_GROUPS, MAIN, OP_COLUMN, OperatorSpec, Top, WindowPlan
from panestream.engine.reduction import told
from panestream.engine.runtime.sides import SIDES
from panestream.errors import CheckpointError, InvalidPlanError, PlanMismatchError, did_you_mean, warn
from panestream.spark import query as spark_query
from panestream.spark.asking import asking
from panestream.spark.catalyst import reducible
from panestream.spark.columns import micros_of
from panestream.spark.computed import output
from panestream.spark.failures import of_sink, raise_as
from panestream.spark.names import Names
from panestream.spark.places import FilePath, path_of
from panestream.spark.progress.micro_batch import BatchProgress, observed
from panestream.spark.savepoint.beginning import Sources
from panestream.spark.savepoint.history import before, bootstrap, instant_of, sources_of
from panestream.spark.savepoint.saved import Savepoint
from panestream.spark.savepoint.taking_over import check_start, savepoint_for, seam_of
from panestream.spark.session import (
    chosen_partitions,
    missed_at_birth,
    session_settings,
    settings_for,
    slow_settings,
)
from panestream.spark.sinks.base import Sink
from panestream.spark.sinks.outputs import open_for_batch
from panestream.tracing.events import Trace
from panestream.tracing.why import ANY, TraceableByKey
from panestream.windowing.signatures import ON_PROGRESS, check_function
from panestream.windowing.time import Duration

if TYPE_CHECKING:
    from typing_extensions import Never

_CHECKPOINT = "start needs a directory for the state of the windows: write start(checkpoint='checkpoint', ...)"


@dataclass(frozen=True, eq=False, repr=False)
class WindowedResult(PlannedQuery, Shown, TraceableByKey):
    """The outputs of a windowed query: main, late rows, invalid rows, side outputs."""

    def with_firing(self) -> WindowedResult:
        """Adds to each row of ``main`` which firing of its window it comes from.

        Columns: ``firing``, one of ``early`` (before the window's end), ``on_time`` (time reached the end) and ``late`` (a row
        came after it); ``firing_number``, 0 for the first that was emitted for the key and window; ``is_last``, true where no
        other can follow. (A window without a row that says so may still have had its last.)

        A columnar operator emits a window once in a micro-batch, and numbers that. The row operator numbers every single firing
        (all rows that it gave have its number); of the global window, which has no end, all are early.

        Raises:
            InvalidPlanError: the operator cannot tell; a column has such a name; or with :meth:`top`.
        """
        self._check_firings("with_firing", self.operator.capabilities.no_firings, FIRING_COLUMNS)
        return replace(self, firing=True)

    def changelog(self) -> WindowedResult:
        """Makes the rows of ``main`` changes, for a MERGE by key and window; adds the column ``op``.

        ``insert``: the first result of a key and window. ``update_before``, directly ahead of ``update_after``: a result that
        took the place of another, as it was and as it is. ``delete``: it is gone (sessions that merged). The last results rest
        in the state while their windows may fire again. :class:`~panestream.MergeSink` writes such rows to a table.

        Raises:
            InvalidPlanError: the operator cannot tell; a column has such a name; a purging trigger; or with :meth:`top`.
        """
        self._check_firings("changelog", self.operator.capabilities.no_changelog, (OP_COLUMN,))
        return replace(self, changes=True)

    def _check_firings(self, what: str, why_not: str | None, columns: Sequence[pa.Field]) -> None:
        self._check_not_split(what)
        if why_not is not None:
            raise InvalidPlanError(f"{what}: {why_not}")
        if self.largest is not None:
            raise InvalidPlanError(f"{what} and top do not go together: a window's top is all there is of it")
        check_added(what, columns, (*self.windowed.keyed.key_schema.names, *self._result_names), Names.of(self._df.sparkSession))

    @property
    def _result_names(self) -> Sequence[str]:
        return tuple(self.operator.result_schema.names)

    def _check_not_split(self, what: str) -> None:
        if self.split is not None:
            raise InvalidPlanError(f"{what} looks at whole results in a key group, where split_distinct has parts: leave out one")

    def top(self, n: int, by: str) -> WindowedResult:
        """Of each window only the ``n`` rows with the largest ``by`` (a result's name), with their ``rank`` (1 first).

        Ties go to the smaller key. On a stream use :meth:`start`, which ranks each window when it fires; :attr:`main` cannot.
        """
        self._check_not_split("top")
        names = self.operator.result_schema.names
        if self.firing or self.changes:
            raise InvalidPlanError("top goes neither with with_firing nor with changelog: a window's top is all there is of it")
        if not isinstance(n, int) or n < 1:
            raise InvalidPlanError(f"top wants a positive number of rows, got {n!r}")
        result = Names.of(self._df.sparkSession).find(str(by), names)
        if result is None:
            raise InvalidPlanError(f"top: there is no result {by!r}; {did_you_mean(str(by), names)}")
        if result in self.collated:
            raise InvalidPlanError(
                f"top: the strings of {by!r} compare by a collation, panestream compares them as bytes: take what makes equal "
                "strings equal bytes, e.g. agg.first('lower(name COLLATE UTF8_BINARY)')"
            )
        if self.is_streaming and not self.operator.capabilities.fires_once:
            raise InvalidPlanError(
                "top on a stream ranks each window when it fires: it needs windows that fire once, for all keys in the same "
                "micro-batch (tumbling or sliding event-time windows, default trigger, no allowed lateness, declared aggregates)"
            )
        return replace(self, largest=Top(n, result))

    @property
    def main(self) -> DataFrame:
        """The windows' results, an ordinary DataFrame: key columns, window_start, window_end, results.

        Streaming: append mode; a row comes in the micro-batch whose rows move the watermark past the window's end. Set
        ``spark.sql.shuffle.partitions`` to the number of key groups, and the RocksDB state store; :meth:`start` does both. Late
        rows and the watermark are in the query's progress, ``observedMetrics["panestream"]``. A checkpoint is tied to its number
        of key groups, which is not known here: where it was born with another one, the query fails and says
        ``.options(key_groups=n)``. Nor is known that it was begun on Spark 4.0: to go on with it on a later version, first
        ``spark.conf.set("panestreamDataFrames", "true")``.

        Warns (:class:`~panestream.errors.PanestreamWarning`) where the session's settings would make the stream slow, with the
        lines to set.
        """
        return self._output(MAIN, self._df)

    def output(self, tag: str) -> DataFrame:
        """The rows of one output as a DataFrame of its own.

        Several of them in several queries compute the operator several times: :meth:`start` serves all from one. See
        :attr:`main` for the settings that a stream needs.

        Raises:
            InvalidPlanError: no such output; or ``top`` on a stream.
        """
        return self._output(tag, self._df)

    def output_over(self, rows: DataFrame, tag: str, *, quiet: bool = False) -> DataFrame:
        """The rows of one output of the same query over other rows with these columns, for :func:`panestream.prepare`.

        From the second call on it asks Spark nothing but settings.

        Args:
            rows: the rows.
            tag: the output's name.
            quiet: without a warning about the session's settings.
        """
        return self._output(tag, rows, quiet=quiet)

    def _output(self, tag: str, rows: DataFrame, *, quiet: bool = False) -> DataFrame:
        plan = self.plan
        check_output(tag, plan.tags)
        if tag == MAIN and plan.top is not None and self.is_streaming:
            raise InvalidPlanError("top on a stream ranks each window when it fires: use result.start(main=...), not .main")
        if tag == MAIN and plan.split is not None and self.is_streaming:
            raise InvalidPlanError(
                "split_distinct on a stream puts windows together when they fire: use result.start(main=...), not .main"
            )
        how = {"data_frames": self._data_frames, "clock": self._plan_run.wakes_up}
        operated = self._operated if rows is self._df else self._operated_over(lambda _: rows, **how)
        if not self.is_streaming:
            return output(operated, plan, tag)
        if not quiet:
            warn_of_birth(self._df.sparkSession)
        lines = [] if quiet else slow_settings(self._df.sparkSession, plan.groups)
        if lines:
            warn(
                f"a stream of {plan.groups} key group{'s' if plan.groups > 1 else ''} built from .main or .output is slow, or "
                "fails, with this session's settings (an empty shuffle partition costs as much as one with a key group). Before "
                "it is started:\n  "
                + "\n  ".join(lines)
                + "\nresult.start(main=...) sets all that for its query alone; a pipeline's "
                "spec has a place for them, `configuration`"
            )
        # Who reads the output for late rows is not known here: it is another query.
        kept = plan.late_tag is not None
        return output(observed(operated, plan, self._observed_as, late_kept=kept), plan, tag)

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
        migrate: Mapping[str, Callable[[Any], Any]] | None = None,
        fire_at_end: bool = False,
        on_progress: Callable[[BatchProgress], Any] | None = None,
        **sinks: Sink,
    ) -> spark_query.RunningQuery:
        """Starts one streaming query that computes the operator once per micro-batch and serves every sink.

        A micro-batch that is run again takes the place of what it wrote before, as far as the sinks can (:meth:`Sink.guarantee`);
        one that is only at least once warns. Of two copies of a query on one checkpoint the one started later goes on.

        Args:
            outputs: a sink for each output, by its name: ``{"main": ParquetSink("out/main"), "late": ...}``. An output without a
                sink is computed and dropped, and a warning says so.
            checkpoint: a directory; belongs to this plan from then on. Its number of key groups is taken, unless the query has
                one of its own (``.options(key_groups=n)``).
            trigger: when micro-batches run: ``"availableNow"`` (default: all that is there, then the query ends), ``"once"`` (the
                same in one micro-batch), or how often, e.g. ``"10 seconds"``, without end. Spark's own arguments do as well:
                ``{"processingTime": "10 seconds"}``.
            processing_time: how often micro-batches run, e.g. ``"10 seconds"``: the same as ``trigger="10 seconds"``.
            name: of the query, for Spark's UI.
            savepoint: a folder that :func:`panestream.savepoint` made: the query goes on with its state, on a checkpoint that is
                new. It has the savepoint's number of key groups, unless it has one of its own. What may have changed meanwhile
                is told in docs/how-to/savepoints.md. Needed until the first micro-batch is committed; given again later,
                it is not read. The sources begin where the savepoint ends: files that were read are left out; a stream of
                Kafka or Delta must have the savepoint's :meth:`~panestream.state.Savepoint.source_options`. In places that the
                old query wrote to, the outputs go on as if it were that one, which learns of it and publishes nothing more.
            source_offsets: with ``savepoint``, where the sources begin: ``"savepoint"``, where it ends, which is checked; or
                ``"job"``, where their own options say, and nothing is checked or left out.
            allow_incomplete: whether aggregates may be new that know, of windows which are open in the savepoint, the rows from
                now on only, with no ``agg.complete`` of them in the results that says so.
            migrate: with ``savepoint``: functions that make new values of old ones, where code of yours keeps others than it did.
                ``"accumulator"``: of an :class:`AggregateFunction` (which may be another one), or what ``reduce`` keeps; with
                ``accumulator_type`` it is given a named tuple of the old columns, or the value where there was one.
                ``"state:NAME"``: the state of a trigger or function whose descriptor is called so, as Python keeps it (of list
                state a list, of map state a dict).
            fire_at_end: with ``availableNow`` or ``once``: when all that is available has been read, that counts for silence
                without end: open windows fire and close, in a micro-batch of their own while ``await_termination`` waits. The
                watermark stays at the end of the last of them: rows before it are late in the next run. For a checkpoint that is
                begun so. If it is broken off, the next run goes on.
            on_progress: called on the driver after each micro-batch with a :class:`BatchProgress`; an exception fails the query.
                Through Spark Connect it is called in the client, about a second later; an exception stops the query, which may
                have done some micro-batches more by then, and ``await_termination`` raises it.
            *places: none; sinks are given by the name of their output.
            **sinks: outputs whose names are not options, for short: ``main=ParquetSink(...)``.

        Warns (:class:`~panestream.errors.PanestreamWarning`) where the session was started without a setting that makes small
        micro-batches slow, which can be set nowhere else.

        Warns (the same, once) in the first micro-batch that drops late rows: those of a query without an output for them, or
        with one that no sink takes. How many there were in each micro-batch is in :attr:`RunningQuery.recent_progress`, and in
        Spark's own progress, ``observedMetrics["panestream"]``. Through Spark Connect the warning comes while
        ``await_termination`` waits, or at ``stop``.

        Raises:
            InvalidPlanError: a batch DataFrame, an unknown output, a trigger that Spark has not.
            PlanMismatchError: the checkpoint belongs to another plan; the query cannot take over the savepoint's state.
            CheckpointError: there is no such savepoint; the checkpoint did not begin with it; a source cannot begin where it
                ends; the old query went on in the same places after it, or a newer one succeeded this one there; the checkpoint
                was begun without ``fire_at_end``, or without a clock where one is needed.
            InvalidPlanError: ``availableNow`` with windows of processing time, which Spark would never end; ``fire_at_end`` of a
                query that does not end, or of windows whose end no clock knows.
            SinkError: a sink's place belongs to another query or has lost what it held, or two outputs have one place.
            StateDamagedError: a marker in the checkpoint or in a sink's place cannot be read; names the file.
            StateFormatError: a newer panestream wrote it.
            FencedError: another copy of the query was started in the same moment.
            EnvironmentNotReadyError: Spark 4.0, or a checkpoint that was begun on it, without pandas; a checkpoint of a later
                version on 4.0.
        """
        if not self.is_streaming:
            raise InvalidPlanError("start is for streams; this DataFrame is a batch: use result.run(main=...) or result.main")
        check_no_place("start", places)
        options = {"checkpoint": checkpoint, "trigger": trigger, "name": name, "savepoint": savepoint, "on_progress": on_progress}
        every = self._sinks("start", outputs, sinks, options)
        when = spark_trigger(trigger, processing_time)
        if on_progress is not None:
            check_function(on_progress, ON_PROGRESS)
        check_ending(self.plan, when, fire_at_end=fire_at_end)
        request = StartRequest(
            sinks=every,
            checkpoint=path_of(checkpoint, _CHECKPOINT, InvalidPlanError),
            trigger=when,
            name=name,
            savepoint=None if savepoint is None else path_of(savepoint, "savepoint= must be a folder", CheckpointError),
            own_position=reads_own_offsets(source_offsets),
            allow_incomplete=allow_incomplete,
            migrate=migrate or {},
            fire_at_end=fire_at_end,
            on_progress=on_progress,
        )
        return self._started(request)

    def _started(self, request: StartRequest) -> spark_query.RunningQuery:
        """Start the query, after a change of the plan if trigger, savepoint or checkpoint need one."""
        ends = self.plan.watermark.closes_after is not None and ends_by_itself(request.trigger)
        if ends != self.ends:
            return replace(self, ends=ends)._started(request)  # noqa: SLF001 - its own
        spark, checkpoint = self._df.sparkSession, request.checkpoint
        saved = None if request.savepoint is None else savepoint_for(spark, request.savepoint, checkpoint)
        chosen = self.windowed.key_groups is not None or not self._grouped
        if isinstance(saved, Savepoint) and not chosen and self.plan.groups != saved.manifest.groups:
            return self._with_groups(saved.manifest.groups)._started(request)  # noqa: SLF001 - its own
        seam = seam_of(spark, saved, checkpoint)
        if seam != self.since:
            return replace(self, since=seam)._started(request)  # noqa: SLF001 - its own
        if isinstance(saved, Savepoint):
            # Last, for the plan that runs: it may cost a Spark job, and it warns.
            saved = replace(saved, migrate=request.migrate)
            check_start(saved, self.plan, allow_incomplete=request.allow_incomplete)
            Sources.of(replace(saved.birth, own_position=request.own_position), checkpoint).check(self._df)
        warn_of_stale_rows(self.windowed.windowing, self.operator, request.sinks, changes=self.changes)
        warn_of_missing_sinks(self.plan.tags, request.sinks, "start")
        warn_of_birth(spark)
        try:
            return spark_query.start(
                spark,
                self._operated_over,
                self.plan,
                request.sinks,
                checkpoint=checkpoint,
                trigger=request.trigger,
                name=request.name,
                on_progress=request.on_progress,
                observed_as=self._observed_as,
                savepoint=saved,
                own_position=request.own_position,
                fire_at_end=request.fire_at_end,
            )
        except PlanMismatchError as error:
            of_checkpoint = error.changed.get(KEY_GROUPS, (None, None))[0]
            if of_checkpoint is None or chosen:
                raise
        # Nobody asked for another number: the checkpoint's is taken, whatever the session was set to since.
        return self._with_groups(int(of_checkpoint))._started(request)  # noqa: SLF001 - its own

    @property
    def _of_batch(self) -> list[str]:
        """The outputs of a batch, of which no row is late."""
        return [tag for tag in self.plan.tags if tag not in self.plan.late_tags]

    def _with_groups(self, groups: int) -> WindowedResult:
        return replace(self, windowed=replace(self.windowed, key_groups=groups))

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
        """Computes the rows of before this stream, and makes the savepoint that the stream starts from: history first.

        The windows, aggregates and watermark are those of the stream; the rows of history are taken in at once, as a batch: none
        of them is late. Windows that have ended by the watermark which history brings fire, and go to the sinks; what is
        open rests in the savepoint. So what history emits and what the stream emits that starts from it (:meth:`start` with
        ``savepoint=path``) are together what the stream would have emitted, had it read history itself.

        Args:
            history: a batch with the columns of the stream, of the same types; others are left out. Of two streams the history of
                each, ``(views, clicks)``, the left one first: of one that has none an empty DataFrame with its columns.
            path: a folder that holds nothing yet.
            outputs: sinks for the outputs of history, by name. They may be the stream's own.
            until: the seam, where history and the stream overlap: rows of history with an event time at or after it are left
                out, and the stream leaves out those before it (``history_rows`` of the progress counts them). ISO 8601, or a
                ``datetime``; without a zone: UTC. None: all rows of history are taken, and all of the stream.
            position: of Kafka, where the stream goes on: the first offset of each partition that is not in history, by topic
                (``{"clicks": {"0": 23}}``), of two streams one for each. Then ``start`` refuses a stream that begins elsewhere.
                None: nothing is checked.
            **sinks: outputs whose names are not options, for short.

        Returns:
            The savepoint.

        Raises:
            InvalidPlanError: columns are missing or of another type; the windows or the trigger go by the clock; a Column of
                the stream's own DataFrame was used (``F.col('name')`` belongs to none); an unknown output.
            CheckpointError: the folder holds something.
            SinkError: a sink's place belongs to another query, or two outputs have one place.
            PanestreamError: what went wrong in the workers, as :meth:`RunningQuery.await_termination` raises it.
        """
        if not self.is_streaming:
            raise InvalidPlanError(
                "bootstrap is called on the stream's result, which is to start from it: history is given to it"
            )
        every: Mapping[str, Sink] = {}
        if sinks or outputs:
            every = self._sinks("bootstrap", outputs, sinks, {"until": until, "position": position})
            warn_of_missing_sinks(self._of_batch, every, "bootstrap")
        folder, events = path_of(path, "bootstrap needs a folder for the savepoint", CheckpointError), self.windowed.keyed.source
        sources = sources_of(position, streams=len(SIDES) if events.sides else 1)
        seam = None if until is None else instant_of(until)
        try:
            with asking():
                rows = history_rows(history, events)
                if seam is not None:
                    rows = rows.where(before(self._time_over(rows), seam))
                projection = self._projection_over(rows)
        except AnalysisException as error:
            reason = str(error).strip().splitlines()[0]
            refused = (
                "bootstrap: the query uses a Column of the stream's own DataFrame, which history does not have: write the name"
            )
            raise_as(InvalidPlanError(f"{refused} or F.col('name') ({reason})"), error)
        return bootstrap(rows, self.plan, projection, folder, every, seam, sources)

    def _time_over(self, rows: DataFrame) -> Column:
        source = self.windowed.keyed.source
        if source.event_time is None:
            raise InvalidPlanError(
                "bootstrap: until is an event time, and the query has none: select the rows of history yourself"
            )
        return micros_of(rows, source.event_time, source.unit)

    @takes_outputs
    def run(self, *places: Never, outputs: Mapping[str, Sink] | None = None, **sinks: Sink) -> None:
        """Batch: compute the operator once and write every output to its sink.

        Args:
            *places: none; sinks are given by the name of their output.
            outputs: a sink for each output, by its name.
            **sinks: the same, for short: ``main=ParquetSink(...)``.

        Raises:
            InvalidPlanError: a streaming DataFrame, an unknown output.
            SinkError: a sink's place belongs to another query, or two outputs have one place.
            PanestreamError: what went wrong in the workers, as :meth:`RunningQuery.await_termination` raises it.
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
        """Batch: what becomes of every row and window, for :func:`panestream.tools.why` and :func:`panestream.tools.timeline`.

        The rows are brought to the driver, in the order of :meth:`DataStream.arrival_order` (without one: as Spark hands them
        over), and taken in by the row operator. In a batch no row is late.

        Args:
            key: only rows of this key: a value, of several key columns a tuple.
            most_rows: more rows are refused.
            rows_per_batch: instead of a batch, as a stream would have them in micro-batches of so many rows, with the query's
                watermark: rows may be late, and what has not ended stays open. Not together with ``key``.

        Raises:
            InvalidPlanError: a streaming DataFrame; several kinds of windows; more rows than that, says how to ask for fewer.
            WindowFunctionError: a function of yours raised.
        """

        def plan_of(operator: OperatorSpec) -> WindowPlan:
            return replace(self, operator=operator, largest=None, firing=False, changes=False, split=None).plan

        return traced(self.windowed, self.asked, self.inputs, plan_of, Wanted(key, most_rows, rows_per_batch))

    @takes_outputs
    def explain(self, *, outputs: Mapping[str, Sink] | None = None, **sinks: Sink) -> Explanation:
        """How the query will run: operator, panes, state, exchange, and why.

        Args:
            outputs: sinks as :meth:`start` and :meth:`run` take them: then also where each output goes, and of a stream how
                often a row arrives there where a micro-batch is run again. Nothing is opened or made.
            **sinks: the same, for short.

        Returns:
            A string for ``print``, which a console or a notebook shows as it is read.
        """
        chosen = chosen_partitions(self._df.sparkSession)
        reduced = not self.is_streaming and reducible(self.plan)
        every: Mapping[str, Sink] = self._sinks("explain", outputs, sinks, {}) if sinks or outputs else {}
        spark = self._df.sparkSession
        sent = {
            tag: f"{sink.describe()}{', ' + sink.guarantee(spark) if self.is_streaming else ''}" for tag, sink in every.items()
        }
        how: dict[str, Any] = {"streaming": self.is_streaming, "chosen": chosen, "reduced_by_spark": reduced, "sinks": sent}
        how |= {"tasks": self._tasks, "session": missed_at_birth(spark) if self.is_streaming else None}
        how["trigger"] = told(self.windowed.windowing, columnar=not isinstance(self.operator, RowSpec))
        return Explanation(explain_plan(self.plan, **how))

    def _instead_of(self, name: str) -> str | None:
        """What to write for an output that was taken for an attribute, or None if it is none."""
        windowed = self.windowed
        if name in (windowed.late_tag, windowed.keyed.source.invalid_tag, *windowed.side_outputs):
            return f"that is an output: write result.output({name!r})"
        return ASKED_FOR.get(name)

    def _parts(self) -> Mapping[str, str]:
        results = [f"{one.name} {one.type}" for one in self.operator.result_schema]
        own = {"top": f"{self.largest.n} by {self.largest.by}" if self.largest else "", "operator": self.operator.name}
        return {"results": listed(results), **own, **parts_of(self.windowed)}

    def _sinks(
        self, method: str, outputs: Mapping[str, Sink] | None, keywords: Mapping[str, Sink], options: Mapping[str, object]
    ) -> dict[str, Sink]:
        """Return the sinks by output, checked."""
        if not outputs and not keywords:
            raise InvalidPlanError("name at least one sink, e.g. main=ParquetSink('out/main')")
        return sinks_of(method, outputs, keywords, options, self.plan.tags)
