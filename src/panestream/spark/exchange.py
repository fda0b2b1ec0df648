"""``pack``: rows to a few large binary rows per key group, before the shuffle.

Stateless, runs in ``mapInArrow``. Rows get their pane, are aggregated per (key, pane), and leave as one Arrow payload per key
group and chunk.
Every key group also gets a *report* of the event times seen, so that all agree on the watermark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panestream.engine import payload
from panestream.engine.operators.base import GroupInput
from panestream.engine.plan import WindowPlan
from panestream.engine.slicing import Int64s
from panestream.errors import InvalidEventTimeError
from panestream.spark.placement import group_values

EXCHANGE_SCHEMA = "group int, origin int, sequence int, body binary"
_EXCHANGE = pa.schema([("group", pa.int32()), ("origin", pa.int32()), ("sequence", pa.int32()), ("body", pa.binary())])
CHUNK_ROWS = 1 << 20
CHUNK_BYTES = 256 << 20
LARGEST_TIME = 2**62
"""Event times beyond this (about the years ±144,000 in microseconds) are invalid: arithmetic with them could overflow."""

PARTIALS, ROWS, GAPS, INVALID, REPORT = "partials", "rows", "gaps", "invalid", "report"


@dataclass(frozen=True, slots=True)
class PackColumns:
    """Where ``pack`` finds what in its input: the event time is column 0, then keys, then values, then what the plan needs.

    Attributes:
        keys, values: the types of these columns, as the plan's aggregation wants them.
        group: the column with the key group's number; None: one group.
        partition: the column whose values have watermarks of their own, as strings; or None.
        row: the column with the whole row as a struct (null where it is not needed); or None.
        clock: the column with the processing time in microseconds; or None.
    """

    keys: tuple[pa.DataType, ...]
    values: tuple[pa.DataType, ...]
    group: int | None = None
    partition: int | None = None
    row: int | None = None
    clock: int | None = None


@dataclass(slots=True)
class Pack:
    """The function for ``mapInArrow``. Input columns: see :class:`PackColumns`; output: ``EXCHANGE_SCHEMA``."""

    plan: WindowPlan
    columns: PackColumns

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        packing = _Packing(self.plan, self.columns, _partition_id())
        for chunk in _chunks(batches):
            yield from packing.chunk(chunk)
        yield from packing.finish()


def _partition_id() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    return context.partitionId() if context is not None else 0


def _chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Gathers Spark's small batches: aggregation wants many rows at once."""
    gathered: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        gathered.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= CHUNK_ROWS or size >= CHUNK_BYTES:
            yield pa.Table.from_batches(gathered).combine_chunks()
            gathered, rows, size = [], 0, 0
    if gathered:
        yield pa.Table.from_batches(gathered).combine_chunks()


def _array(table: pa.Table, position: int) -> pa.Array:
    return payload.one_chunk(table.column(position))


@dataclass(slots=True)
class _Packing:
    """The work on one map partition."""

    plan: WindowPlan
    columns: PackColumns
    origin: int
    sequence: int = 0
    rows: int = 0
    invalid: int = 0
    clock: int = 0
    seen: dict[str, int] = field(default_factory=dict)
    values: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        self.values = group_values(self.plan.groups)

    def chunk(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        self.rows += table.num_rows
        if self.columns.clock is not None and not self.clock:
            self.clock = table.column(self.columns.clock)[0].as_py()
        valid = _usable(_array(table, 0))
        if valid is not None:
            invalid = table.filter(pc.invert(valid))
            self.invalid += invalid.num_rows
            if self.plan.invalid_tag is not None and self.columns.row is not None:
                rows = pa.Table.from_struct_array(_array(invalid, self.columns.row))
                yield self._row(self.origin % self.plan.groups, INVALID, rows)
            table = table.filter(valid).combine_chunks()
        if table.num_rows:
            self._look_at_times(table)
            for group, part in self._by_group(table):
                yield from self._pack_group(group, part)

    def finish(self) -> Iterator[pa.RecordBatch]:
        if self.invalid and self.plan.invalid_tag is None:
            raise InvalidEventTimeError(
                f"{self.invalid} of {self.rows} rows of a source partition have no usable event time in {self.plan.event_time!r} "
                "(null, not readable as a time, or beyond the year 140,000). Filter them out, or route them to an output of "
                "their own with .side_output_invalid(tag)"
            )
        if self.rows:
            report = {"rows": self.rows, "invalid": self.invalid, "seen": self.seen, "clock": self.clock}
            for group in range(self.plan.groups):
                yield self._row(group, REPORT, pa.table({}), report)

    def _look_at_times(self, table: pa.Table) -> None:
        if self.columns.partition is None:
            largest = {"": pc.max(table.column(0)).as_py()}
        else:
            by_partition = pa.table({"partition": table.column(self.columns.partition), "time": table.column(0)})
            maxima = by_partition.group_by("partition").aggregate([("time", "max")])
            names = ("" if name is None else name for name in maxima.column("partition").to_pylist())
            largest = dict(zip(names, maxima.column("time_max").to_pylist(), strict=True))
        for name, time in largest.items():
            self.seen[name] = max(time, self.seen.get(name, time))

    def _by_group(self, table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        if self.columns.group is None or self.plan.groups == 1:
            yield 0, table
            return
        groups = _array(table, self.columns.group).to_numpy()
        # numpy sorts 16-bit integers by radix: far cheaper than a mask and a copy for every group.
        order = np.argsort(groups.astype(np.uint16), kind="stable")
        ordered = table.take(pa.array(order)).combine_chunks()
        ends = np.cumsum(np.bincount(groups, minlength=self.plan.groups))
        for group in range(self.plan.groups):
            start = int(ends[group - 1]) if group else 0
            if ends[group] > start:
                yield group, ordered.slice(start, int(ends[group]) - start)

    def _pack_group(self, group: int, table: pa.Table) -> Iterator[pa.RecordBatch]:
        times = _array(table, 0).to_numpy()
        panes = self.plan.grid.panes_of(times)
        if self.plan.late_tag is not None and self.columns.row is not None:
            whole = pa.Table.from_struct_array(_array(table, self.columns.row))
            rows = whole.append_column("__pane", pa.array(panes)).append_column("__time", pa.array(times))
            yield self._row(group, ROWS, rows)
        if self.plan.grid.has_gaps:
            gap = self.plan.grid.in_gap(panes)
            if gap.any():
                yield self._row(group, GAPS, pa.table({"time": np.sort(times[gap])}))
                table = table.filter(pa.array(~gap)).combine_chunks()
                times, panes = times[~gap], panes[~gap]
        if len(times):
            yield self._row(group, PARTIALS, self._partials(table, times, panes))

    def _partials(self, table: pa.Table, times: Int64s, panes: Int64s) -> pa.Table:
        # Spark labels timestamps with the session's time zone and may send large strings: the plan's types are what counts.
        types = (*self.columns.keys, *self.columns.values)
        arrays = [_array(table, 1 + position).cast(wanted) for position, wanted in enumerate(types)]
        keys, values = arrays[: len(self.columns.keys)], arrays[len(self.columns.keys) :]
        aggregation = self.plan.aggregation
        return aggregation.partials(keys, panes, values, times if aggregation.needs_timestamps else None)

    def _row(self, group: int, kind: str, table: pa.Table, header: dict[str, Any] | None = None) -> pa.RecordBatch:
        body = payload.encode(table, {"kind": kind, **(header or {})})
        self.sequence += 1
        columns = [[self.values[group]], [self.origin], [self.sequence], [body]]
        arrays = [pa.array(column, field.type) for column, field in zip(columns, _EXCHANGE, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=_EXCHANGE)


def _usable(times: pa.Array) -> pa.Array | None:
    """Which rows have an event time that can be used; None: all."""
    bounds = pc.min_max(times)
    smallest, largest_seen = bounds["min"].as_py(), bounds["max"].as_py()
    in_range = smallest is None or (smallest > -LARGEST_TIME and largest_seen < LARGEST_TIME)
    if in_range and not times.null_count:
        return None
    largest = pa.scalar(LARGEST_TIME, pa.int64())
    within = pc.and_(pc.less(times, largest), pc.greater(times, pc.negate(largest)))
    return pc.fill_null(within, False)


def gather(plan: WindowPlan, rows: Iterable[tuple[int, int, bytes]], end_of_input: bool = False) -> GroupInput:
    """What arrived for one key group, (origin, sequence, body) each, as an operator wants it.

    Spark gives no order inside a group; sorting makes a rerun of the micro-batch see, and give, the same bytes.
    """
    batch = GroupInput(end_of_input=end_of_input)
    seen: dict[str, int] = {}
    for _, _, body in sorted(rows, key=lambda row: row[:2]):
        table, header = payload.decode(body)
        kind = header["kind"]
        if kind == PARTIALS:
            batch.partials.append(table.cast(plan.aggregation.partial_schema))
        elif kind == ROWS:
            panes, times = (column.cast(pa.int64()).to_numpy() for column in table.columns[-2:])
            batch.rows.append((_as_rows(plan, table), panes, times))
        elif kind == GAPS:
            batch.gap_times.append(table.column("time").cast(pa.int64()).to_numpy())
        elif kind == INVALID:
            batch.invalid.append(_as_rows(plan, table))
        else:
            batch.input_rows += header["rows"]
            batch.invalid_rows += header["invalid"]
            batch.batch_time = max(batch.batch_time, header["clock"])
            for name, time in header["seen"].items():
                seen[name] = max(time, seen.get(name, time))
    batch.seen = seen
    return batch


def _as_rows(plan: WindowPlan, table: pa.Table) -> pa.Table:
    """The input's own columns, with their full types (a payload narrows integers)."""
    if plan.row_schema is None:
        raise RuntimeError("rows crossed the exchange that the plan did not ask for")
    columns = [table.column(position).cast(field.type) for position, field in enumerate(plan.row_schema)]
    return pa.Table.from_arrays(columns, schema=plan.row_schema)
