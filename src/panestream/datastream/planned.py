"""A complete windowed query: its plan, its input columns, the operator over its rows, and its start as a stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame

from panestream.datastream.chain import ChainRun
from panestream.datastream.events import WindowedEvents
from panestream.datastream.starting import (
    check_output,
    is_bounded,
    warn_missing_settings,
    warn_of_missing_sinks,
    warn_of_stale_rows,
)
from panestream.engine.plan import KEY_GROUPS, MAIN, OperatorSpec, Split, Top, WindowPlan, carries_rows
from panestream.engine.rule import WindowRequest
from panestream.engine.savepoint.operators import NamedPlan, check_names, default_name, recorded_groups
from panestream.engine.storage.state import MOST_BYTES
from panestream.errors import InvalidPlanError, PlanMismatchError, warn
from panestream.spark.batch_output import output
from panestream.spark.catalyst import pane_length, reducible
from panestream.spark.checkpoint.epoch import newest_entry
from panestream.spark.columns import micros_of, order_of, text_of
from panestream.spark.compat import wants_data_frames
from panestream.spark.operator.dataflow import Projection, operate, project, unpack_all
from panestream.spark.operator.task_functions import OUTPUT
from panestream.spark.progress.micro_batch import counters_name, observed
from panestream.spark.query import RunningQuery, StartRequest, start
from panestream.spark.row_density import sampled_rows_per_pane
from panestream.spark.savepoint.restore import check_states, cutover_time, initial_state, savepoint_for
from panestream.spark.savepoint.saved import Savepoint
from panestream.spark.savepoint.source_offsets import Sources
from panestream.spark.session import (
    DEFAULT_GROUPS,
    chosen_partitions,
    default_parallelism,
    known_cores,
    slow_settings,
)

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True, eq=False, repr=False)
class PlannedQuery:
    """The parts of a windowed query, and the DataFrame that Spark runs.

    Attributes:
        inputs: the input columns of the operator, by their text.
        collated: results that are strings with a collation.
        largest: the limit of :meth:`WindowedResult.top`, or None.
        firing: whether rows identify their firing.
        changes: whether rows are changes.
        split: how distinct values are split into parts, or None.
        since: the seam with the history from which the stream starts, or None.
        ends: whether a run that ends closes all windows.
        asked: the user's request before an operator was chosen, or None if it cannot be traced.
        given_uid: the operator's name in savepoints if the user set it, or None.
    """

    windowed: WindowedEvents
    operator: OperatorSpec
    inputs: Mapping[str, Column] = field(default_factory=dict)
    collated: frozenset[str] = frozenset()
    largest: Top | None = None
    firing: bool = False
    changes: bool = False
    split: Split | None = None
    since: int | None = None
    ends: bool = False
    asked: WindowRequest | None = None
    given_uid: str | None = None

    @cached_property
    def is_streaming(self) -> bool:
        return bool(self._df.isStreaming)

    @property
    def _df(self) -> DataFrame:
        return self.windowed.keyed.source.df

    @property
    def _grouped(self) -> bool:
        """True if several key groups are possible."""
        return bool(self.windowed.keyed.keys) or self.split is not None

    @cached_property
    def plan(self) -> WindowPlan:
        """The frozen recipe of the query."""
        windowed, keyed = self.windowed, self.windowed.keyed
        source = keyed.source
        groups = 1
        if self._grouped:
            spark = self._df.sparkSession
            # The contents of a checkpoint must not depend on the machine. A batch does not have a checkpoint.
            groups = windowed.key_groups or chosen_partitions(spark) or 0
            groups = groups or (DEFAULT_GROUPS if self.is_streaming else default_parallelism(spark))
        event_time = None if source.event_time is None else text_of(self._df, source.event_time, "the event time")
        if source.unit is not None:
            event_time = f"{event_time} in {source.unit}"
        processing_time = source.processing_time
        if processing_time is not None:
            processing_time = text_of(self._df, processing_time, "the processing time")
        whole_rows = source.invalid_tag is not None or carries_rows(self.operator, source.watermark, windowed.late_tag)
        return WindowPlan(
            keys=keyed.key_texts,
            key_schema=keyed.key_schema,
            assigner=windowed.windowing.assigner,
            operator=self.operator,
            watermark=source.watermark,
            event_time=event_time,
            groups=groups,
            allowed_lateness=windowed.windowing.allowed_lateness,
            late_tag=windowed.late_tag,
            invalid_tag=source.invalid_tag,
            way_out=source.way_out,
            side_outputs=windowed.side_outputs,
            processing_time=processing_time,
            split=self.split,
            top=self.largest,
            with_firing=self.firing,
            changelog=self.changes,
            since=self.since,
            most_bytes=windowed.memory_limit or MOST_BYTES,
            batch_bytes=windowed.memory_limit,
            rows_per_pane=windowed.rows_per_pane,
            ends=self.ends,
            arrival=self._order[1] if self._order[0] else None,
            row_schema=source.row_schema if whole_rows else None,
            sides=source.sides,
        )

    @cached_property
    def _order(self) -> tuple[list[Column], pa.Schema]:
        """The columns that order the arrival of rows, or none if nothing depends on it."""
        texts = self.windowed.keyed.source.order
        return order_of(self._df, texts if self.operator.capabilities.order_sensitive else ())

    @cached_property
    def _operated(self) -> DataFrame:
        return self._operated_over(self._df, self._plan_chosen)

    def _operated_over(self, rows: DataFrame, plan: WindowPlan | None = None, **how: Any) -> DataFrame:
        how = {"data_frames": self._data_frames, "clock": self._plan_run.wakes_up, **how}
        return operate(rows, plan or self._plan_run, self._projection, tasks=self._tasks, **how)

    @cached_property
    def _sampled(self) -> int | None:
        """The average rows of a key in a pane of a batch by a sample, or None if the user set them or they do not matter."""
        plan = self._plan_run
        if self.is_streaming or plan.rows_per_pane is not None or not reducible(plan):
            return None
        rows = sampled_rows_per_pane(self._projection.rows_of(self._df), len(plan.key_schema), pane_length(plan))
        return None if rows is None else max(1, round(rows))

    @cached_property
    def _plan_chosen(self) -> WindowPlan:
        """The plan to run over the query's own rows, with the number that the sample showed."""
        return self._plan_run if self._sampled is None else replace(self._plan_run, rows_per_pane=self._sampled)

    @cached_property
    def chain(self) -> tuple[NamedPlan, ...]:
        """The operators of the query up to this one, the first one first; raises InvalidPlanError if two have one name."""
        upstreams = self.windowed.keyed.source.upstreams
        before = [each for upstream in upstreams if upstream is not None for each in upstream.operator.chain]
        own = NamedPlan(self.given_uid or default_name(len(before) + 1), self.plan)
        check_names([each.name for each in (*before, own)])
        return (*before, own)

    @property
    def origin(self) -> DataFrame:
        """The rows before all operators of the query."""
        return self.windowed.keyed.source.origin

    def operated_in(self, run: ChainRun, **how: Any) -> DataFrame:
        """Return what the operator emits in a run of the whole query."""
        saved = run.states.get(self.chain[-1].name)
        initial = None if saved is None else initial_state(saved, self.plan)
        return self._operated_over(self.windowed.keyed.source.rows_in(run), initial=initial, **run.how, **how)

    def results_in(self, run: ChainRun) -> DataFrame:
        """Return the main rows in a run of the whole query, for the operator after this one."""
        late_kept = self.plan.late_tag is not None
        return output(observed(self.operated_in(run), self.plan, self._observed_as, late_kept=late_kept), self.plan, MAIN)

    @cached_property
    def _tasks(self) -> int | None:
        """The number of tasks that share the key groups of a stream, or None if each group has its own task."""
        if not self.is_streaming:
            return None
        tasks = self.windowed.tasks or known_cores(self._df.sparkSession)
        return tasks if tasks is not None and tasks < self.plan.groups else None

    @cached_property
    def _data_frames(self) -> bool:
        """True if a stream is built over data frames; after ``start`` the checkpoint decides."""
        return self.is_streaming and wants_data_frames(self._df.sparkSession)

    @cached_property
    def _observed_as(self) -> str:
        """The name of the counters, which must differ from the name in an operator of the input."""
        return counters_name(self._df)

    @cached_property
    def _plan_run(self) -> WindowPlan:
        """The plan to run. In a batch no row is late, so the late output would only add whole rows to the exchange."""
        return self.plan if self.is_streaming else replace(self.plan, late_tag=None)

    @cached_property
    def _projection(self) -> Projection:
        return self._projection_over(self._df)

    def _projection_over(self, rows: DataFrame) -> Projection:
        keyed = self.windowed.keyed
        time = None if keyed.source.event_time is None else micros_of(rows, keyed.source.event_time, keyed.source.unit)
        values = [self.inputs[text] for text in self.operator.inputs]
        clock, unit = keyed.source.processing_time, keyed.source.processing_time_unit
        processing_time = None if clock is None else micros_of(rows, clock, unit)
        order = self._order[0]
        keys = [column for _, column in keyed.key_columns]
        return project(rows, self._plan_run, time, keys, values, processing_time, order)

    def _check_not_split(self, what: str) -> None:
        if self.split is not None:
            raise InvalidPlanError(f"{what} needs whole results in a key group, but split_distinct has parts. Leave out one")

    def _output(self, tag: str, rows: DataFrame, *, quiet: bool = False) -> DataFrame:
        plan = self.plan
        check_output(tag, plan.tags)
        if tag == MAIN and plan.top is not None and self.is_streaming:
            raise InvalidPlanError("top on a stream ranks each window when it fires: use result.start(main=...), not .main")
        if tag == MAIN and plan.split is not None and self.is_streaming:
            raise InvalidPlanError(
                "split_distinct on a stream puts windows together when they fire: use result.start(main=...), not .main"
            )
        return output(self._emitted(rows, quiet=quiet), plan, tag)

    def all_outputs_over(self, rows: DataFrame) -> DataFrame:
        """Return all outputs over other rows, by one operator with one state, for :func:`panestream.prepare`."""
        plan = self.plan
        for name, chosen in (("top", plan.top), ("split_distinct", plan.split)):
            if chosen is not None:
                raise InvalidPlanError(f"all_outputs does not support {name}: leave it out, or use result.start(main=...)")
        if plan.constants:
            raise InvalidPlanError("all_outputs does not support panes: they are stored from .main(rows)")
        if OUTPUT in map(str.lower, plan.tags):
            raise InvalidPlanError(f"all_outputs: an output is named {OUTPUT!r}, like the column that names outputs. Rename it")
        return unpack_all(self._emitted(rows), plan)

    def _emitted(self, rows: DataFrame, *, quiet: bool = False) -> DataFrame:
        """Return what the operator emits over other rows: a few rows (tag, body)."""
        plan = self.plan
        operated = self._operated if rows is self._df else self._operated_over(rows)
        if not self.is_streaming:
            return operated
        if not quiet:
            warn_missing_settings(self._df.sparkSession)
        lines = [] if quiet else slow_settings(self._df.sparkSession, plan.groups)
        if lines:
            warn(
                f"a stream of {plan.groups} key group{'s' if plan.groups > 1 else ''} built from .main or .output is slow, or "
                "fails, with this session's settings (an empty shuffle partition costs as much as one with a key group). Before "
                "it is started:\n  "
                + "\n  ".join(lines)
                + "\nresult.start(main=...) sets this for its query only. In a pipeline put the settings into `configuration` "
                "of its spec"
            )
        # Another query reads the output for late rows, so its readers are unknown here.
        late_kept = plan.late_tag is not None
        return observed(operated, plan, self._observed_as, late_kept=late_kept)

    def _started(self, request: StartRequest) -> RunningQuery:
        """Start the query, first changing the plan if the trigger, savepoint or checkpoint requires it."""
        ends = self.plan.watermark.closes_after is not None and is_bounded(request.trigger)
        if ends != self.ends:
            return replace(self, ends=ends)._started(request)  # noqa: SLF001 - its own
        spark, checkpoint = self._df.sparkSession, request.checkpoint
        saved = None if request.savepoint is None else savepoint_for(spark, request.savepoint, checkpoint)
        states: Mapping[str, Savepoint] = {}
        if isinstance(saved, Savepoint):
            states = saved.of_operators(self.chain, may_drop=request.allow_non_restored_state)
        adopted = self.with_groups(self._groups_to_adopt(states, checkpoint))
        if adopted is not self:
            return adopted._started(request)  # noqa: SLF001 - its own
        seam = cutover_time(spark, saved, checkpoint)
        if seam != self.since:
            return replace(self, since=seam)._started(request)  # noqa: SLF001 - its own
        if isinstance(saved, Savepoint):
            # Checked last, on the plans that run, since it may cost a Spark job and it warns.
            states = check_states(states, self.chain, request.migrate, allow_incomplete=request.allow_incomplete)
            Sources.of(replace(saved.restored_from, own_position=request.own_position), checkpoint).check(self.origin)
        warn_of_stale_rows(self.windowed.windowing, self.operator, request.sinks, changes=self.changes)
        warn_of_missing_sinks(self.plan.tags, request.sinks, "start")
        warn_missing_settings(spark)

        def operated_in(rows_of: Callable[[DataFrame], DataFrame], *, restores: bool, **how: Any) -> DataFrame:
            shared = {name: how.pop(name) for name in ("data_frames", "restart_info")}
            return self.operated_in(ChainRun(rows_of, states if restores else {}, shared), **how)

        try:
            return start(spark, operated_in, self.chain, request, saved, self._observed_as)
        except PlanMismatchError as error:
            of_checkpoint = error.changed.get(KEY_GROUPS, (None, None))[0]
            adopted = self if of_checkpoint is None else self.with_groups({self.chain[-1].name: int(of_checkpoint)})
            if adopted is self:
                raise
        # The query did not set a number, so the checkpoint's is used, whatever the session's settings are now.
        return adopted._started(request)  # noqa: SLF001 - its own

    @property
    def _has_own_groups(self) -> bool:
        """True if the user set the number of key groups, or there is only one possible."""
        return self.windowed.key_groups is not None or not self._grouped

    def _groups_to_adopt(self, states: Mapping[str, Savepoint], checkpoint: str) -> Mapping[str, int]:
        """Return the numbers of key groups in the savepoint, or in the checkpoint for operators before the last, by operator."""
        if states or len(self.chain) == 1:
            return {name: state.manifest.groups for name, state in states.items()}
        entry = newest_entry(self._df.sparkSession, checkpoint) or {}
        return recorded_groups(entry.get("operators", ()), self.chain[:-1])

    def with_groups(self, groups: Mapping[str, int]) -> Self:
        """Return the query with these numbers of key groups for operators that did not set theirs, by their names.

        It is the same query if nothing changes.
        """
        source = self.windowed.keyed.source.with_operators(lambda each: each.with_groups(groups))
        wanted = self.plan.groups if self._has_own_groups else groups.get(self.chain[-1].name, self.plan.groups)
        if source is self.windowed.keyed.source and wanted == self.plan.groups:
            return self
        own = self.windowed.key_groups if wanted == self.plan.groups else wanted
        return replace(self, windowed=replace(self.windowed, keyed=replace(self.windowed.keyed, source=source), key_groups=own))

    @property
    def _of_batch(self) -> list[str]:
        """The outputs of a batch, which never has late rows."""
        return [tag for tag in self.plan.tags if tag not in self.plan.late_tags]

    def _time_over(self, rows: DataFrame) -> Column:
        source = self.windowed.keyed.source
        if source.event_time is None:
            raise InvalidPlanError(
                "bootstrap: until is an event time, but the query does not have event times. Select the rows of history yourself"
            )
        return micros_of(rows, source.event_time, source.unit)
