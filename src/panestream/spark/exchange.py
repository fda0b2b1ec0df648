"""``pack``: rows to a few large binary rows per key group, before the shuffle.

Stateless, runs in ``mapInArrow``. What leaves for a key group and chunk is the operator's business (partials per key and pane,
or rows); it is one Arrow payload for each of the operator's kinds.
Every key group also gets a *report* of the event times seen, so that all agree on the watermark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panestream.engine.kernels.python_values import RowType
from panestream.engine.plan import Chunk, WindowPlan
from panestream.engine.runtime.ahead import ahead_of_clock, ahead_of_rows
from panestream.engine.runtime.arrival import in_order, unordered
from panestream.engine.runtime.gc_control import settle
from panestream.engine.runtime.group_io import GroupInput
from panestream.engine.storage import payload
from panestream.errors import InvalidEventTimeError
from panestream.spark.event_time import LARGEST_TIME, complaint, instant
from panestream.spark.placement import group_values
from panestream.spark.reasons import in_few_words
from panestream.windowing.time import format_duration
from panestream.windowing.watermarks import WatermarkGenerator, WatermarkOutput

EXCHANGE_SCHEMA = "group int, origin int, sequence int, more int, body binary"
"""``sequence`` numbers what leaves a source partition; ``more`` pieces of the same payload follow this one."""
_EXCHANGE = pa.schema(
    [("group", pa.int32()), ("origin", pa.int32()), ("sequence", pa.int32()), ("more", pa.int32()), ("body", pa.binary())]
)
PIECE_BYTES = 1 << 18
"""Payloads travel in pieces: Spark hands so many rows at a time to Python, and they must fit the memory together."""
CHUNK_ROWS = 1 << 20
CHUNK_BYTES = 256 << 20

INVALID, REPORT, UNORDERED = "__invalid", "__report", "__unordered"


@dataclass(frozen=True, slots=True)
class PackColumns:
    """Where ``pack`` finds what in its input: the event time is column 0, then keys, then values, then what the plan needs.

    Attributes:
        keys, values: the types of these columns, as the plan wants them.
        group: the column with the key group's number; None: one group.
        partition: the column whose values have watermarks of their own, as strings; or None.
        row: the column with the whole row as a struct (null where it is not needed); or None.
        clock: the column with the processing time in microseconds; or None.
        order: the columns by which the key group puts the rows in order; none: they come in order.
    """

    keys: tuple[pa.DataType, ...]
    values: tuple[pa.DataType, ...]
    group: int | None = None
    partition: int | None = None
    row: int | None = None
    clock: int | None = None
    order: tuple[int, ...] = ()


@dataclass(slots=True)
class Pack:
    """The function for ``mapInArrow``. Input columns: see :class:`PackColumns`; output: ``EXCHANGE_SCHEMA``."""

    plan: WindowPlan
    columns: PackColumns

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with in_few_words():
            packing = _Packing(self.plan, self.columns, _partition_id(), run_id())
            for chunk in _chunks(batches):
                yield from packing.chunk(chunk)
            yield from packing.finish()
        settle()


def _partition_id() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    return context.partitionId() if context is not None else 0


def run_id() -> str:
    """Which run of a streaming query this task works for, as Spark says; empty where it does not.

    Spark makes the run's id the group of all jobs of a streaming query: so every way to start one tells it, Connect's too. In
    ``foreachBatch`` through Connect the jobs are of another session, which does not know.
    """
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None or context.getLocalProperty("sql.streaming.queryId") is None:
        return ""
    return context.getLocalProperty("spark.jobGroup.id") or ""


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
    run: str = ""
    sequence: int = 0
    rows: int = 0
    invalid: int = 0
    complaint: str = ""
    clock: int = 0
    seen: dict[str, int] = field(default_factory=dict)
    generators: dict[str, WatermarkGenerator] = field(default_factory=dict)
    emitted: dict[str, WatermarkOutput] = field(default_factory=dict)
    values: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        self.values = group_values(self.plan.groups)

    def chunk(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        self.rows += table.num_rows
        if self.columns.clock is not None:
            self.clock = max(self.clock, pc.max(table.column(self.columns.clock)).as_py() or 0)
        for judge in (self._unusable, self._ahead):
            wrong = judge(table) if table.num_rows else None
            if wrong is not None:
                yield from self._invalid(table.filter(wrong))
                table = table.filter(pc.invert(wrong)).combine_chunks()
        if table.num_rows:
            self._look_at_times(table)
            for group, part in self._by_group(table):
                yield from self._pack_group(group, part)

    def finish(self) -> Iterator[pa.RecordBatch]:
        if self.invalid and self.plan.invalid_tag is None:
            raise InvalidEventTimeError(f"{self.invalid} of {self.rows} rows of a source partition {self.complaint}")
        if self.rows:
            for name, generator in self.generators.items():
                generator.on_periodic_emit(self.emitted[name])
            watermarks = {name: output.watermark for name, output in self.emitted.items() if output.watermark is not None}
            report = {
                "rows": self.rows,
                "invalid": self.invalid,
                "seen": self.seen,
                "clock": self.clock,
                "run": self.run,
                "watermarks": watermarks,
            }
            for group in range(self.plan.groups):
                yield from self._rows(group, REPORT, pa.table({}), report)

    def _unusable(self, table: pa.Table) -> pa.Array | None:
        """Which rows have no event time that can be used; None: all have one."""
        times = _array(table, 0)
        valid = _usable(times)
        if valid is None:
            return None
        wrong = pc.invert(valid)
        value = times.filter(wrong)[0].as_py()
        told = "the first has null" if value is None else f"the first has {value} microseconds since the epoch"
        self.complaint = self.complaint or complaint(self.plan, "have", told)
        return wrong

    def _ahead(self, table: pa.Table) -> pa.Array | None:
        """Which rows are further ahead than the strategy allows; None: no row is."""
        strategy = self.plan.watermark
        if strategy.max_ahead_by is None or self.plan.event_time is None:
            return None
        times = _array(table, 0).to_numpy()
        if strategy.max_ahead_of == "rows":
            wrong, other = ahead_of_rows(times, strategy.max_ahead_by), ""
        else:
            if self.columns.clock is None:
                raise RuntimeError("event times are to be compared with the clock, which was not sent")
            clock = pc.fill_null(_array(table, self.columns.clock), LARGEST_TIME).to_numpy()
            wrong, other = ahead_of_clock(times, clock, strategy.max_ahead_by), f" at {instant(int(clock.min()))}"
        if not wrong.any():
            return None
        most, of = format_duration(strategy.max_ahead_by), "the clock" if strategy.max_ahead_of == "clock" else "the other rows"
        self.complaint = self.complaint or (
            f"have an event time in {self.plan.event_time!r} that is more than {most} ahead of {of}, the first "
            f"{instant(int(times[wrong][0]))}{other}: .max_ahead of the watermark strategy refuses it. {self.plan.way_out}"
        )
        return pa.array(wrong)

    def _invalid(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        self.invalid += rows.num_rows
        if self.plan.invalid_tag is not None and self.columns.row is not None:
            yield from self._rows(self.origin % self.plan.groups, INVALID, self._whole_rows(rows))

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
        if self.plan.watermark.generator is not None:
            self._generate_watermarks(table)

    def _generate_watermarks(self, table: pa.Table) -> None:
        """Shows every row to the user's own generator of its source partition: new in every micro-batch."""
        assert self.plan.watermark.generator is not None  # noqa: S101 - the caller asked
        rows = self._whole_rows(table)
        elements = RowType(rows.schema).rows(rows)
        times = _array(table, 0).to_pylist()
        names = [""] * len(times) if self.columns.partition is None else table.column(self.columns.partition).to_pylist()
        for name, time, element in zip(names, times, elements, strict=True):
            partition = "" if name is None else name
            if partition not in self.generators:
                self.generators[partition] = self.plan.watermark.generator()
                self.emitted[partition] = WatermarkOutput()
            self.generators[partition].on_event(element, time, self.emitted[partition])

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
        # Spark labels timestamps with the session's time zone and may send large strings: the plan's types are what counts.
        types = (*self.columns.keys, *self.columns.values)
        arrays = [_array(table, 1 + position).cast(wanted) for position, wanted in enumerate(types)]
        keys, values = arrays[: len(self.columns.keys)], arrays[len(self.columns.keys) :]
        rows = self._whole_rows(table) if self.plan.carries_rows else None
        chunk = Chunk(_array(table, 0).to_numpy(), keys, values, rows)
        if self.columns.order:
            arrival = zip(self.columns.order, self.plan.arrival or (), strict=True)
            order = [_array(table, place).cast(field.type) for place, field in arrival]
            yield from self._rows(group, UNORDERED, unordered(chunk, order))
            return
        for kind, packed in self.plan.operator.pack(self.plan, chunk):
            yield from self._rows(group, kind, packed)

    def _whole_rows(self, table: pa.Table) -> pa.Table:
        if self.columns.row is None:
            raise RuntimeError("whole rows are wanted that were not sent")
        rows = _array(table, self.columns.row)
        # Not Table.from_struct_array: before pyarrow 23 it takes all rows where a slice begins with the first.
        return as_schema(pa.Table.from_arrays(rows.flatten(), [field.name for field in rows.type]), self.plan.row_schema)

    def _rows(self, group: int, kind: str, table: pa.Table, header: dict[str, Any] | None = None) -> Iterator[pa.RecordBatch]:
        body = payload.encode(table, {"kind": kind, **(header or {})})
        starts = range(0, len(body), PIECE_BYTES)
        for place, start in enumerate(starts):
            self.sequence += 1
            piece = body[start : start + PIECE_BYTES]  # all of it is itself, not a copy
            columns = [[self.values[group]], [self.origin], [self.sequence], [len(starts) - 1 - place], [piece]]
            arrays = [pa.array(column, field.type) for column, field in zip(columns, _EXCHANGE, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=_EXCHANGE)


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


class Piece(NamedTuple):
    """A row of the exchange, as a key group gets it."""

    origin: int
    sequence: int
    more: int
    body: bytes


def _whole(pieces: Iterable[Piece]) -> Iterator[tuple[int, bytes]]:
    """The payloads and where each came from, by source partition, in the order in which they left it."""
    gathered: list[bytes] = []
    # Spark gives no order inside a group; sorting makes a rerun of the micro-batch see, and give, the same bytes.
    for origin, _, more, body in sorted(pieces, key=lambda piece: piece[:2]):
        gathered.append(body)
        if not more:
            yield origin, b"".join(gathered)  # of one it is itself
            gathered = []
    if gathered:
        raise RuntimeError(f"a payload from source partition {origin} lacks its last piece")


def gather(plan: WindowPlan, pieces: Iterable[Piece], end_of_input: bool = False) -> GroupInput:
    """What arrived for one key group, as an operator wants it."""
    batch = GroupInput(end_of_input=end_of_input)
    seen: dict[str, int] = {}
    watermarks: dict[str, int] = {}
    arrived: list[pa.Table] = []

    def add(kind: str, table: pa.Table, origin: int) -> None:
        batch.parts.setdefault(kind, []).append(as_schema(table, plan.operator.part_schema(plan, kind)))
        batch.origins.setdefault(kind, []).append(origin)

    for origin, body in _whole(pieces):
        table, header = payload.decode(body)
        kind = header["kind"]
        if kind == INVALID:
            batch.invalid.append(as_schema(table, plan.row_schema))
        elif kind == REPORT:
            batch.input_rows += header["rows"]
            batch.invalid_rows += header["invalid"]
            batch.batch_time = max(batch.batch_time, header["clock"])
            batch.run = max(batch.run, header["run"])
            _keep_largest(seen, header["seen"])
            _keep_largest(watermarks, header["watermarks"])
        elif kind == UNORDERED:
            arrived.append(table)
        else:
            add(kind, table, origin)
    for kind, table in in_order(plan, arrived):
        add(kind, table, 0)
    batch.seen, batch.watermarks = seen, watermarks
    return batch


def _keep_largest(known: dict[str, int], reported: Mapping[str, int]) -> None:
    for name, time in reported.items():
        known[name] = max(time, known.get(name, time))


def as_schema(table: pa.Table, schema: pa.Schema | None) -> pa.Table:
    """The columns with their full types: a payload narrows integers, and Spark labels times with the session's zone."""
    if schema is None:
        raise RuntimeError("rows crossed the exchange that the plan did not ask for")
    columns = [table.column(position).cast(field.type) for position, field in enumerate(schema)]
    return pa.Table.from_arrays(columns, schema=schema)
