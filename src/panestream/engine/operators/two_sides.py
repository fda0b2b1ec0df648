"""The parts that joins by time share: the rows of each side in the exchange and in the state, late rows, and results."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from panestream.engine.kernels.columns import Ints, key_fields, one_chunk, plain
from panestream.engine.operators.columnar import TableLayout
from panestream.engine.plan import ON_TIME, Chunk, OperatorSpec, WindowPlan
from panestream.engine.runtime.group_io import GroupInput, GroupOutput
from panestream.engine.runtime.group_operator import GroupOperator, Storage, TimeStep
from panestream.engine.runtime.sides import LEFT, SIDES
from panestream.engine.runtime.state_views import ViewSchemas, WindowRows, instants
from panestream.engine.runtime.watermarks import BEYOND_ALL
from panestream.engine.storage.blocks import MAX_MERGED_ROWS, PaneBlocks, sorted_by_pane
from panestream.engine.storage.sealed_state import SealedState
from panestream.engine.storage.state_tables import StateTables, StateViews, integers, key_columns

WHOLE = "whole"
"""The column with whole rows, which cross the exchange for the late output and are not stored."""
ROW = "row"


class TwoSidesSpec(OperatorSpec):
    """The configuration of an operator whose state is rows of both sides, and whose results are lists of them.

    Attributes:
        how: the kind of join.
        left, right: the stored part of each side's rows, as structs.
    """

    how: str
    left: pa.DataType
    right: pa.DataType
    keys: pa.Schema

    def row_of(self, side: str) -> pa.DataType:
        return self.left if side == LEFT else self.right

    def layout(self, side: str) -> TableLayout:
        """Return the columns of a side's stored rows. The names are generated because users' names are arbitrary."""
        own = [*key_fields(self.keys), pa.field("pane", pa.int64()), pa.field(ROW, self.row_of(side))]
        return TableLayout(side, pa.schema(own), by_time=True)

    @property
    def result_schema(self) -> pa.Schema:
        return pa.schema([pa.field(side, pa.list_(self.row_of(side))) for side in SIDES])

    @property
    def inputs(self) -> tuple[str, ...]:
        return SIDES

    def pack(self, plan: WindowPlan, chunk: Chunk) -> Iterator[tuple[str, pa.Table]]:
        for side, values in zip(SIDES, chunk.values, strict=True):
            ours = values.is_valid()
            columns = [*chunk.keys, pa.array(chunk.times), values]
            if plan.late_tag is not None and chunk.rows is not None:
                columns.append(chunk.rows.column(side))
            table = pa.Table.from_arrays(columns, names=self.part_schema(plan, side).names).filter(ours)
            if table.num_rows:
                yield side, table

    def part_schema(self, plan: WindowPlan, kind: str) -> pa.Schema:
        schema = self.layout(kind).schema
        if plan.late_tag is None or plan.row_schema is None:
            return schema
        return schema.append(pa.field(WHOLE, plan.row_schema.field(kind).type))

    def views(self, plan: WindowPlan, saved: StateTables, group: int) -> StateViews:
        rows = pa.schema([pa.field(side, self.row_of(side)) for side in SIDES])
        schemas, shown = ViewSchemas(plan, group, rows), []
        for side in SIDES:
            table = saved.table(side)
            count = table.num_rows
            columns = [plain(table.column("row")) if name == side else pa.nulls(count, self.row_of(name)) for name in SIDES]
            times = {"time": instants(integers(table, "time"))}
            shown.append(schemas.elements_of(key_columns(table, plan.key_schema), count, times, columns))
        nothing = [pa.nulls(0, key.type) for key in plan.key_schema]
        return schemas.with_windows(schemas.windows_of(WindowRows(nothing, 0)), elements=pa.concat_tables(shown))

    def identity(self) -> Mapping[str, str]:
        return {"join": self.kind, **{f"rows of the {side}": str(self.row_of(side)) for side in SIDES}}

    @property
    @abstractmethod
    def kind(self) -> str:
        """The join, as :meth:`identity` has it."""


class TwoSidesOperator(GroupOperator[Mapping[str, pa.Table]]):
    """An operator with the rows of each side in blocks by time."""

    def __init__(self, plan: WindowPlan, spec: TwoSidesSpec, state: SealedState) -> None:
        self._width = len(spec.keys)
        self._layouts = {side: spec.layout(side) for side in SIDES}
        self._blocks = {
            side: PaneBlocks(state, side, layout.schema, sorted_by_pane, MAX_MERGED_ROWS, BEYOND_ALL)
            for side, layout in self._layouts.items()
        }
        super().__init__(plan, state, self._storage_of(state))

    @abstractmethod
    def _storage_of(self, state: SealedState) -> Storage:
        """Return the storage of the rows, which owns the meta record."""

    def _ingest(self, batch: GroupInput, step: TimeStep, output: GroupOutput) -> Mapping[str, pa.Table]:
        """Return the rows of each side that are not late, by time."""
        fresh, late = {}, []
        past = self._plan.operator.capabilities.late_by_time or 0
        for side in SIDES:
            schema, arrived = self._layouts[side].schema, batch.of(side)
            table = pa.concat_tables(arrived) if arrived else None
            if table is None:
                fresh[side] = schema.empty_table()
                continue
            behind = table.column("pane").to_numpy() + past <= step.before
            late.append((side, table.filter(pa.array(behind))))
            fresh[side] = sorted_by_pane([table.filter(pa.array(~behind)).select(schema.names)])
        self._emit_late(sum(rows.num_rows for _, rows in late), self._late_rows(late), output)
        output.metrics.windowed_rows = sum(rows.num_rows for rows in fresh.values())
        return fresh

    def _late_rows(self, late: list[tuple[str, pa.Table]]) -> Iterator[pa.Table]:
        """Yield late rows with a column per stream, null for rows of the other stream."""
        schema = self._plan.row_schema or pa.schema([])
        for side, rows in late:
            columns = [rows.column(WHOLE) if name == side else pa.nulls(rows.num_rows, schema.field(name).type) for name in SIDES]
            yield pa.table(dict(zip(SIDES, columns, strict=True)))

    def _emit(self, rows: pa.Table, of: Ints, lists: tuple[pa.Array, pa.Array], output: GroupOutput) -> None:
        """Emit lists of rows of both sides, with the keys of the rows ``of``."""
        if not len(of):
            return
        keys = [one_chunk(column).take(pa.array(of)) for column in rows.columns[: self._width]]
        self._count_firings(ON_TIME, len(of), output)
        self._emit_main(pa.Table.from_arrays([*keys, *lists], schema=self._plan.main_schema), len(of), output)

    def _add(self, side: str, rows: pa.Table, live: int) -> None:
        """Store new rows of a side, and drop the rows before ``live``."""
        blocks = self._blocks[side]
        blocks.drop_before(live)
        blocks.append(rows.filter(pa.array(rows.column("pane").to_numpy() >= live)))
        blocks.compact(live)

    def _stored(self, side: str, live: int) -> pa.Table:
        """Return the stored rows of a side since ``live``."""
        return pa.concat_tables([self._layouts[side].schema.empty_table(), *self._blocks[side].read(live, BEYOND_ALL)])

    def _kept_windows(self) -> int | None:
        return None

    def _own_header(self) -> Mapping[str, Any]:
        return {"counters": {}}


__all__ = ["ROW", "WHOLE", "TwoSidesOperator", "TwoSidesSpec"]
