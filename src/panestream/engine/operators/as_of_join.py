"""The as-of join: each left row with the right row of its key that is nearest in time.

A left row is emitted once, when the watermark shows that no better right row can come. Rows of both sides wait in blocks by time
until the watermark passes them. Then *pages* by key store what later rows need: the newest right row of each key, and left rows
whose match is still ahead. So a micro-batch reads the rows that the watermark passes, and the pages of their keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panestream.engine.kernels.as_of import Neighbours, last_of_each
from panestream.engine.kernels.columns import Ints, Mask, list_of, one_chunk
from panestream.engine.kernels.grouping import numbered
from panestream.engine.operators.columnar import hashes_of, integers_of
from panestream.engine.operators.two_sides import ROW, TwoSidesOperator, TwoSidesSpec
from panestream.engine.plan import Capabilities, WindowPlan
from panestream.engine.runtime.group_io import GroupOutput
from panestream.engine.runtime.group_operator import TimeStep
from panestream.engine.runtime.sides import INNER, LEFT, RIGHT, SIDES
from panestream.engine.runtime.watermarks import BEYOND_ALL
from panestream.engine.storage.blocks import StoredBlocks, sorted_by_pane
from panestream.engine.storage.keyed_pages import BlocksAndPages, KeyedPages
from panestream.engine.storage.sealed_state import SealedState
from panestream.engine.storage.state_tables import StateTables
from panestream.windowing.time import MAX_TIMESTAMP, MIN_TIMESTAMP, format_duration

BACKWARD, FORWARD, NEAREST = DIRECTIONS = ("backward", "forward", "nearest")
"""Where the right row is searched: at or before the left row's time, at or after it, or on both sides."""
_DIRECTION_TEXTS = {
    BACKWARD: "the newest right row at or before its time",
    FORWARD: "the first right row at or after its time",
    NEAREST: "the right row nearest to its time, of two equally near the earlier",
}


@dataclass(frozen=True, slots=True)
class AsOfSpec(TwoSidesSpec):
    """An as-of join.

    Attributes:
        direction: one of :data:`DIRECTIONS`.
        tolerance: the largest distance in time, inclusive, or None for any.
        how: ``inner`` or ``left``.
        deletes: whether the last field of right rows says that a row deletes the value of its key.
        left, right: the stored part of each side's rows, as structs.
    """

    direction: str
    tolerance: int | None
    how: str
    deletes: bool
    left: pa.DataType
    right: pa.DataType
    keys: pa.Schema

    @property
    def name(self) -> str:
        return "as-of join"

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            has_windows=False,
            late_by_time=0,
            no_firings="an as-of join emits each row of the left stream once: there is nothing to number",
            no_changelog="an as-of join emits each row of the left stream once: nothing is taken back",
        )

    @property
    def page_schema(self) -> pa.Schema:
        """The columns of pages: keys, time, and the row of one side; the other is null."""
        own = list(self.layout(LEFT).schema)[:-1]
        return pa.schema([*own, *(pa.field(side, self.row_of(side)) for side in SIDES)])

    @property
    def kept_for(self) -> int | None:
        """How long after its time the newest right row of a key can match, or None for ever. Nearest rows may still wait."""
        if self.tolerance is None or self.direction != NEAREST:
            return self.tolerance
        return 2 * self.tolerance

    def on_sealed(self, plan: WindowPlan, state: SealedState, group: int) -> AsOfOperator:
        return AsOfOperator(plan, self, state)

    @property
    def kind(self) -> str:
        return f"{self.how}, {self.direction}, {'any distance' if self.tolerance is None else self.tolerance}"

    def explain(self, plan: WindowPlan, *, streaming: bool) -> Mapping[str, list[str]]:
        within = "" if self.tolerance is None else f", at most {format_duration(self.tolerance)} away"
        deleted = ["a right row may delete the value of its key, from its time on"] if self.deletes else []
        kept = "" if self.kept_for is None else f" until the watermark is {format_duration(self.kept_for)} past it"
        state = ["rows of both sides until the watermark passes them"]
        if self.direction != FORWARD:
            state.append(f"the newest right row of each key{kept}")
        if self.direction != BACKWARD:
            limit = (
                "" if self.tolerance is None else f", at most until the watermark is {format_duration(self.tolerance)} past it"
            )
            state.append(f"a left row until the watermark passes a right row after it{limit}")
        return {
            "as of": [f"{self.how} join: each left row with {_DIRECTION_TEXTS[self.direction]}{within}", *deleted],
            "exchange": ["rows cross the shuffle, of each side the columns that results have"],
            "state": state if streaming else ["none: a batch emits all at the end of input"],
        }


@dataclass(frozen=True, slots=True)
class _Line:
    """The rows that the watermark has passed and that still matter: those of pages first, then new ones.

    Attributes:
        left, right: the rows.
        read: the pages that were read.
        old: how many rows of each side are from pages.
        found: the right row of each left row, or -1.
        sure_at: the time at which the watermark makes this final.
        newest: the newest right row of each key.
    """

    left: pa.Table
    right: pa.Table
    read: Mask
    old: Mapping[str, int]
    found: Ints
    sure_at: Ints
    newest: Ints


class AsOfOperator(TwoSidesOperator):
    """The operator of as-of joins: see :class:`~panestream.engine.runtime.group_operator.GroupOperator`."""

    def __init__(self, plan: WindowPlan, settings: AsOfSpec, state: SealedState) -> None:
        self._settings = settings
        self._pages = KeyedPages(state, settings.page_schema)
        self._line: _Line | None = None
        super().__init__(plan, settings, state)

    def _storage_of(self, state: SealedState) -> BlocksAndPages:
        return BlocksAndPages(StoredBlocks(state, list(self._blocks.values())), self._pages)

    # -- matches -------------------------------------------------------------------------------------------------------

    def _fire(self, fresh: Mapping[str, pa.Table], step: TimeStep, output: GroupOutput) -> Mapping[str, pa.Table]:
        if step.after <= step.before:
            return fresh
        since, until = max(step.before + 1, -BEYOND_ALL), min(step.after + 1, BEYOND_ALL)
        passed = {}
        for side in SIDES:
            own = fresh[side].filter(pa.array(fresh[side].column("pane").to_numpy() < until))
            passed[side] = pa.concat_tables([*self._blocks[side].read(since, until), own])
        line = self._line = self._line_of(passed, step.after)
        sure = line.sure_at <= step.after
        if self._settings.how == INNER:
            sure &= line.found >= 0
        self._emit_found(line, np.flatnonzero(sure), output)
        return fresh

    def _emit_found(self, line: _Line, rows: Ints, output: GroupOutput) -> None:
        found = line.found[rows]
        matched = found >= 0
        ones = one_chunk(line.left.column(ROW)).take(pa.array(rows))
        met = one_chunk(line.right.column(ROW)).take(pa.array(found[matched]))
        lists = list_of(ones, np.ones(len(rows), np.int64)), list_of(met, matched.astype(np.int64))
        self._emit(line.left, rows, lists, output)

    def _line_of(self, passed: Mapping[str, pa.Table], reached: int) -> _Line:
        """Return the line of new rows, and of the rows in the pages of their keys and in pages with due rows."""
        pages = self._pages
        read = np.ones(len(pages.index), np.bool_)
        if pages.sizes():
            read = pages.due(reached)
            for table in passed.values():
                read |= pages.holding(hashes_of(table, self._width))
        stored, both, old = pages.read(read), {}, {}
        for side in SIDES:
            ours = self._rows_of(side, stored)
            old[side], both[side] = ours.num_rows, pa.concat_tables([ours, passed[side]])
        return _Line(both[LEFT], both[RIGHT], read, old, *self._matched(both[LEFT], both[RIGHT]))

    def _matched(self, left: pa.Table, right: pa.Table) -> tuple[Ints, Ints, Ints]:
        """Return the match of each left row, when it is final, and the newest right row of each key."""
        tolerance, direction = self._settings.tolerance, self._settings.direction
        ours, theirs = left.columns[: self._width], right.columns[: self._width]
        codes, others, _ = numbered(ours, theirs)
        times, instants = integers_of(left, "pane"), integers_of(right, "pane")
        near = Neighbours.of(np.concatenate([others, codes]), np.concatenate([instants, times]), len(others))
        newest = near.newest[~_has_null(theirs, len(others))[near.newest]]
        before, after = (_within(side, times, instants, tolerance) for side in (near.before, near.after))
        unknown = _has_null(ours, len(codes))
        if direction == BACKWARD:
            found, sure_at = before, times.copy()
        else:
            before = np.full(len(codes), -1) if direction == FORWARD else before
            back, ahead = (_distance(side, times, instants) for side in (before, after))
            found = np.where(back <= ahead, before, after)
            # A left row waits for the first right row after it, unless none could be nearer than what it has.
            wait = np.minimum(np.where(before >= 0, back - 1, BEYOND_ALL), BEYOND_ALL if tolerance is None else tolerance)
            sure_at = np.where(wait < BEYOND_ALL, times + wait, MAX_TIMESTAMP)
            sure_at = np.minimum(sure_at, np.append(instants, MAX_TIMESTAMP)[near.after])
        if self._settings.deletes:
            found = np.where(self._deletes(right)[found], -1, found)
        found[unknown], sure_at[unknown] = -1, times[unknown]
        return found, sure_at, newest

    def _deletes(self, right: pa.Table) -> Mask:
        """Return which right rows delete the value of their key, and False for number -1."""
        flags = pc.struct_field(one_chunk(right.column(ROW)), [self._settings.right.num_fields - 1])
        return np.append(flags.to_numpy(zero_copy_only=False).astype(np.bool_), False)

    # -- state ---------------------------------------------------------------------------------------------------------

    def _close(self, fresh: Mapping[str, pa.Table], step: TimeStep) -> None:
        for side in SIDES:
            self._add(side, fresh[side], _live(step.after))
        if self._line is not None:
            self._settle(self._line, step.after)
        self._closing.reach(step.after)

    def _settle(self, line: _Line, reached: int) -> None:
        """Write the pages of a line: left rows whose match is not final, and the newest right rows."""
        settings = self._settings
        waiting = line.sure_at > reached
        newest = line.newest
        due = np.full(len(newest), MAX_TIMESTAMP)
        if settings.kept_for is not None:
            due = integers_of(line.right, "pane")[newest] + settings.kept_for
        live = due > reached
        if settings.direction == FORWARD:
            live[:] = False
        elif settings.deletes:
            live &= ~self._deletes(line.right)[newest]
        newest, due = newest[live], due[live]
        kept = {LEFT: np.flatnonzero(waiting), RIGHT: newest}
        parts, hashes, changed = [], [], []
        for side, rows in ((LEFT, line.left), (RIGHT, line.right)):
            own, stays = hashes_of(rows, self._width), np.zeros(rows.num_rows, np.bool_)
            stays[kept[side]] = True
            # A row changes its page if it comes or goes.
            changed.append(own[stays != (np.arange(len(own)) < line.old[side])])
            hashes.append(own[kept[side]])
            parts.append(self._page_rows(side, rows.take(pa.array(kept[side]))))
        if any(map(len, changed)):
            dues = np.concatenate([line.sure_at[waiting], due])
            self._pages.write(line.read, np.concatenate(changed), pa.concat_tables(parts), np.concatenate(hashes), dues)

    def _rows_of(self, side: str, pages: pa.Table) -> pa.Table:
        """Return the rows of a side in pages."""
        ours = pages.filter(pages.column(side).is_valid())
        names = [*ours.column_names[: self._width + 1], side]
        return ours.select(names).rename_columns([*names[:-1], ROW])

    def _page_rows(self, side: str, rows: pa.Table) -> pa.Table:
        """Return rows of a side with the columns of pages."""
        schema = self._settings.page_schema
        columns = [rows.column(ROW) if name == side else pa.nulls(rows.num_rows, schema.field(name).type) for name in SIDES]
        return pa.Table.from_arrays([*rows.columns[: self._width + 1], *columns], schema=schema)

    def _kept_windows(self) -> int | None:
        return sum(page.rows for page in self._pages.index)

    def _state_tables(self) -> Mapping[str, pa.Table]:
        stored, found = self._pages.read(np.ones(len(self._pages.index), np.bool_)), {}
        for side in SIDES:
            rows = pa.concat_tables([self._rows_of(side, stored), self._stored(side, _live(self._reached))])
            if side == RIGHT:
                # The order of saved rows means nothing, so only the row that counts at a time is saved.
                keys = rows.columns[: self._width]
                codes, _, _ = numbered(keys, [column.slice(0, 0) for column in keys])
                rows = rows.take(pa.array(last_of_each(codes, integers_of(rows, "pane"))))
            found[side] = self._layouts[side].save(rows)
        return found

    def _write_tables(self, saved: StateTables) -> None:
        rows = {side: sorted_by_pane([self._layouts[side].restore(saved)]) for side in SIDES}
        settled = {side: table.column("pane").to_numpy() < _live(self._reached) for side, table in rows.items()}
        for side, blocks in self._blocks.items():
            blocks.append(rows[side].filter(pa.array(~settled[side])))
        passed = {side: rows[side].filter(pa.array(settled[side])) for side in SIDES}
        self._settle(self._line_of(passed, self._reached), self._reached)


def _live(reached: int) -> int:
    """Return the first time that is after the watermark."""
    return -BEYOND_ALL if reached == MIN_TIMESTAMP else min(reached + 1, BEYOND_ALL)


def _distance(found: Ints, times: Ints, instants: Ints) -> Ints:
    """Return how far each left row is from its right row; :data:`BEYOND_ALL` without one."""
    away: Ints = np.abs(times - np.append(instants, 0)[found])
    return np.where(found >= 0, np.minimum(away, BEYOND_ALL - 1), BEYOND_ALL)


def _within(found: Ints, times: Ints, instants: Ints, tolerance: int | None) -> Ints:
    """Return the right rows that are near enough, and -1 for others."""
    if tolerance is None:
        return found
    return np.where(_distance(found, times, instants) <= tolerance, found, -1)


def _has_null(keys: list[pa.ChunkedArray], count: int) -> Mask:
    """Return which rows have a null in their key. They match nothing, as in SQL."""
    unknown = np.zeros(count, np.bool_)
    for column in keys:
        if column.null_count:
            unknown |= one_chunk(column).is_null().to_numpy(zero_copy_only=False)
    return unknown


__all__ = ["BACKWARD", "DIRECTIONS", "FORWARD", "NEAREST", "AsOfOperator", "AsOfSpec"]
