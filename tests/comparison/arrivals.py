"""Rows in an order of arrival, cut into files, and files into micro-batches and source partitions, all at random. Without Spark.

The interface: :class:`Case`, one kind of query; :func:`random_files`; :func:`streamed` and :func:`batched`, what comes out of the
engine by way of ``pack`` and ``gather``, as Spark calls them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from panestream.engine.exchange import packing
from panestream.engine.exchange.group_run import gather
from panestream.engine.exchange.packing import PackColumns, pack
from panestream.engine.plan import MAIN, OperatorSpec, WindowPlan
from panestream.engine.query import WindowSpec
from panestream.engine.storage.payload import PayloadPart
from panestream.engine.storage.state import MemoryState
from panestream.windowing.watermarks import WatermarkStrategy
from tests.comparison import harness

ARRIVAL = pa.schema([("file", pa.string()), ("place", pa.int64())])
"""What says in which order rows arrive. Rows of a file may have the same place: then they stay as they are."""
SIZE = 10
"""Of the windows."""
File = list[tuple[harness.Row, tuple[str | None, int]]]
"""Rows, and where each stands in the order."""


@dataclass(frozen=True)
class Case:
    """One kind of query.

    Attributes:
        windowing: the windows.
        operator: how they run.
        last: whether a window that fires again in a micro-batch is emitted once, so that only its last firing is the same.
    """

    windowing: WindowSpec
    operator: OperatorSpec
    last: bool = False


def random_files(rng: random.Random, *, equal_times: bool) -> list[File]:
    """Files in their order, rows with many equal event times, or each with its own."""
    keys = rng.choice([["a"], ["a", "b", None]])
    placed = rng.random() < 0.5
    count, files = rng.randint(2, 7), []
    times = rng.sample(range(4 * SIZE), 4 * SIZE)
    for number in range(count):
        name = f"{number:02}" if number < count - 1 or rng.random() < 0.5 else None  # nulls come last
        rows: File = []
        for place in range(rng.randint(1, 6)):
            time = rng.randint(0, 3) * rng.choice([1, 4]) if equal_times else times.pop()
            value = rng.choice([None, 1, 2])
            row = (rng.choice(keys), time, value, rng.choice([None, 0.5, 1.25]), rng.randint(0, 2**40))
            rows.append((row, (name, place if placed else 0)))
        files.append(rows)
    return files


def streamed(case: Case, files: Sequence[File], rng: random.Random, *, ordered: bool) -> dict[harness.Place, list[tuple]]:
    """What a stream emits whose micro-batches have some files each, the last firing of each window or all, by key and window.

    Args:
        case: the query.
        files: in their order.
        rng: cuts them.
        ordered: whether the query knows the order.
    """
    batches: list[list[File]] = []
    for file in files:
        if not batches or rng.random() < 0.5:
            batches.append([])
        batches[-1].append(file)
    rows = [harness.MicroBatch([[row for row, _ in file] for file in batch]) for batch in batches]
    plan = _plan(case, harness.furthest_back(rows) + 1, ordered=ordered)
    state, fired = MemoryState(), []
    for batch in [*batches, []]:
        parts = _parts(plan, batch, rng, ordered=ordered)
        fired += _fired(plan, state, parts, end=not batch)
    return _by_place(fired, last=case.last)


def batched(case: Case, files: Sequence[File], rng: random.Random, *, ordered: bool) -> dict[harness.Place, list[tuple]]:
    """What a batch of all files emits; see :func:`streamed`. ``ordered``: Spark has put it in order, in one partition."""
    plan = _plan(case, 0, ordered=ordered)
    if ordered:
        parts = list(_packed(plan, [row for file in files for row in file], 0, rng, PackColumns((pa.string(),), _values(plan))))
    else:
        parts = _parts(plan, files, rng, ordered=False)
    return _by_place(_fired(plan, MemoryState(), parts, end=True), last=case.last)


def _plan(case: Case, delay: int, *, ordered: bool) -> WindowPlan:
    return WindowPlan(
        keys=("key",),
        key_schema=harness.KEYS,
        assigner=case.windowing.assigner,
        operator=case.operator,
        watermark=WatermarkStrategy(delay),
        event_time="ts",
        groups=1,
        row_schema=harness.ROWS if case.operator.capabilities.takes_rows else None,
        arrival=ARRIVAL if ordered else None,
    )


def _values(plan: WindowPlan) -> tuple[pa.DataType, ...]:
    return tuple(harness.TYPES[text] for text in plan.operator.inputs)


def _parts(plan: WindowPlan, files: Sequence[File], rng: random.Random, *, ordered: bool) -> list[PayloadPart]:
    """What leaves some source partitions, each with some of the files, in any order: Spark puts them together by size."""
    partitions: list[list[File]] = [[] for _ in range(rng.randint(1, 3))]
    for file in rng.sample(files, len(files)):
        rng.choice(partitions).append(file)
    first = 1 + 1 + len(plan.operator.inputs)
    columns = PackColumns((pa.string(),), _values(plan), order=(first, first + 1) if ordered else ())
    parts = []
    for origin, held in enumerate(partitions):
        parts += _packed(plan, [row for file in held for row in file], origin, rng, columns)
    rng.shuffle(parts)
    return parts


def _packed(plan: WindowPlan, rows: File, origin: int, rng: random.Random, columns: PackColumns) -> Iterator[PayloadPart]:
    table = pa.Table.from_pylist([dict(zip(harness.ROWS.names, row, strict=True)) for row, _ in rows], schema=harness.ROWS)
    given = {"time": table["ts"], "key": table["key"]}
    given |= {f"value {text}": table[text] for text in plan.operator.inputs}
    order = pa.Table.from_pylist([dict(zip(ARRIVAL.names, place, strict=True)) for _, place in rows], schema=ARRIVAL)
    given |= {name: order[name] for name in ARRIVAL.names if columns.order}
    if plan.row_schema is not None:
        columns = PackColumns(columns.keys, columns.values, row=len(given), order=columns.order)
        given["row"] = table.to_struct_array()
    before = packing.CHUNK_ROWS
    packing.CHUNK_ROWS = rng.choice([2, 5, before])
    try:
        batches = pa.table(given).to_batches(max_chunksize=rng.randint(1, 6))
        yield from [part for _, part in pack(plan, columns, batches, origin)]
    finally:
        packing.CHUNK_ROWS = before


def _fired(plan: WindowPlan, state: MemoryState, parts: Sequence[PayloadPart], *, end: bool) -> list[tuple[harness.Place, tuple]]:
    output = plan.operator.for_group(plan, state, 0).process(gather(plan, parts, end_of_input=end))
    assert not output.metrics.late_rows
    return [row for tag, table in output.tables if tag == MAIN for row in harness.rows_of(plan, table)]


def _by_place(fired: Sequence[tuple[harness.Place, tuple]], *, last: bool) -> dict[harness.Place, list[tuple]]:
    found: dict[harness.Place, list[tuple]] = {}
    for place, values in fired:
        found[place] = [*([] if last else found.get(place, [])), values]
    return found
