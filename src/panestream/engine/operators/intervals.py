"""The interval join: stores rows of both streams until no row can arrive in their interval.

A pair is emitted in the micro-batch in which its later row arrives, and a row without a partner when the watermark passes its
interval. The state does not record partners, because all rows that a row could have matched are still available at that time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from panestream.engine.kernels.columns import Ints, list_of, one_chunk, spans
from panestream.engine.kernels.grouping import numbered
from panestream.engine.kernels.ordering import stable_order
from panestream.engine.operators.two_sides import ROW, TwoSidesOperator, TwoSidesSpec
from panestream.engine.plan import Capabilities, WindowPlan
from panestream.engine.runtime.group_io import GroupOutput
from panestream.engine.runtime.group_operator import TimeStep
from panestream.engine.runtime.sides import FULL_OUTER, LEFT, LEFT_OUTER, RIGHT, RIGHT_OUTER, SIDES
from panestream.engine.runtime.watermarks import BEYOND_ALL
from panestream.engine.storage.blocks import StoredBlocks, sorted_by_pane
from panestream.engine.storage.sealed_state import SealedState
from panestream.engine.storage.state_tables import (
    StateTables,
)
from panestream.windowing.time import MIN_TIMESTAMP, format_duration


@dataclass(frozen=True, slots=True)
class Matches:
    """The right rows by key and time (``order``), with the start and the row count of each left row's interval in it."""

    order: Ints
    begins: Ints
    counts: Ints

    @classmethod
    def of(
        cls, left: Sequence[pa.ChunkedArray], right: Sequence[pa.ChunkedArray], times: tuple[Ints, Ints], bounds: tuple[int, int]
    ) -> Matches:
        """Match rows by key columns, times and bounds. Keys with nulls match nothing, as in SQL.

        A right row matches if its time is from the left time plus the first bound to the left time plus the second, inclusive.
        """
        ours, theirs, _ = numbered(left, right)
        instants, ranks = np.unique(times[1], return_inverse=True)
        # With times as ranks, key and rank fit one number for all times.
        width = len(instants) + 1
        place = theirs * width + ranks
        order = stable_order(place)
        place = place[order]
        first = np.searchsorted(instants, times[0] + bounds[0], "left")
        last = np.searchsorted(instants, times[0] + bounds[1], "right")
        begins = np.searchsorted(place, ours * width + first, "left")
        ends = np.searchsorted(place, ours * width + last, "left")
        counts = np.maximum(ends - begins, 0)
        for column in left:
            if column.null_count:
                counts[column.is_null().to_numpy()] = 0
        return cls(order, begins, counts)

    def of_rows(self, rows: Ints) -> Ints:
        """Return the right rows that match ``rows``, concatenated."""
        return self.order[spans(self.begins[rows], self.counts[rows])]


@dataclass(frozen=True, slots=True)
class IntervalSpec(TwoSidesSpec):
    """An interval join of each left row with the right rows around its time.

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

    @property
    def name(self) -> str:
        return "interval join"

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            has_windows=False,
            order_sensitive=False,
            late_by_time=1,
            no_firings="an interval join emits each pair once, and each row without a partner once, so firings are not numbered",
            no_changelog="an interval join emits each pair once: nothing is taken back",
        )

    def on_sealed(self, plan: WindowPlan, state: SealedState, group: int) -> IntervalOperator:
        return IntervalOperator(plan, self, state)

    @property
    def kind(self) -> str:
        return f"{self.how}, {self.lower} to {self.upper}"

    def explain(self, plan: WindowPlan, *, streaming: bool) -> Mapping[str, list[str]]:
        lower, upper = (format_duration(bound) for bound in (self.lower, self.upper))
        kept = {side: format_duration(max(self.kept_for(side), 0)) for side in SIDES}
        return {
            "interval": [
                f"{self.how} join: a row of the right from {lower} to {upper} after the time of one of the left, both included"
            ],
            "exchange": ["rows of both sides cross the shuffle, with the columns of the results"],
            "state": [
                f"rows of the left until the watermark is {kept['left']} past them, of the right {kept['right']}"
                if streaming
                else "none: a batch emits all at the end of input"
            ],
        }


class IntervalOperator(TwoSidesOperator):
    """The operator of interval joins: see :class:`~panestream.engine.runtime.group_operator.GroupOperator`."""

    def __init__(self, plan: WindowPlan, settings: IntervalSpec, state: SealedState) -> None:
        self._settings = settings
        super().__init__(plan, settings, state)

    def _storage_of(self, state: SealedState) -> StoredBlocks:
        return StoredBlocks(state, list(self._blocks.values()))

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
        met = one_chunk(right.column(ROW)).take(pa.array(found.of_rows(rows)))
        ones = one_chunk(left.column(ROW)).take(pa.array(rows))
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
        rows = sorted_by_pane(due)
        if not rows.num_rows:
            return
        bounds = (self._settings.lower, self._settings.upper) if side == LEFT else (-self._settings.upper, -self._settings.lower)
        others = pa.concat_tables([self._near(other, rows, bounds), fresh[other]])
        found = self._matches(rows, others, bounds)
        alone = np.flatnonzero(found.counts == 0)
        ones = list_of(one_chunk(rows.column(ROW)).take(pa.array(alone)), np.ones(len(alone), np.int64))
        none = list_of(pa.nulls(0, self._settings.row_of(other)), np.zeros(len(alone), np.int64))
        self._emit(rows, alone, (ones, none) if side == LEFT else (none, ones), output)

    # -- state ---------------------------------------------------------------------------------------------------------

    def _close(self, fresh: Mapping[str, pa.Table], step: TimeStep) -> None:
        for side in SIDES:
            self._add(side, fresh[side], self._live(side, step.after))
        self._closing.reach(step.after)

    def _live(self, side: str, reached: int) -> int:
        """Return the time of the first rows of a side that are kept at a watermark."""
        return -BEYOND_ALL if reached == MIN_TIMESTAMP else reached - self._settings.kept_for(side)

    def _state_tables(self) -> Mapping[str, pa.Table]:
        return {side: self._layouts[side].save(self._stored(side, self._live(side, self._reached))) for side in SIDES}

    def _write_tables(self, saved: StateTables) -> None:
        for side, blocks in self._blocks.items():
            blocks.append(sorted_by_pane([self._layouts[side].restore(saved)]))
