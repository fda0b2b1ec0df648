"""State tables of aligned panes, with panes and windows by their bounds, one row for each key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from panestream.engine.aggregates import Aggregation
from panestream.engine.aggregates.aggregation import Standing
from panestream.engine.kernels.columns import Ints, key_fields
from panestream.engine.kernels.grouping import numbered, places_of
from panestream.engine.kernels.ordering import stable_order
from panestream.engine.kernels.panes import AlignedWindows, Int64s, PaneGrid
from panestream.engine.operators.columnar import TableLayout, integers_of
from panestream.engine.operators.panes.firing import FiringHistory
from panestream.engine.plan import WindowPlan
from panestream.engine.runtime.watermarks import BEYOND_ALL, LatenessPolicy, last_ended
from panestream.engine.storage.blocks import PaneBlocks
from panestream.engine.storage.state_tables import StateTables, integers, key_columns, named_columns, with_types
from panestream.errors import PlanMismatchError
from panestream.windowing.time import format_duration

PANES, EMITTED, PURGED = "panes", "emitted", "purged"


@dataclass(frozen=True, slots=True)
class PaneTables:
    """Converts the state of a query to and from tables; windows whose last instant is at or before ``closed`` are closed."""

    keys: pa.Schema
    grid: PaneGrid
    lateness: LatenessPolicy
    closed: int

    # -- out -----------------------------------------------------------------------------------------------------------

    def panes(self, parts: Sequence[pa.Table], aggregation: Aggregation, shifted: Sequence[str], by: int) -> pa.Table:
        """Return the partials, given in order of arrival, of panes that a window still needs.

        The columns ``shifted`` contain row numbers, from which ``by`` is subtracted.
        """
        live = [self._live(part) for part in parts]
        if aggregation.runs_users_code:
            # User code is not available when state is only inspected, so its partials stay unmerged, in their order.
            table = pa.concat_tables([aggregation.partial_schema.empty_table(), *live]).combine_chunks()
            arrival = np.arange(table.num_rows)
        else:
            table = aggregation.merge(live)
            arrival = np.zeros(table.num_rows, np.int64)
        for name in shifted:
            place = table.schema.get_field_index(name)
            table = table.set_column(place, table.schema.field(place), pa.array(table.column(name).to_numpy() - by))
        width, panes = len(self.keys), table.column("pane").to_numpy()
        bounds = [pa.array(self.grid.starts_of(panes)), pa.array(self.grid.starts_of(panes + 1))]
        columns = [*table.columns[:width], *bounds, pa.array(arrival), *table.columns[width + 1 :]]
        return pa.Table.from_arrays(columns, schema=self._layout(aggregation).schema)

    def _layout(self, aggregation: Aggregation) -> TableLayout:
        rest = list(aggregation.partial_schema)[len(self.keys) + 1 :]
        own = [*key_fields(self.keys), *_BOUNDS, pa.field("arrival", pa.int64())]
        return TableLayout(PANES, pa.schema([*own, *rest]), aggregation)

    def emitted(self, histories: Sequence[FiringHistory], values: pa.Schema) -> pa.Table:
        """Return the last firing of each key and window that may fire again."""
        width, parts = len(self.keys), []
        own = [pa.field("kind", pa.int64()), *_BOUNDS, *_OWN]
        schema = pa.schema([*key_fields(self.keys), *own, *_values(values)])
        for kind, (one, history) in enumerate(zip(self.grid.windows, histories, strict=True)):
            table = history.latest(last_ended(one, self.closed) + 1)
            windows = table.column("pane").to_numpy()
            mine = [pa.array(np.full(len(windows), kind)), *self._bounds(one, windows)]
            parts.append(pa.Table.from_arrays([*table.columns[:width], *mine, *table.columns[width + 1 :]], schema=schema))
        return pa.concat_tables(parts)

    def purged(self, blocks: PaneBlocks) -> pa.Table:
        """Return the keys and open windows that a purging trigger has fired."""
        (one,) = self.grid.windows
        schema = pa.schema([*key_fields(self.keys), *_BOUNDS])
        parts = blocks.read(last_ended(one, self.closed) + 1, BEYOND_ALL)
        table = pa.concat_tables(parts) if parts else blocks.schema.empty_table()
        bounds = self._bounds(one, table.column("pane").to_numpy())
        return pa.Table.from_arrays([*table.columns[: len(self.keys)], *bounds], schema=schema)

    def known(self, rows: pa.Table, one: AlignedWindows, values: pa.Schema) -> pa.Table:
        """Return the windows that had rows, from which windows without rows are filled."""
        schema = pa.schema([*key_fields(self.keys), *_BOUNDS, *_values(values)])
        width, bounds = len(self.keys), self._bounds(one, rows.column("pane").to_numpy())
        return pa.Table.from_arrays([*rows.columns[:width], *bounds, *rows.columns[width + 1 :]], schema=schema)

    def keep_known(self, table: pa.Table, blocks: PaneBlocks, values: pa.Schema) -> None:
        """Write windows that had rows, if they still exist; results that were not saved are null."""
        self._keep(self.grid.windows[0], table, blocks, _values(values))

    def _live(self, part: pa.Table) -> pa.Table:
        return part.filter(pa.array(self.lateness.taken(part.column("pane").to_numpy(), self.closed)))

    @staticmethod
    def _bounds(one: AlignedWindows, windows: Int64s) -> list[pa.Array]:
        return [pa.array(one.start_of(windows)), pa.array(one.end_of(windows))]

    # -- in ------------------------------------------------------------------------------------------------------------

    def partials(self, saved: StateTables, aggregation: Aggregation) -> pa.Table:
        """Return saved partials by key and pane, sorted by pane; raise PlanMismatchError if a saved pane spans several panes."""
        return aggregation.merge([self.unmerged(saved, aggregation)])

    def unmerged(self, saved: StateTables, aggregation: Aggregation) -> pa.Table:
        """Like :meth:`partials`, but unmerged: several rows of one key and pane are in order of arrival."""
        rows, width = self._layout(aggregation).restore(saved), len(self.keys)
        starts, ends, arrival = (integers_of(rows, name) for name in ("start", "end", "arrival"))
        panes = self.grid.panes_of(starts)
        torn = np.flatnonzero(self.grid.panes_of(ends - 1) != panes)
        if len(torn):
            length = format_duration(int(ends[torn[0]] - starts[torn[0]]))
            raise PlanMismatchError(
                f"the saved state holds panes of {length}, but the new windows begin or end within them, and aggregated rows of "
                f"a pane cannot be separated again. New windows must begin and end at borders of the old panes"
            )
        columns = [*rows.columns[:width], pa.array(panes), *rows.columns[width + 3 :]]
        found = pa.Table.from_arrays(columns, schema=aggregation.partial_schema)
        # If several old panes form one new pane, the rows of the earlier one come first.
        return found.take(pa.array(stable_order(starts, arrival)))

    def keep_emitted(
        self, saved: StateTables, labels: Sequence[str], histories: Sequence[FiringHistory], values: pa.Schema
    ) -> None:
        """Write the last firings of windows that still exist; new results count as emitted nulls."""
        for kind, (one, history) in enumerate(zip(self.grid.windows, histories, strict=True)):
            self._keep(one, emitted_for(saved, labels, kind), history.blocks, [*_OWN, *_values(values)])

    def keep_purged(self, saved: StateTables, blocks: PaneBlocks) -> None:
        """Write the windows that a purging trigger has fired."""
        self._keep(self.grid.windows[0], saved.table(PURGED), blocks, [])

    def _keep(self, one: AlignedWindows, table: pa.Table, blocks: PaneBlocks, own: Sequence[pa.Field]) -> None:
        starts, ends = integers(table, "start"), integers(table, "end")
        windows = one.first_ending_after(ends - 1)
        there = np.flatnonzero((one.start_of(windows) == starts) & (one.end_of(windows) == ends))
        order = pa.array(there[stable_order(windows[there])] if len(there) else there)
        columns = key_columns(table, self.keys)
        columns.append(pa.array(windows))
        known = set(table.column_names)
        for field in own:
            columns += named_columns(table, [field.name]) if field.name in known else [pa.nulls(len(windows), field.type)]
        blocks.append(with_types([column.take(order) for column in columns], blocks.schema))


def emitted_for(saved: StateTables, labels: Sequence[str], kind: int) -> pa.Table:
    """Return the emitted rows of a kind of windows, found by its label even if the order of kinds has changed.

    ``labels`` are the current ones, empty for a single kind. Earlier versions did not save labels: then the place counts.
    """
    table, before = saved.table(EMITTED), saved.header.get("labels", ())
    if labels and before:
        kind = before.index(labels[kind]) if labels[kind] in before else len(before)
    return table.filter(pa.array(integers(table, "kind") == kind))


def firings_before(
    plan: WindowPlan, saved: StateTables, kind: int, one: AlignedWindows, found: Standing, windows: Ints
) -> tuple[Ints | None, Ints | None]:
    """Return the numbers of firings and the kinds of the last ones, or None if these are not stored."""
    none = np.zeros(len(windows), np.int64), np.full(len(windows), -1)
    if plan.operator.capabilities.fires_once:
        return none
    if EMITTED not in saved.tables:
        return None, None
    table = emitted_for(saved, plan.labels, kind)
    keys = [pa.chunked_array([column]) for column in key_columns(table, plan.key_schema)]
    emitted = one.first_ending_after(integers(table, "end") - 1)
    ours, theirs, _ = numbered([pa.chunked_array([key]) for key in found.keys], keys, windows, emitted)
    places = places_of(ours, theirs)
    known = places >= 0
    firings, last_firing = none
    firings[known] = integers(table, "number")[places[known]] + 1
    last_firing[known] = integers(table, "firing")[places[known]]
    return firings, last_firing


_BOUNDS = (pa.field("start", pa.int64()), pa.field("end", pa.int64()))
_OWN = (pa.field("number", pa.int64()), pa.field("firing", pa.int8()))


def _values(schema: pa.Schema) -> list[pa.Field]:
    return [pa.field(f"value {field.name}", field.type) for field in schema]
