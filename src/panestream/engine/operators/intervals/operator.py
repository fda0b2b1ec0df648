"""The interval join: stores rows of both streams until no row can arrive in their interval.

A pair is emitted in the micro-batch in which its later row arrives, and a row without a partner when the watermark passes its
interval. The state does not record partners, because all rows that a row could have matched are still available at that time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from panestream.engine.kernels.columns import Ints, list_of, one_chunk
from panestream.engine.kernels.ordering import stable_order
from panestream.engine.operators.intervals.matching import Matches
from panestream.engine.plan import ON_TIME, WindowPlan
from panestream.engine.runtime.group_io import GroupInput, GroupOutput
from panestream.engine.runtime.group_operator import GroupOperator, TimeStep
from panestream.engine.runtime.sides import FULL_OUTER, LEFT, LEFT_OUTER, RIGHT, RIGHT_OUTER, SIDES
from panestream.engine.runtime.watermarks import BEYOND_ALL
from panestream.engine.storage.blocks import PaneBlocks, StoredBlocks
from panestream.engine.storage.sealed_state import SealedState
from panestream.engine.storage.state_tables import StateTables, key_fields, named_columns, with_types
from panestream.windowing.time import MIN_TIMESTAMP

WHOLE = "whole"
"""The column with whole rows, which cross the exchange for the late output and are not stored."""
TIME = "time"
"""The event-time column of state tables."""
_ROW = "row"
_MOST_MERGED = 1 << 18
"""Maximum number of rows in a merged run. Merging only saves calls."""


@dataclass(frozen=True, slots=True)
class IntervalSettings:
    """The operator's part of the query.

    Attributes:
        lower, upper: a right row matches from the left row's time plus ``lower`` to its time plus ``upper``, inclusive.
        how: ``inner``, ``left``, ``right`` or ``full``.
        left, right: the stored part of each side's rows, as structs.
    """

    lower: int
    upper: int
    how: str
    left: pa.DataType
    right: pa.DataType
    keys: pa.Schema

    def row_of(self, side: str) -> pa.DataType:
        return self.left if side == LEFT else self.right

    def schema_of(self, side: str) -> pa.Schema:
        """Return the columns of a side's stored rows. The names are generated because users' names are arbitrary."""
        return pa.schema([*key_fields(self.keys), pa.field("pane", pa.int64()), pa.field(_ROW, self.row_of(side))])

    def over(self, side: str) -> int:
        """Return how long after the time of a side's row partners can still arrive."""
        return self.upper if side == LEFT else -self.lower

    def kept_for(self, side: str) -> int:
        """Return how long after its time a row is stored: for its partners, and for the outer check of rows that it matched."""
        own, other = self.over(side), self.over(RIGHT if side == LEFT else LEFT)
        return own + max(other, 0) if self.is_outer(RIGHT if side == LEFT else LEFT) else own

    def is_outer(self, side: str) -> bool:
        """Return whether rows of a side are also emitted without a partner."""
        return self.how in (FULL_OUTER, LEFT_OUTER if side == LEFT else RIGHT_OUTER)


class IntervalOperator(GroupOperator[Mapping[str, pa.Table]]):
    """The operator of interval joins: see :class:`~panestream.engine.runtime.group_operator.GroupOperator`."""

    def __init__(self, plan: WindowPlan, settings: IntervalSettings, state: SealedState) -> None:
        self._settings = settings
        self._width = len(settings.keys)
        self._blocks = {
            side: PaneBlocks(state, side, settings.schema_of(side), by_time, _MOST_MERGED, BEYOND_ALL) for side in SIDES
        }
        super().__init__(plan, state, StoredBlocks(state, list(self._blocks.values())))

    # -- rows ----------------------------------------------------------------------------------------------------------

    def _take_in(self, batch: GroupInput, step: TimeStep, output: GroupOutput) -> Mapping[str, pa.Table]:
        """Return the rows of each side that are not late, by time."""
        fresh, late = {}, []
        for side in SIDES:
            schema, arrived = self._settings.schema_of(side), batch.of(side)
            table = pa.concat_tables(arrived) if arrived else None
            if table is None:
                fresh[side] = schema.empty_table()
                continue
            behind = table.column("pane").to_numpy() < step.before
            late.append((side, table.filter(pa.array(behind))))
            fresh[side] = by_time([table.filter(pa.array(~behind)).select(schema.names)])
        self._emit_late(sum(rows.num_rows for _, rows in late), self._late_rows(late), output)
        output.metrics.windowed_rows = sum(rows.num_rows for rows in fresh.values())
        return fresh

    def _late_rows(self, late: list[tuple[str, pa.Table]]) -> Iterator[pa.Table]:
        """Yield late rows with a column per stream, null for rows of the other stream."""
        schema = self._plan.row_schema or pa.schema([])
        for side, rows in late:
            columns = [rows.column(WHOLE) if name == side else pa.nulls(rows.num_rows, schema.field(name).type) for name in SIDES]
            yield pa.table(dict(zip(SIDES, columns, strict=True)))

    # -- pairs ---------------------------------------------------------------------------------------------------------

    def _fire(self, fresh: Mapping[str, pa.Table], step: TimeStep, output: GroupOutput) -> Mapping[str, pa.Table]:
        settings, left, right = self._settings, fresh[LEFT], fresh[RIGHT]
        # New left rows meet all right rows, stored left rows only the new ones, so that no pair is emitted twice.
        known = self._near(RIGHT, left, (settings.lower, settings.upper))
        self._emit_pairs(left, pa.concat_tables([known, right]), output)
        self._emit_pairs(self._near(LEFT, right, (-settings.upper, -settings.lower)), right, output)
        for side in SIDES:
            if settings.is_outer(side):
                self._emit_alone(side, fresh, step, output)
        return fresh

    def _near(self, side: str, rows: pa.Table, bounds: tuple[int, int]) -> pa.Table:
        """Return the stored rows of a side that may match ``rows`` of the other, by time alone."""
        blocks = self._blocks[side]
        if not rows.num_rows:
            return blocks.schema.empty_table()
        times = rows.column("pane").to_numpy()
        found = blocks.read(int(times[0]) + bounds[0], int(times[-1]) + bounds[1] + 1)
        return pa.concat_tables(found) if found else blocks.schema.empty_table()

    def _matches(self, left: pa.Table, right: pa.Table, bounds: tuple[int, int]) -> Matches:
        """Return the matches of each row of one table within its bounds in the other."""
        ours, theirs = ([*one.columns[: self._width]] for one in (left, right))
        return Matches.of(ours, theirs, (left.column("pane").to_numpy(), right.column("pane").to_numpy()), bounds)

    def _emit_pairs(self, left: pa.Table, right: pa.Table, output: GroupOutput) -> None:
        if not left.num_rows or not right.num_rows:
            return
        found = self._matches(left, right, (self._settings.lower, self._settings.upper))
        rows = np.flatnonzero(found.counts)
        if not len(rows):
            return
        met = one_chunk(right.column(_ROW)).take(pa.array(found.of_rows(rows)))
        ones = one_chunk(left.column(_ROW)).take(pa.array(rows))
        lists = list_of(ones, np.ones(len(rows), np.int64)), list_of(met, found.counts[rows])
        self._emit(left, rows, lists, output)

    def _emit_alone(self, side: str, fresh: Mapping[str, pa.Table], step: TimeStep, output: GroupOutput) -> None:
        """Emit rows of a side without a partner after their time is over."""
        over, other = self._settings.over(side), RIGHT if side == LEFT else LEFT
        # Times are within ±2**62, and so are these bounds, so that sums do not overflow.
        until, since = (time if abs(time) > BEYOND_ALL else time - over for time in (step.after, step.before))
        due = [rows for rows in self._blocks[side].read(max(since, -BEYOND_ALL), min(until, BEYOND_ALL)) if rows.num_rows]
        own = fresh[side]
        due.append(own.filter(pa.array(own.column("pane").to_numpy() < until)))
        rows = by_time(due)
        if not rows.num_rows:
            return
        bounds = (self._settings.lower, self._settings.upper) if side == LEFT else (-self._settings.upper, -self._settings.lower)
        others = pa.concat_tables([self._near(other, rows, bounds), fresh[other]])
        found = self._matches(rows, others, bounds)
        alone = np.flatnonzero(found.counts == 0)
        ones = list_of(one_chunk(rows.column(_ROW)).take(pa.array(alone)), np.ones(len(alone), np.int64))
        none = list_of(pa.nulls(0, self._settings.row_of(other)), np.zeros(len(alone), np.int64))
        self._emit(rows, alone, (ones, none) if side == LEFT else (none, ones), output)

    def _emit(self, rows: pa.Table, of: Ints, lists: tuple[pa.Array, pa.Array], output: GroupOutput) -> None:
        """Emit lists of rows of both sides, with the keys of the rows ``of``."""
        if not len(of):
            return
        keys = [one_chunk(column).take(pa.array(of)) for column in rows.columns[: self._width]]
        self._count_firings(ON_TIME, len(of), output)
        self._emit_main(pa.Table.from_arrays([*keys, *lists], schema=self._plan.main_schema), len(of), output)

    # -- state ---------------------------------------------------------------------------------------------------------

    def _close(self, fresh: Mapping[str, pa.Table], step: TimeStep) -> None:
        for side, blocks in self._blocks.items():
            live = -BEYOND_ALL if step.after == MIN_TIMESTAMP else step.after - self._settings.kept_for(side)
            rows = fresh[side]
            blocks.drop_before(live)
            blocks.append(rows.filter(pa.array(rows.column("pane").to_numpy() >= live)))
            blocks.compact(live)
        self._closing.reach(step.after)

    def _kept_windows(self) -> int | None:
        return None

    def _described(self) -> Mapping[str, Any]:
        return {"counters": {}}

    def _state_tables(self) -> Mapping[str, pa.Table]:
        found = {}
        for side, blocks in self._blocks.items():
            live = -BEYOND_ALL if self._reached == MIN_TIMESTAMP else self._reached - self._settings.kept_for(side)
            parts = blocks.read(live, BEYOND_ALL)
            rows = pa.concat_tables(parts) if parts else blocks.schema.empty_table()
            found[side] = rows.rename_columns(self._saved_names(side))
        return found

    def _put(self, saved: StateTables) -> None:
        for side, blocks in self._blocks.items():
            table = saved.table(side)
            blocks.append(by_time([with_types(named_columns(table, self._saved_names(side)), blocks.schema)]))

    def _saved_names(self, side: str) -> list[str]:
        """Return the columns of state tables, in which the pane is called the time of the row."""
        return [TIME if name == "pane" else name for name in self._settings.schema_of(side).names]


def by_time(tables: Sequence[pa.Table]) -> pa.Table:
    """Sort rows by time, keeping the given order at equal times."""
    table = pa.concat_tables(tables)
    times = table.column("pane").to_numpy()
    ordered = bool((times[1:] >= times[:-1]).all())
    return table.combine_chunks() if ordered else table.take(pa.array(stable_order(times))).combine_chunks()


__all__ = ["TIME", "WHOLE", "IntervalOperator", "IntervalSettings"]
