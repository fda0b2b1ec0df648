"""The operator of rolling values: for each key the value of the last hour, day or ever, emitted when it changes.

Time moves in steps of ``every``, the length of a pane. At step ``t`` a window of ``l`` panes has panes ``t - l`` to ``t - 1``.
So a pane changes the values of its key at few steps: it enters all windows at once, and leaves each window once::

    pane   p
    step   p + 1                p + 1 + 60              p + 1 + 1440
           enters all windows   leaves the last hour    leaves the last day

A micro-batch visits only these steps of the keys concerned. Panes are stored at several resolutions
(:mod:`~panestream.engine.operators.panes.rollups`). Panes that have left the longest window with a length are added to one
partial per key, for a window of all time. Emitted values are not stored, because the panes give the values before a step.

A row is late as in tumbling windows of ``every``. A row within the allowed lateness corrects the current values at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from panestream.engine.aggregates import Aggregation
from panestream.engine.kernels.columns import Ints, Mask, array_of, key_fields, plain
from panestream.engine.kernels.grouping import encode_keys
from panestream.engine.kernels.ordering import runs, stable_order
from panestream.engine.kernels.panes import PaneGrid, SlidingWindows
from panestream.engine.operators.columnar import TableLayout, explain_aggregates, hashes_of, integers_of
from panestream.engine.operators.panes.arriving import PanedOperator
from panestream.engine.operators.panes.operator import PaneSpec
from panestream.engine.operators.panes.rollups import Rollups, resolutions
from panestream.engine.operators.rolling.values import KeyedPanes, cuts_of, differs_from_before, no_rows
from panestream.engine.plan import (
    DELETE,
    INSERT,
    LATE,
    ON_TIME,
    OPS,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    Capabilities,
    Operator,
    WindowPlan,
    WindowQuery,
)
from panestream.engine.rule import Supported, WindowRequest, on_columns_only
from panestream.engine.runtime.group_io import GroupInput, GroupOutput
from panestream.engine.runtime.group_operator import TimeStep, firing_columns
from panestream.engine.runtime.state_views import INSTANT, ViewSchemas, WindowRows, reached_by, share
from panestream.engine.runtime.watermarks import BEYOND_ALL, LatenessPolicy
from panestream.engine.storage.blocks import PaneBlocks, StoredBlocks, pane_range
from panestream.engine.storage.sealed_state import SealedState
from panestream.engine.storage.state_tables import StateTables, StateViews
from panestream.errors import InvalidPlanError
from panestream.windowing.assigners.look_back import result_name
from panestream.windowing.assigners.rolling import AS_OF, RollingWindows
from panestream.windowing.time import MAX_TIMESTAMP, MIN_TIMESTAMP, format_duration

PANES, ALL_TIME = "panes", "all time"
"""The state tables. ``time`` is the beginning of the pane. In the partials of all time it is meaningless."""

_HOLE = 1 << 12
"""Panes without rows at which a block ends, at least."""
_KEY_BITS = 20
"""The partials of all time are sorted by this many bits of the key's hash, so that a few keys are in a few blocks."""


@dataclass(frozen=True, slots=True)
class RollingSpec(PaneSpec):
    """Rolling windows of declared aggregates. ``windows`` has the length of each label in panes, None for all time."""

    windows: tuple[tuple[str, int | None], ...] = ()

    @property
    def result_schema(self) -> pa.Schema:
        values = [
            pa.field(result_name(one.name, label), one.type)
            for label, _ in self.windows
            for one in self.aggregation.output_schema
        ]
        return pa.schema([pa.field(AS_OF, INSTANT, nullable=False), *values])

    @property
    def lengths(self) -> tuple[int | None, ...]:
        """The length of each window in panes."""
        return tuple(length for _, length in self.windows)

    @property
    def longest(self) -> int:
        """The longest window with a length, in panes, or 0."""
        return max((length for length in self.lengths if length is not None), default=0)

    @property
    def has_all_time(self) -> bool:
        """True if a window has all rows of a key."""
        return None in self.lengths

    @property
    def levels(self) -> int:
        return resolutions(self.longest)

    @property
    def layouts(self) -> tuple[TableLayout, ...]:
        """The tables of state: partials by key and pane, and partials of all time by key."""
        aggregation, width = self.aggregation, len(self.aggregation.key_schema)
        schema = pa.schema([*key_fields(aggregation.key_schema), *list(aggregation.partial_schema)[width:]])
        panes = TableLayout(PANES, schema, aggregation, by_time=True)
        return (panes, replace(panes, name=ALL_TIME)) if self.has_all_time else (panes,)

    @property
    def name(self) -> str:
        return "rolling values"

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            has_windows=False,
            order_sensitive=self.aggregation.follows_arrival,
            no_firings=f"rolling values have no windows that fire: {AS_OF!r} tells from when a row holds",
            holds_from=AS_OF,
        )

    @property
    def changeable(self) -> frozenset[str]:
        return frozenset({"aggregates", "partials", "emitted"})

    def on_sealed(self, plan: WindowPlan, state: SealedState, group: int) -> Operator:
        return RollingOperator(plan, self, state)

    def restored(self, saved: StateTables) -> list[pa.Table]:
        """Return the saved partials by pane, and of all time."""
        schema = self.aggregation.partial_schema
        panes, *all_time = (pa.Table.from_arrays(layout.restore(saved).columns, schema=schema) for layout in self.layouts)
        return [_with_panes(panes, self.grid.panes_of(integers_of(panes, "pane"))), *all_time]

    def views(self, plan: WindowPlan, saved: StateTables, group: int) -> StateViews:
        """Return the current values of each key, as one window from the beginning of the longest one."""
        panes, *all_time = self.restored(saved)
        width, tables = len(plan.key_schema), [panes, *all_time]
        together = pa.concat_tables(tables)
        coded = encode_keys([plain(column) for column in together.columns[:width]], together.num_rows)
        codes, count = np.asarray(coded.codes, np.int64), coded.count
        each, keys = np.arange(count), coded.take(np.arange(count))
        at, mine = integers_of(panes, "pane"), codes[: panes.num_rows]
        reached = reached_by(saved, by_processing_time=False)
        now = self.grid.pane_of(reached + 1) if MIN_TIMESTAMP < reached < MAX_TIMESTAMP else int(at.min(initial=0))
        steps = np.full(count, now)
        line = KeyedPanes.of(self.aggregation, [panes], all_time, keys, cuts_of(self.lengths, steps, now - self.longest))
        values, _ = line.values(self.lengths, each, steps, no_rows(self.aggregation))
        due, closes, rows = np.full(count, MAX_TIMESTAMP), np.full(count, MIN_TIMESTAMP), np.zeros(count, np.int64)
        for length in (0, *(length for length in self.lengths if length is not None)):
            last = self.grid.starts_of(at + 1 + length) - 1
            np.minimum.at(due, mine, np.where(at + 1 + length > now, last, MAX_TIMESTAMP))
            np.maximum.at(closes, mine, last)
        taken = integers_of(together, "rows")
        # Rows of steps that have not ended are not in the values yet.
        counted = np.append(at < now, np.ones(together.num_rows - len(at), np.bool_))
        np.add.at(rows, codes, np.where(counted, taken, 0))
        as_of = array_of(self.grid.starts_of(steps), pa.int64()).cast(INSTANT)
        shown = WindowRows(
            keys=keys,
            count=count,
            starts=array_of(self.grid.starts_of(steps - max(self.longest, 1)), pa.int64()),
            ends=array_of(self.grid.starts_of(steps), pa.int64()),
            results=[as_of, *values],
            rows=rows,
            due=due,
            closes=np.full(count, MAX_TIMESTAMP) if self.has_all_time else closes,
            size=share(together.nbytes, np.bincount(codes, taken, count).astype(np.int64)),
        )
        schemas = ViewSchemas(plan, group)
        return schemas.with_windows(schemas.windows_of(shown))

    def own_identity(self) -> Mapping[str, str]:
        return {"panes": f"{self.levels} resolutions"}

    def explain(self, plan: WindowPlan, *, streaming: bool) -> Mapping[str, list[str]]:
        every = format_duration(self.grid.start_of(1) - self.grid.start_of(0))
        lines = [f"{label}: {'all time' if length is None else self._told(length)}" for label, length in self.windows]
        late = ["whole rows cross the shuffle too, for the late output"] if plan.late_tag else []
        kept = [f"partials of each key and {every}, until they have left the longest window; merged ones beside them"]
        if self.has_all_time:
            kept.append("one partial of each key for all time before, which is never deleted")
        return {
            "rolling": lines,
            "results": [f"a row of a key when its values change, at multiples of {every}"],
            "aggregates": explain_aggregates(self.aggregates),
            "exchange": [f"pre-aggregated per key and {every} before the shuffle", *late],
            "state": kept if streaming else ["none: a batch computes all steps at the end of input"],
        }

    def _told(self, length: int) -> str:
        return f"the last {format_duration(self.grid.start_of(length) - self.grid.start_of(0))}"


@dataclass(frozen=True, slots=True)
class _Steps:
    """Pairs of key and step at which values may change, ascending; ``keys`` are the distinct keys by code."""

    keys: list[pa.Array]
    codes: Ints
    steps: Ints


class RollingOperator(PanedOperator):
    """The operator of rolling values: see :class:`~panestream.engine.runtime.group_operator.GroupOperator`."""

    def __init__(self, plan: WindowPlan, settings: RollingSpec, state: SealedState) -> None:
        self._settings = settings
        self._grid = settings.grid
        self._aggregation = settings.aggregation
        self._width = len(plan.key_schema)
        longest = max(settings.longest, _HOLE)
        self._rollups = Rollups.of(state, settings.aggregation, longest, settings.levels)
        self._all_time = PaneBlocks(state, ALL_TIME, settings.aggregation.partial_schema, settings.aggregation.merge)
        super().__init__(plan, state, StoredBlocks(state, [*self._rollups.stores(), self._all_time]))
        self._lateness = LatenessPolicy(settings.grid, self._closing)
        if self._saved:
            self._rollups.settled, self._rollups.built = self._saved["settled"], self._saved["built"]

    def _own_metadata(self) -> Mapping[str, Any]:
        return {"settled": self._rollups.settled, "built": self._rollups.built}

    def _ingest(self, batch: GroupInput, step: TimeStep, output: GroupOutput) -> pa.Table:
        return self._merged(self._drop_late(batch, step.before, output))

    # -- firing --------------------------------------------------------------------------------------------------------

    def _fire(self, fresh: pa.Table, step: TimeStep, output: GroupOutput) -> pa.Table:
        fired, until = self._rollups.settled, self._lateness.first_open_pane(step.after)
        due = self._due(fresh, fired, max(fired, until))
        if due is None:
            return fresh
        late, nothing = bool(pane_range(fresh, None, fired).num_rows), no_rows(self._aggregation)
        low = self._low(fresh)
        cuts = cuts_of(self._settings.lengths, np.unique(due.steps), low)
        values, has_rows = self._line(due, cuts, fresh).values(self._settings.lengths, due.codes, due.steps, nothing)
        codes, steps = due.codes, due.steps
        if late:
            # The rows to compare with are those before the late rows came.
            none, known = self._aggregation.partial_schema.empty_table(), np.arange(len(due.keys[0]) if due.keys else 1)
            then = np.full(len(known), fired)
            was, had_rows = self._line(due, cuts_of(self._settings.lengths, then, low), none).values(
                self._settings.lengths, known, then, nothing
            )
            order = pa.array(stable_order(np.concatenate([known, codes])))
            values = [pa.concat_arrays(pair).take(order) for pair in zip(was, values, strict=True)]
            codes, steps, has_rows = (
                np.concatenate(pair)[order.to_numpy()] for pair in ((known, codes), (then, steps), (had_rows, has_rows))
            )
        self._emit_changes(due.keys, codes, steps, values, has_rows, output)
        return fresh

    def _due(self, fresh: pa.Table, fired: int, until: int) -> _Steps | None:
        """Return the steps after ``fired`` up to ``until`` at which a pane enters or leaves a window of a key.

        The step ``fired``, with the last emitted values, precedes them for each key.
        """
        found, steps = list[pa.Table](), list[Ints]()
        for shift in (0, *(length for length in self._settings.lengths if length is not None)):
            low, end = fired - shift, until - shift
            for part in self._between(low, end, pane_range(fresh, low, end)):
                found.append(part)
                steps.append(integers_of(part, "pane") + 1 + shift)
        behind = pane_range(fresh, None, fired)
        found.append(behind)
        steps.append(np.full(behind.num_rows, fired))
        count = sum(part.num_rows for part in found)
        if not count:
            return None
        columns = [pa.chunked_array([c for part in found for c in part.column(n).chunks]) for n in range(self._width)]
        keys = encode_keys([plain(column) for column in columns], count)
        codes, at = np.asarray(keys.codes, np.int64), np.concatenate(steps)
        each = np.arange(keys.count)
        if fired != -BEYOND_ALL:
            codes, at = np.concatenate([codes, each]), np.concatenate([at, np.full(keys.count, fired)])
        order = stable_order(codes, at)
        codes, at = codes[order], at[order]
        new = runs(codes) | runs(at)
        return _Steps(keys.take(each), codes[new], at[new])

    def _low(self, fresh: pa.Table) -> int:
        """Return the first pane that a window with a length needs at the next steps."""
        if self._rollups.settled != -BEYOND_ALL:
            return self._rollups.settled - self._settings.longest
        panes = [block.low for block in self._rollups.arrivals.index]
        return min([*panes, *map(int, integers_of(fresh, "pane")[:1])])

    def _line(self, due: _Steps, cuts: Ints, fresh: pa.Table) -> KeyedPanes:
        """Return the partials of the keys that are due, in the state and in ``fresh``."""
        panes = [*self._rollups.read(cuts), pane_range(fresh, None, int(cuts[-1]))]
        all_time = []
        if self._settings.has_all_time and self._all_time.index:
            wanted = np.unique(self._bucket_of(pa.table(due.keys, names=[str(n) for n in range(self._width)]), len(due.keys)))
            all_time = self._all_time.read_spans(wanted, wanted + 1)
        return KeyedPanes.of(self._aggregation, panes, all_time, due.keys, cuts)

    def _emit_changes(
        self, keys: list[pa.Array], codes: Ints, steps: Ints, values: list[pa.Array], has_rows: Mask, output: GroupOutput
    ) -> None:
        """Emit the rows of ``values``, of ascending keys and steps, that differ from the row of the key before."""
        count, first = len(codes), runs(codes)
        if self._rollups.settled != -BEYOND_ALL:
            emitted, had_rows = first, np.zeros(count, np.bool_)
            had_rows[1:] = has_rows[:-1]
        else:
            emitted, had_rows = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
            had_rows[1:] = has_rows[:-1] & ~first[1:]
        update = had_rows & has_rows & differs_from_before(values, count) & ~first
        changed = np.flatnonzero(~emitted & (update | (had_rows != has_rows)))
        if not len(changed):
            return
        op = np.where(update, OPS.index(UPDATE_AFTER), np.where(has_rows, OPS.index(INSERT), OPS.index(DELETE)))[changed]
        place, shown = changed, changed
        if self._plan.changelog:
            times = np.where(op == OPS.index(UPDATE_AFTER), 2, 1)
            before = np.zeros(int(times.sum()), np.bool_)
            before[np.cumsum(times)[times == 2] - 2] = True
            place, op = np.repeat(changed, times), np.where(before, OPS.index(UPDATE_BEFORE), np.repeat(op, times))
            shown = place - (before | (op == OPS.index(DELETE)))
        none = np.zeros(len(place), np.int64)
        own = firing_columns(self._plan, none, none, none.astype(np.bool_), op)
        as_of = array_of(self._grid.starts_of(steps[place]), pa.int64()).cast(INSTANT)
        of_key = pa.array(codes[place])
        columns = [*(key.take(of_key) for key in keys), as_of, *(value.take(pa.array(shown)) for value in values), *own]
        behind = int((steps[changed] <= self._rollups.settled).sum())
        for firing, number in ((LATE, behind), (ON_TIME, len(changed) - behind)):
            if number:
                self._count_firings(firing, number, output)
        self._emit_main(pa.Table.from_arrays(columns, schema=self._plan.main_schema), len(changed), output)

    # -- state ---------------------------------------------------------------------------------------------------------

    def _close(self, fresh: pa.Table, step: TimeStep) -> None:
        self._closing.reach(step.after)
        until = max(self._rollups.settled, self._lateness.first_open_pane(step.after))
        self._keep(fresh, until)

    def _keep(self, fresh: pa.Table, until: int) -> None:
        """Store partials, when the panes before ``until`` have entered the windows."""
        low = until - self._settings.longest
        if self._settings.has_all_time:
            left = self._rollups.settled - self._settings.longest
            self._add_to_all_time([part for part in self._between(left, low, pane_range(fresh, None, low)) if part.num_rows])
        self._rollups.roll_up(fresh, until, low)

    def _add_to_all_time(self, parts: Sequence[pa.Table]) -> None:
        if parts:
            table = pa.concat_tables(parts)
            if self._aggregation.keeps_order:
                table = table.take(pa.array(stable_order(integers_of(table, "pane"))))
            buckets = self._bucket_of(table, table.num_rows)
            self._all_time.append(self._aggregation.merge([_with_panes(table, buckets)]))
        self._all_time.compact(-BEYOND_ALL)

    def _bucket_of(self, table: pa.Table, rows: int) -> Ints:
        return hashes_of(table, self._width) >> (64 - _KEY_BITS) if self._width else np.zeros(rows, np.int64)

    def _kept_windows(self) -> None:
        return None

    def _between(self, low: int, end: int, *fresh: pa.Table) -> list[pa.Table]:
        """Return the stored partials of panes from ``low`` to before ``end``, then ``fresh``."""
        rollups = self._rollups
        settled = rollups.settled
        stored = rollups.levels[0].read(low, min(end, settled)) + rollups.arrivals.read(max(low, settled), end)
        return [*stored, *fresh]

    # -- as tables -----------------------------------------------------------------------------------------------------

    def _own_header(self) -> Mapping[str, Any]:
        return {**self._settings.layouts[0].header(), "counters": {}}

    def _state_tables(self) -> Mapping[str, pa.Table]:
        low = self._rollups.settled - self._settings.longest
        panes = self._aggregation.merge(self._between(low, BEYOND_ALL))
        panes = _with_panes(panes, self._grid.starts_of(integers_of(panes, "pane")))
        all_time = self._aggregation.merge(self._all_time.read(-BEYOND_ALL, BEYOND_ALL))
        return {layout.name: layout.save(rows) for layout, rows in zip(self._settings.layouts, (panes, all_time), strict=False)}

    def _write_tables(self, saved: StateTables) -> None:
        panes, *all_time = self._settings.restored(saved)
        self._add_to_all_time([table for table in all_time if table.num_rows])
        self._rollups.roll_up(self._aggregation.merge([panes]), self._lateness.first_open_pane(self._reached), -BEYOND_ALL)


def _with_panes(table: pa.Table, panes: Ints) -> pa.Table:
    place = table.schema.get_field_index("pane")
    return table.set_column(place, table.schema.field(place), pa.array(panes))


def rolling_rule(window: WindowQuery, asked: WindowRequest) -> Supported | None:
    """Plan rolling windows over declared aggregates; raise InvalidPlanError for unsupported queries."""
    rolling = window.assigner
    if not isinstance(rolling, RollingWindows):
        return None
    asked = on_columns_only(replace(window, allowed_lateness=0), asked, "rolling windows")
    if window.allowed_lateness > rolling.longest and not rolling.has_all_time:
        raise InvalidPlanError(
            f"allowed_lateness is {format_duration(window.allowed_lateness)}, after which a row has left the longest rolling "
            f"window: allow at most {format_duration(rolling.longest)}, or add a window of all time, e.g. {{'ever': None}}"
        )
    aggregation = Aggregation.build(asked.aggregates, asked.types, asked.keys)
    if aggregation.runs_users_code:
        users = ", ".join(repr(one) for one in asked.aggregates)
        raise InvalidPlanError(
            f"rolling windows compute aggregates of panestream.agg, and {users} run user code: use sliding windows for them"
        )
    grid = PaneGrid.of(SlidingWindows(rolling.every, rolling.every))
    windows = tuple((label, None if length is None else length // rolling.every) for label, length in rolling.windows)
    spec = RollingSpec(grid, tuple(asked.aggregates), aggregation, windows=windows)
    taken = [name for name in spec.result_schema.names if spec.result_schema.names.count(name) > 1 or name in asked.keys.names]
    if taken:
        raise InvalidPlanError(f"rolling results have two columns {taken[0]!r}: rename an aggregate, a label or a key")
    return Supported(spec)
