"""Aligned windows with rows for windows without rows.

The state has the last window of each key that had rows, with the values that windows after it repeat or interpolate from. When
time passes a window, each known key without rows in it gets a row, in the same micro-batch and in order. If windows accept late
rows, the state has all windows of a key that may still fire, and the one before them. A late row then corrects the filled
windows after its own.

A listed key counts as known, with nulls, in the window before the first one of the query, once this first one ends. Keys that
are listed later begin with the first window that has not ended by then. The state has the listed keys that were taken in, so
that none begins twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panestream.engine.kernels.columns import Mask, key_fields, plain
from panestream.engine.kernels.grouping import encode_keys, is_among, numbered
from panestream.engine.kernels.ordering import stable_order
from panestream.engine.kernels.panes import AlignedWindows, Int64s
from panestream.engine.operators.panes.firing import FiredWindows
from panestream.engine.operators.panes.operator import PaneOperator, PaneSpec, panes_rule
from panestream.engine.plan import LATE, Capabilities, WindowPlan, WindowQuery
from panestream.engine.rule import DeclaredAggregates, Supported, Unsupported, WindowRequest
from panestream.engine.runtime.group_io import GroupOutput
from panestream.engine.runtime.group_operator import TimeStep, last_instant
from panestream.engine.runtime.watermarks import BEYOND_ALL, last_ended
from panestream.engine.storage.blocks import PaneBlocks
from panestream.engine.storage.sealed_state import SealedState
from panestream.engine.storage.state import filled_too_large
from panestream.engine.storage.state_tables import StateTables, key_columns
from panestream.errors import InvalidPlanError
from panestream.windowing.assigners.base import SeveralWindows
from panestream.windowing.fill import LAST, LINEAR, ZERO, Fill, ListedKeys, is_added_up
from panestream.windowing.time import MAX_TIMESTAMP, MIN_TIMESTAMP

KNOWN, LISTED = "known", "listed"
"""The tables of state with the windows that had rows, and with the listed keys that were taken in."""
_NULL = Fill("null")


@dataclass(frozen=True, slots=True)
class FilledPaneSpec(PaneSpec):
    """Aligned windows of one kind that also fire for known keys without rows."""

    fill: Fill = _NULL
    listed_keys: ListedKeys | None = None

    @property
    def capabilities(self) -> Capabilities:
        return replace(super(FilledPaneSpec, self).capabilities, follows_oldest=self.listed_keys is not None)

    @property
    def methods(self) -> tuple[str, ...]:
        """The method of each result."""
        return self.fill.methods_of(dict(zip(self.result_schema.names, self.result_schema.types, strict=True)))

    def on_sealed(self, plan: WindowPlan, state: SealedState, group: int) -> PaneOperator:
        return FilledPaneOperator(plan, self, state)

    def own_identity(self) -> Mapping[str, str]:
        listed = {} if self.listed_keys is None else {"listed keys": "filled"}
        return {**PaneSpec.own_identity(self), "fill": repr(self.fill), **listed}

    def explain(self, plan: WindowPlan, *, streaming: bool) -> Mapping[str, list[str]]:
        sections = PaneSpec.explain(self, plan, streaming=streaming)
        waits = ["such a window waits for the next one of its key with rows"] if self.fill.waits else []
        state = ["for each key its last window with rows, and the values that are filled from it"] if streaming else []
        listed = [] if self.listed_keys is None else [f"{self.listed_keys!r} are filled from the first window of the query on"]
        state += ["the listed keys"] if streaming and listed else []
        return {
            **sections,
            "firing": [*sections["firing"], self.fill.described, *listed, *waits],
            "state": [*sections["state"], *state],
        }


@dataclass(frozen=True, slots=True)
class Gaps:
    """Windows without rows, ascending, with the places of the windows with rows before and after them."""

    windows: Int64s
    before: Int64s
    after: Int64s


@dataclass(frozen=True, slots=True)
class Filler:
    """Finds the windows without rows of keys, and fills them.

    A table of known windows has key columns, ``pane`` (the number of the window), and the values that are filled from it.
    """

    one: AlignedWindows
    spec: FilledPaneSpec
    methods: tuple[str, ...]
    keys: pa.Schema
    most_bytes: int

    @property
    def kept(self) -> pa.Schema:
        """The results that are filled from a window with rows."""
        columns = zip(self.spec.result_schema, self.methods, strict=True)
        return pa.schema([column for column, method in columns if method in (LAST, LINEAR)])

    @property
    def schema(self) -> pa.Schema:
        """The columns of known windows."""
        values = [pa.field(f"value {place}", column.type) for place, column in enumerate(self.kept)]
        return pa.schema([*key_fields(self.keys), pa.field("pane", pa.int64()), *values])

    @property
    def listed(self) -> pa.Schema:
        """The columns of listed keys."""
        return pa.schema([*key_fields(self.keys), pa.field("pane", pa.int64())])

    def without(self, listed: pa.Table, others: pa.Table) -> pa.Table:
        """Return the listed keys that others do not have."""
        width = len(self.keys)
        return listed.filter(pa.array(~is_among(*numbered(listed.columns[:width], others.columns[:width]))))

    def begin(self, known: pa.Table, listed: pa.Table, pane: int) -> pa.Table:
        """Return known windows with a window without values for each listed key."""
        nothing = [pa.nulls(listed.num_rows, column.type) for column in self.schema][len(self.keys) + 1 :]
        columns = [*listed.columns[: len(self.keys)], pa.array(np.full(listed.num_rows, pane)), *nothing]
        return pa.concat_tables([known, pa.Table.from_arrays(columns, schema=self.schema)])

    def limits(self, windows: Int64s) -> Int64s:
        """Return the last windows that are filled after windows with rows."""
        if self.spec.fill.max_gap is None:
            return np.full(len(windows), BEYOND_ALL)
        return self.one.first_ending_after(self.one.end_of(windows) + self.spec.fill.max_gap) - 1

    def known(self, table: pa.Table, fired: FiredWindows) -> pa.Table:
        """Return known windows with those that fired, which replace equal ones, sorted by key and window."""
        rows = fired.rows
        width, names = len(self.keys), self.spec.result_schema.names
        values = [rows.columns[width + names.index(name)] for name in self.kept.names]
        columns = [*rows.columns[:width], pa.array(fired.windows), *values]
        both = pa.concat_tables([table, pa.Table.from_arrays(columns, schema=self.schema)]).combine_chunks()
        codes, windows = self._codes(both), both.column("pane").to_numpy()
        order = np.lexsort((windows, codes))
        codes, windows = codes[order], windows[order]
        latest = np.append((codes[1:] != codes[:-1]) | (windows[1:] != windows[:-1]), True) if len(order) else order
        return both.take(pa.array(order[latest]))

    def _codes(self, table: pa.Table) -> Int64s:
        coded = encode_keys([plain(column) for column in table.columns[: len(self.keys)]], table.num_rows)
        codes: Int64s = np.asarray(coded.codes, np.int64)
        return codes

    def gaps(self, known: pa.Table, ended: int, until: int) -> Gaps:
        """Return the windows from ``ended`` (exclusive) to ``until`` without rows of known keys, sorted as :meth:`known` does.

        If windows wait for the next one with rows, they are those between two known windows.
        """
        codes, windows = self._codes(known), known.column("pane").to_numpy()
        same = np.append(codes[1:] == codes[:-1], False) if len(codes) else np.empty(0, np.bool_)
        following = np.where(same, np.append(windows[1:], until + 1)[: len(codes)], until + 1)
        first, limits = np.maximum(windows, ended) + 1, self.limits(windows)
        if self.spec.fill.waits:
            first = windows + 1
            last = np.where(same & (following - 1 <= limits), following - 1, windows)
        else:
            last = np.minimum(np.minimum(following - 1, until), limits)
        counts = np.maximum(last - first + 1, 0)
        total = int(counts.sum())
        size = total * 8 * (len(self.keys) + 2 + len(self.methods))
        if size > self.most_bytes:
            raise filled_too_large(total, size, self.most_bytes)
        before = np.repeat(np.arange(len(counts)), counts)
        found = np.arange(total) - (np.cumsum(counts) - counts)[before] + first[before]
        order = stable_order(found)
        return Gaps(found[order], before[order], before[order] + 1)

    def rows(self, known: pa.Table, gaps: Gaps) -> FiredWindows:
        """Return the rows of windows without rows."""
        at, count = pa.array(gaps.before), len(gaps.windows)
        columns: list[pa.ChunkedArray | pa.Array] = [column.take(at) for column in known.columns[: len(self.keys)]]
        values = iter(known.columns[len(self.keys) + 1 :])
        for result, aggregate, method in zip(self.spec.result_schema, self.spec.aggregates, self.methods, strict=True):
            if method == LAST:
                columns.append(next(values).take(at))
            elif method == LINEAR:
                columns.append(self._between(next(values), known.column("pane").to_numpy(), gaps).cast(result.type))
            elif method == ZERO and is_added_up(aggregate):
                columns.append(pa.repeat(pa.scalar(0, result.type), count))
            else:
                columns.append(pa.nulls(count, result.type))
        names = [*self.keys.names, *self.spec.result_schema.names]
        return FiredWindows(0, gaps.windows, pa.Table.from_arrays(columns, names))

    def _between(self, values: pa.ChunkedArray, windows: Int64s, gaps: Gaps) -> pa.ChunkedArray:
        begin, end = (self.one.start_of(windows[places]) for places in (gaps.before, gaps.after))
        share = (self.one.start_of(gaps.windows) - begin) / np.maximum(end - begin, 1)
        low, high = values.take(pa.array(gaps.before)), values.take(pa.array(gaps.after))
        return pc.add(low, pc.multiply(pc.subtract(high, low), pa.array(share)))

    def needed(self, known: pa.Table, closed: int) -> pa.Table:
        """Return the known windows that later ones can still be filled from; windows up to ``closed`` do not fire again."""
        codes, windows = self._codes(known), known.column("pane").to_numpy()
        if not len(codes):
            return known
        limits = self.limits(windows) + (1 if self.spec.fill.waits else 0)
        followed = np.append((codes[1:] == codes[:-1]) & (windows[1:] <= closed), False)
        kept = known.filter(pa.array(~followed & (limits > closed)))
        return kept.take(pa.array(stable_order(kept.column("pane").to_numpy())))


class FilledPaneOperator(PaneOperator):
    """The operator of aligned panes that also emits windows without rows."""

    def __init__(self, plan: WindowPlan, settings: FilledPaneSpec, state: SealedState) -> None:
        self._filler = Filler(settings.grid.windows[0], settings, settings.methods, plan.key_schema, plan.most_bytes)
        self._store = PaneBlocks(state, KNOWN, self._filler.schema, pa.concat_tables)
        self._keys = settings.listed_keys
        self._listed = None if self._keys is None else PaneBlocks(state, LISTED, self._filler.listed, pa.concat_tables)
        self._taken = ""
        self._known: pa.Table | None = None
        self._ended = self._until = -BEYOND_ALL
        super().__init__(plan, settings, state)
        self._taken = self._saved.get("listed", "")

    def _own_stores(self) -> list[PaneBlocks]:
        return [self._store, *([] if self._listed is None else [self._listed])]

    def _own_metadata(self) -> Mapping[str, Any]:
        return {**super()._own_metadata(), **({} if self._listed is None else {"listed": self._taken})}

    def _fire_between(self, fresh: pa.Table, before: int, after: int, output: GroupOutput) -> pa.Table:
        one = self._grid.windows[0]
        self._ended, self._until = last_ended(one, before), last_ended(one, self._filled_until(after))
        self._take_in_keys()
        return super()._fire_between(fresh, before, after, output)

    def _take_in_keys(self) -> None:
        """Begin the listed keys that are new, once the first window of the query has ended."""
        keys, oldest = self._keys, self._tracker.oldest
        if self._listed is None or keys is None or keys.digest == self._taken or oldest is None:
            return
        first = self._grid.windows[0].first_ending_after(oldest)
        if self._until < first:
            return
        mine = keys.table.filter(pa.array(keys.table.column("hash").to_numpy() % self._plan.groups == self._state.group))
        mine = mine.set_column(mine.num_columns - 1, "pane", pa.array(np.zeros(mine.num_rows, np.int64)))
        mine = mine.rename_columns(self._filler.listed.names).cast(self._filler.listed)
        before = self._read_listed(self._listed)
        mine = self._filler.without(mine, before)
        silent = self._filler.without(mine, self._read())
        self._known = self._filler.begin(self._read(), silent, max(first - 1, self._ended))
        self._listed.replace(pa.concat_tables([before, mine]))
        self._taken = keys.digest

    def _read_listed(self, listed: PaneBlocks) -> pa.Table:
        return pa.concat_tables([listed.schema.empty_table(), *listed.read(-BEYOND_ALL, BEYOND_ALL)])

    def _filled_until(self, after: int) -> int:
        """Return the time until which windows are filled: at the end of the input, the last instant of windows with rows."""
        newest = self._tracker.newest
        if after != MAX_TIMESTAMP or newest == MIN_TIMESTAMP:
            return MIN_TIMESTAMP if after == MAX_TIMESTAMP else after
        return last_instant(self._plan.assigner, newest)

    def _emit(self, fired: list[FiredWindows], firing: str, closed: int, output: GroupOutput) -> None:
        names = [*self._plan.key_schema.names, *self._settings.result_schema.names]
        columns = [*self._plan.key_schema.types, *self._settings.result_schema.types]
        some = [one for one in fired if len(one.windows)]
        nothing = pa.schema(list(zip(names, columns, strict=True))).empty_table()
        one = some[0] if some else FiredWindows(0, np.empty(0, np.int64), nothing)
        if firing == LATE:
            filled = self._corrected(one) if some else None
        elif some or self._until > self._ended:
            self._known = self._filler.known(self._read(), one)
            filled = self._filler.rows(self._known, self._filler.gaps(self._known, self._ended, self._until))
        else:
            filled = None
        super()._emit(fired if filled is None else [_together(one, filled)], firing, closed, output)

    def _read(self) -> pa.Table:
        if self._known is None:
            parts = self._store.read(-BEYOND_ALL, BEYOND_ALL)
            self._known = pa.concat_tables(parts) if parts else self._store.schema.empty_table()
        return self._known

    def _corrected(self, late: FiredWindows) -> FiredWindows:
        """Take in windows with late rows, and return the windows without rows that these change or add."""
        filler, width = self._filler, len(self._plan.key_schema)
        known = self._read()
        ours, theirs, size = numbered(known.columns[:width], late.rows.columns[:width])
        old = filler.known(
            known.filter(pa.array(is_among(ours, theirs, size))), late.filter(np.zeros(len(late.windows), np.bool_))
        )
        new = filler.known(old, late)
        self._known = filler.known(known, late)
        gaps = filler.gaps(new, -BEYOND_ALL, self._ended)
        before, after = filler.rows(old, filler.gaps(old, -BEYOND_ALL, self._ended)), filler.rows(new, gaps)
        changed = ~_is_among(after.rows, after.windows, before.rows, before.windows, width)
        if LAST in filler.methods:
            sources = new.take(pa.array(gaps.before))
            changed |= _is_among(sources, sources.column("pane").to_numpy(), late.rows, late.windows, width)
        return after.filter(changed)

    def _close(self, fresh: pa.Table, step: TimeStep) -> None:
        super()._close(fresh, step)
        if self._known is not None:
            closed = last_ended(self._grid.windows[0], self._closing.until)
            self._store.replace(self._filler.needed(self._known, closed))

    # -- as tables -----------------------------------------------------------------------------------------------------

    def _state_tables(self) -> Mapping[str, pa.Table]:
        own, rows = self._as_tables(), self._read()
        listed = {} if self._listed is None else {LISTED: self._read_listed(self._listed).drop_columns("pane")}
        return {**super()._state_tables(), KNOWN: own.known(rows, self._grid.windows[0], self._filler.kept), **listed}

    def _write_tables(self, saved: StateTables) -> None:
        super()._write_tables(saved)
        if KNOWN in saved.tables:
            self._as_tables().keep_known(saved.table(KNOWN), self._store, self._filler.kept)
        if LISTED in saved.tables and self._listed is not None:
            keys = key_columns(saved.table(LISTED), self._plan.key_schema)
            panes = pa.array(np.zeros(saved.table(LISTED).num_rows, np.int64))
            self._listed.append(pa.Table.from_arrays([*keys, panes], schema=self._listed.schema))


def _is_among(rows: pa.Table, windows: Int64s, others: pa.Table, theirs: Int64s, width: int) -> Mask:
    """Return which keys and windows are among others; the first ``width`` columns are the key."""
    found: Mask = is_among(*numbered(rows.columns[:width], others.columns[:width], windows, theirs))
    return found


def _together(one: FiredWindows, other: FiredWindows) -> FiredWindows:
    """Return the firings of both, by window."""
    names = other.rows.column_names
    columns = [
        pa.chunked_array([*a.chunks, *b.chunks]) for a, b in zip(one.rows.columns[: len(names)], other.rows.columns, strict=True)
    ]
    windows = np.concatenate((one.windows, other.windows))
    order = stable_order(windows)
    return FiredWindows(0, windows[order], pa.Table.from_arrays(columns, names).take(pa.array(order)))


def filled_panes_rule(window: WindowQuery, asked: WindowRequest) -> Supported | None:
    """Plan windows that are also emitted without rows, or raise InvalidPlanError with the reasons why that is impossible."""
    if window.fill is None:
        return None
    verdict = panes_rule(replace(window, fill=None), asked)
    reasons = [*verdict.reasons] if isinstance(verdict, Unsupported) else []
    if isinstance(window.assigner, SeveralWindows):
        reasons.append("there are several kinds of windows: fill each in a query of its own")
    elif not window.assigner.is_event_time:
        reasons.append("windows of processing time have no rows before the clock: take windows of event time")
    if window.trigger is not None and window.trigger != window.assigner.get_default_trigger():
        reasons.append(f"a window without rows fires once, at its end: leave out the trigger {window.trigger!r}")
    if window.per_key:
        reasons.append("filled windows have one watermark for all keys: leave out per_key or fill")
    if window.fill.waits and window.allowed_lateness:
        reasons.append(
            "a late row would change values before its window too: leave out allowed_lateness, and let the watermark wait longer"
        )
    if window.listed_keys is not None and window.allowed_lateness:
        reasons.append(
            "a late row may come before the first window of the listed keys: leave out keys or allowed_lateness, and let the "
            "watermark wait longer"
        )
    if reasons or not isinstance(verdict, Supported) or not isinstance(asked, DeclaredAggregates):
        raise InvalidPlanError(
            "fill is for tumbling, sliding, cumulating and calendar windows of event time with declared aggregates. Here: "
            f"{'; '.join(reasons)}"
        )
    spec = verdict.operator
    assert isinstance(spec, PaneSpec)  # noqa: S101 - the rule has no other
    filled = filled_spec(spec, window.fill, window.listed_keys)
    filled.fill.methods_of(dict(zip(spec.result_schema.names, spec.result_schema.types, strict=True)))
    return Supported(filled)


def filled_spec(spec: PaneSpec, fill: Fill, listed_keys: ListedKeys | None = None) -> FilledPaneSpec:
    """Return the specification of the same windows, filled."""
    own = {each.name: getattr(spec, each.name) for each in fields(spec)}
    return FilledPaneSpec(**own, fill=fill, listed_keys=listed_keys)
