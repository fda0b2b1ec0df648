"""Packing: turns rows into a few large binary rows per key group, before the shuffle.

Packing is stateless. The operator chooses the data for each key group and chunk (partials per key and pane, or rows). Each of its
kinds becomes one Arrow payload. Every key group also gets a *report* of the event times seen, so that all agree on the watermark.

The rows of a micro-batch come from several source partitions, each with its own order. If a plan names columns for the order of
arrival (:attr:`~panestream.engine.plan.WindowPlan.arrival`) and its operator depends on it, rows cross the exchange unreduced,
with these columns. The key group sorts them and only then packs them. (In batch mode Spark sorts them before.)
"""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from panestream.engine.kernels.columns import Ints, as_type, one_chunk
from panestream.engine.kernels.grouping import by_key_group
from panestream.engine.kernels.panes import Int64s
from panestream.engine.kernels.python_values import RowType
from panestream.engine.plan import Chunk, WindowPlan
from panestream.engine.runtime.group_operator import collector_paused
from panestream.engine.runtime.sides import RIGHT
from panestream.engine.storage import payload
from panestream.engine.storage.payload import INVALID, REPORT, UNORDERED, PayloadPart, as_schema, cut
from panestream.errors import InvalidEventTimeError, did_you_mean
from panestream.windowing.time import format_duration
from panestream.windowing.watermarks import WatermarkGenerator, WatermarkOutput, WatermarkStrategy

CHUNK_ROWS = 1 << 20
CHUNK_BYTES = 256 << 20

PartFor: TypeAlias = tuple[int, PayloadPart]
"""The number of a key group, and a part for it."""


@dataclass(frozen=True, slots=True)
class PackColumns:
    """The layout of the input of ``pack``: event time in column 0, then keys, then values, then what the plan needs.

    Attributes:
        keys, values: the types in the plan.
        group: the column with the number of the key group, or None for a single group.
        partition: the column whose values have their own watermarks, as strings, or None.
        row: the column with the whole row as a struct (null if not needed), or None.
        processing_time: the column with the processing time in microseconds, or None.
        order: the columns by which the key group sorts the rows. Empty if they arrive in order.
        never_late: whether no row can be late, as in a batch.
    """

    keys: tuple[pa.DataType, ...]
    values: tuple[pa.DataType, ...]
    group: int | None = None
    partition: int | None = None
    row: int | None = None
    processing_time: int | None = None
    order: tuple[int, ...] = ()
    never_late: bool = False


def pack(
    plan: WindowPlan, columns: PackColumns, batches: Iterable[pa.RecordBatch], origin: int = 0, run: str = ""
) -> Iterator[PartFor]:
    """Yield the parts that source partition number ``origin`` sends to the key groups; ``run`` is empty if unknown.

    Rows without usable event time raise InvalidEventTimeError if the plan lacks an output for them.
    """
    packing = _Packing(plan, columns, origin, run, TimesSeen(plan.watermark.generator))
    for chunk in _chunks(batches):
        yield from packing.chunk(chunk)
    yield from packing.finish()


def _chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Collect Spark's small batches, because aggregation is fast only for many rows at once."""
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
    return one_chunk(table.column(position))


@dataclass(slots=True)
class _Packing:
    """The packing of one source partition."""

    plan: WindowPlan
    columns: PackColumns
    origin: int
    run: str
    times: TimesSeen
    sequence: int = 0
    rows: int = 0
    invalid: int = 0
    history: int = 0
    complaint: Callable[[], str] | None = None
    processing_time: int = 0
    oldest: int | None = None

    def chunk(self, table: pa.Table) -> Iterator[PartFor]:
        self.rows += table.num_rows
        if self.columns.processing_time is not None:
            self.processing_time = max(self.processing_time, pc.max(table.column(self.columns.processing_time)).as_py() or 0)
        for judge in (self._unusable, self._ahead):
            wrong = judge(table) if table.num_rows else None
            if wrong is not None:
                yield from self._invalid(table.filter(wrong))
                table = table.filter(pc.invert(wrong)).combine_chunks()
        if table.num_rows:
            valid, partition = table, self.columns.partition
            partitions = None if partition is None else valid.column(partition)
            self.times.add(valid.column(0), partitions, lambda: self._whole_rows(valid))
            later = self._since(valid)
            if self.plan.operator.capabilities.follows_oldest and later.num_rows:
                smallest = pc.min(later.column(0)).as_py()
                self.oldest = smallest if self.oldest is None else min(self.oldest, smallest)
            yield from self._pack(later)

    def finish(self) -> Iterator[PartFor]:
        if self.complaint is not None and self.plan.invalid_tag is None:
            raise InvalidEventTimeError(f"{self.invalid} of {self.rows} rows of a source partition {self.complaint()}")
        if self.rows:
            report = {
                "rows": self.rows - self.history,
                "history": self.history,
                "invalid": self.invalid,
                "seen": self.times.largest,
                "processing_time": self.processing_time,
                "run": self.run,
                "watermarks": self.times.watermarks(),
                **({} if self.oldest is None else {"oldest": self.oldest}),
            }
            for group in range(self.plan.groups):
                yield from self._send(group, REPORT, pa.table({}), report)

    def _since(self, table: pa.Table) -> pa.Table:
        """Return the rows outside the history from which the query started. All rows advance the event time."""
        if self.plan.since is None:
            return table
        kept = pc.greater_equal(table.column(0), self.plan.since)
        later = table.filter(kept).combine_chunks()
        self.history += table.num_rows - later.num_rows
        return later

    def _unusable(self, table: pa.Table) -> pa.Array | None:
        """Return which rows have an unusable event time, or None if all are usable."""
        times = _array(table, 0)
        valid = usable_times(times)
        if valid is None:
            return None
        wrong = pc.invert(valid)
        value = times.filter(wrong)[0].as_py()
        told = "the first has null" if value is None else f"the first has {value} microseconds since the epoch"
        # Called for an error only: it may look up the system's time zones.
        self.complaint = self.complaint or partial(complaint, self.plan, "have", told)
        return wrong

    def _ahead(self, table: pa.Table) -> pa.Array | None:
        """Return which rows are further ahead than the strategy allows, or None if none are."""
        strategy = self.plan.watermark
        if not strategy.sides or self.columns.partition is None:
            return self._ahead_by(strategy, table)
        found = np.zeros(table.num_rows, np.bool_)
        for side, own in strategy.sides:
            rows = pc.starts_with(table.column(self.columns.partition), side).to_numpy()
            wrong = self._ahead_by(own, table.filter(pa.array(rows))) if rows.any() else None
            if wrong is not None:
                found[rows] = wrong.to_numpy(zero_copy_only=False)
        return pa.array(found) if found.any() else None

    def _ahead_by(self, strategy: WatermarkStrategy, table: pa.Table) -> pa.Array | None:
        if strategy.max_ahead_by is None or self.plan.event_time is None:
            return None
        times = _array(table, 0).to_numpy()
        if strategy.max_ahead_of == "rows":
            wrong, other = ahead_of_rows(times, strategy.max_ahead_by), ""
        else:
            if self.columns.processing_time is None:
                raise RuntimeError("event times are to be compared with the clock, which was not sent")
            clock = pc.fill_null(_array(table, self.columns.processing_time), LARGEST_TIME).to_numpy()
            wrong, other = ahead_of_clock(times, clock, strategy.max_ahead_by), f" at {instant(int(clock.min()))}"
        if not wrong.any():
            return None
        first = int(times[wrong][0])
        self.complaint = self.complaint or partial(ahead_complaint, self.plan, strategy, first, other)
        return pa.array(wrong)

    def _invalid(self, rows: pa.Table) -> Iterator[PartFor]:
        self.invalid += rows.num_rows
        if self.plan.invalid_tag is not None and self.columns.row is not None:
            yield from self._send(self.origin % self.plan.groups, INVALID, self._whole_rows(rows))

    def _pack(self, table: pa.Table) -> Iterator[PartFor]:
        if not table.num_rows:
            return
        if self.columns.group is None or self.plan.groups == 1:
            yield from self._pack_group(0, table)
            return
        key_groups = _array(table, self.columns.group).to_numpy()
        if not self.columns.order and not self.plan.carries_rows:
            # Partials are fewer than rows, so splitting them by key group costs less.
            parts = self.plan.operator.pack_key_groups(self.plan, self._chunk(table), key_groups)
            if parts is not None:
                for group, kind, packed in parts:
                    yield from self._send(group, kind, packed)
                return
        for group, rows in self._by_group(table, key_groups):
            yield from self._pack_group(group, rows)

    def _by_group(self, table: pa.Table, key_groups: Ints) -> Iterator[tuple[int, pa.Table]]:
        if self.plan.operator.capabilities.broadcasts:
            everywhere = self._whole_rows(table).column(RIGHT).is_valid().to_numpy()
            rules = np.flatnonzero(everywhere)
            table = table.take(pa.array(np.concatenate([np.flatnonzero(~everywhere), np.repeat(rules, self.plan.groups)])))
            key_groups = np.concatenate([key_groups[~everywhere], np.tile(np.arange(self.plan.groups), len(rules))])
        yield from by_key_group(table, key_groups.astype(np.uint16))

    def _chunk(self, table: pa.Table) -> Chunk:
        # Spark labels timestamps with the session's time zone and may send large strings; the plan's types count.
        types = (*self.columns.keys, *self.columns.values)
        arrays = [as_type(_array(table, 1 + position), wanted) for position, wanted in enumerate(types)]
        keys, values = arrays[: len(self.columns.keys)], arrays[len(self.columns.keys) :]
        rows = self._whole_rows(table) if self.plan.carries_rows else None
        return Chunk(_array(table, 0).to_numpy(), keys, values, rows, self.columns.never_late)

    def _pack_group(self, group: int, table: pa.Table) -> Iterator[PartFor]:
        chunk = self._chunk(table)
        if self.columns.order:
            arrival = zip(self.columns.order, self.plan.arrival or (), strict=True)
            order = [as_type(_array(table, position), column.type) for position, column in arrival]
            yield from self._send(group, UNORDERED, unordered(chunk, order))
            return
        # A user function may run for each row, and the rows that it creates are not garbage yet.
        with collector_paused():
            parts = list(self.plan.operator.pack(self.plan, chunk))
        for kind, packed in parts:
            yield from self._send(group, kind, packed)

    def _whole_rows(self, table: pa.Table) -> pa.Table:
        if self.columns.row is None:
            raise RuntimeError("whole rows are wanted that were not sent")
        rows = _array(table, self.columns.row)
        # Not Table.from_struct_array: before pyarrow 23 it takes all rows if a slice starts at the first row.
        return as_schema(pa.Table.from_arrays(rows.flatten(), [column.name for column in rows.type]), self.plan.row_schema)

    def _send(self, group: int, kind: str, table: pa.Table, header: dict[str, Any] | None = None) -> Iterator[PartFor]:
        body = payload.encode(table, {"kind": kind, **(header or {})})
        for part in cut(body, self.origin, self.sequence):
            self.sequence = part.sequence
            yield group, part


LARGEST_TIME = 2**62
"""Event times beyond this (about the years ±144,000 in microseconds) are invalid: arithmetic with them could overflow."""
_ZONE = re.compile(r"\b[A-Z][a-z]{2,}/[A-Z]\w+(?:/[A-Z]\w+)?\b")


def usable_times(times: pa.Array) -> pa.Array | None:
    """Return which rows have a usable event time, or None if all have."""
    bounds = pc.min_max(times)
    smallest, largest_seen = bounds["min"].as_py(), bounds["max"].as_py()
    in_range = smallest is None or (smallest > -LARGEST_TIME and largest_seen < LARGEST_TIME)
    if in_range and not times.null_count:
        return None
    largest = pa.scalar(LARGEST_TIME, pa.int64())
    within = pc.and_(pc.less(times, largest), pc.greater(times, pc.negate(largest)))
    return pc.fill_null(within, False)


class SaysEventTime(Protocol):
    """The properties of a query that an error about unusable event times needs."""

    @property
    def event_time(self) -> str | None:
        """The event time as the user wrote it."""

    @property
    def way_out(self) -> str:
        """The advice about such rows."""

    @property
    def invalid_tag(self) -> str | None:
        """The output for such rows, or None if they fail the query."""


def complaint(plan: SaysEventTime, what: str, value: str) -> str:
    """Return the message about unusable event times; ``what`` has the rows' number and verb, ``value`` one of their values."""
    zones = _unknown_zones(plan.event_time or "")
    hint = f" There is no time zone {zones[0]!r}; {did_you_mean(zones[0], zoneinfo.available_timezones())}" if zones else ""
    return (
        f"{what} an unusable event time in {plan.event_time!r} (null, unreadable, or after the year 140,000): {value}."
        f"{hint} {plan.way_out}"
    )


def ahead_complaint(plan: SaysEventTime, strategy: WatermarkStrategy, first: int, other: str) -> str:
    """Return the message about rows that are further ahead than the strategy allows. ``first`` is the event time of the first."""
    most = None if strategy.max_ahead_by is None else format_duration(strategy.max_ahead_by)
    of = "the clock" if strategy.max_ahead_of == "clock" else "the other rows"
    return (
        f"have an event time in {plan.event_time!r} that is more than {most} ahead of {of}, the first {instant(first)}{other}: "
        f".max_ahead of the watermark strategy refuses it. {plan.way_out}"
    )


def instant(micros: int) -> str:
    """Format an instant.

    >>> instant(253402300799_000_000)
    '9999-12-31T23:59:59Z'
    """
    return f"{np.datetime64(micros, 'us')}".removesuffix(".000000") + "Z"


def _unknown_zones(text: str) -> list[str]:
    known = zoneinfo.available_timezones()
    return [zone for zone in _ZONE.findall(text) if known and zone not in known]


@dataclass(slots=True)
class TimesSeen:
    """The largest event times of some rows, and the watermarks of user-defined generators.

    ``largest`` has one time per partition with its own watermark, or a single time under ``""``.
    """

    new_generator: Callable[[], WatermarkGenerator] | None
    largest: dict[str, int] = field(default_factory=dict)
    _generators: dict[str, WatermarkGenerator] = field(default_factory=dict)
    _emitted: dict[str, WatermarkOutput] = field(default_factory=dict)

    def add(self, times: pa.ChunkedArray, partition: pa.ChunkedArray | None, rows: Callable[[], pa.Table]) -> None:
        """Record the event times of some rows, per ``partition`` if not None. Only generators need the whole rows."""
        if partition is None:
            largest = {"": pc.max(times).as_py()}
        else:
            by_partition = pa.table({"partition": partition, "time": times})
            maxima = by_partition.group_by("partition").aggregate([("time", "max")])
            names = map(_name, maxima.column("partition").to_pylist())
            largest = dict(zip(names, maxima.column("time_max").to_pylist(), strict=True))
        for name, time in largest.items():
            self.largest[name] = max(time, self.largest.get(name, time))
        if self.new_generator is not None:
            self._generate(self.new_generator, times, partition, rows())

    def watermarks(self) -> dict[str, int]:
        """Return the watermarks of the generators at the end of a micro-batch. Call it only once."""
        for name, generator in self._generators.items():
            generator.on_periodic_emit(self._emitted[name])
        return {name: output.watermark for name, output in self._emitted.items() if output.watermark is not None}

    def _generate(
        self, new: Callable[[], WatermarkGenerator], times: pa.ChunkedArray, partition: pa.ChunkedArray | None, rows: pa.Table
    ) -> None:
        """Pass every row to the generator of its source partition, which is new in every micro-batch."""
        elements = RowType(rows.schema).rows(rows)
        instants = one_chunk(times).to_pylist()
        names = [""] * len(instants) if partition is None else map(_name, partition.to_pylist())
        for name, time, element in zip(names, instants, elements, strict=True):
            if name not in self._generators:
                self._generators[name] = new()
                self._emitted[name] = WatermarkOutput()
            self._generators[name].on_event(element, time, self._emitted[name])


def _name(partition: str | None) -> str:
    return "" if partition is None else partition


def ahead_of_clock(times: Int64s, clock: Int64s, most: int) -> npt.NDArray[np.bool_]:
    """Return which event times are more than ``most`` after the processing time of their rows."""
    found: npt.NDArray[np.bool_] = times > clock + most
    return found


def ahead_of_rows(times: Int64s, most: int) -> npt.NDArray[np.bool_]:
    """Return which event times follow a gap of more than ``most`` that comes after at least half of all event times.

    The search starts at the median of the sorted times and stops at the first gap between neighbours larger than ``most``. So
    rows that span years are all accepted, while a few rows after a gap of years are not.

    >>> ahead_of_rows(np.array([5, 9_999, 7, 6]), 100).tolist()
    [False, True, False, False]
    """
    if not len(times) or int(times.max()) - int(times.min()) <= most:
        return np.zeros(len(times), np.bool_)
    later = np.sort(times)[(len(times) - 1) // 2 :]
    gaps = np.flatnonzero(np.diff(later) > most)
    return np.zeros(len(times), np.bool_) if not len(gaps) else times > later[gaps[0]]


def unordered(chunk: Chunk, order: Sequence[pa.Array]) -> pa.Table:
    """Return rows in the form in which they cross the exchange, with the columns to sort by first."""
    arrays = [*map(_small, order), pa.array(chunk.times), *chunk.keys, *chunk.values]
    if chunk.rows is not None:
        arrays += [one_chunk(column) for column in chunk.rows.columns]
    return pa.Table.from_arrays(arrays, names=[str(position) for position in range(len(arrays))])


def in_order(plan: WindowPlan, arrived: Sequence[pa.Table]) -> Iterator[tuple[str, pa.Table]]:
    """Sort the tables of :func:`unordered`, at least one, and yield what the operator packs.

    They come source partition by source partition. Nulls sort last; rows equal in all sort columns keep the given order.
    """
    arrival = plan.arrival or pa.schema([])
    width, keys = len(arrival), len(plan.key_schema)
    rows = pa.concat_tables([_plain(table, arrival) for table in arrived])
    order = pc.sort_indices(rows, sort_keys=[(name, "ascending") for name in rows.column_names[:width]])
    columns = [one_chunk(column.take(order)) for column in rows.columns[width:]]
    whole = None
    if plan.row_schema is not None and plan.carries_rows:
        first = len(columns) - len(plan.row_schema)
        whole, columns = pa.Table.from_arrays(columns[first:], schema=plan.row_schema), columns[:first]
    times, *others = columns
    yield from plan.operator.pack(plan, Chunk(times.to_numpy(), others[:keys], others[keys:], whole))


def _small(column: pa.Array) -> pa.Array:
    """Encode texts as a dictionary: file names are long, and few."""
    return pc.dictionary_encode(column) if pa.types.is_string(column.type) else column


def _plain(table: pa.Table, arrival: pa.Schema) -> pa.Table:
    columns = [as_type(column, field.type) for column, field in zip(table.columns, arrival, strict=False)]
    return pa.Table.from_arrays([*columns, *table.columns[len(arrival) :]], names=table.column_names)
