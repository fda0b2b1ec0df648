"""Rows with a random order of arrival, cut into random files, micro-batches and source partitions. Without Spark.

The interface is :class:`Case` for one kind of query, and :func:`random_files` for its input. :func:`streamed` and :func:`batched`
return the engine's output. They call ``pack`` and ``gather``, as Spark does.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from panestream.engine.exchange import packing
from panestream.engine.exchange.group_run import gather
from panestream.engine.exchange.packing import PackColumns, pack
from panestream.engine.plan import MAIN, OperatorSpec, WindowPlan, WindowQuery
from panestream.engine.storage.payload import PayloadPart
from panestream.engine.storage.state import MemoryState
from panestream.windowing.watermarks import WatermarkStrategy
from tests.comparison import harness

ARRIVAL = pa.schema([("file", pa.string()), ("place", pa.int64())])
"""The columns that define the order of arrival. Rows of a file may have the same place, and then keep their order."""
SIZE = 10
"""Size of the windows."""
File = list[tuple[harness.Row, tuple[str | None, int]]]
"""Rows, each with its position in the order of arrival."""


@dataclass(frozen=True)
class Case:
    """One kind of query.

    Attributes:
        windowing: The windows.
        operator: The operator that runs them.
        last: True if a window emits once per micro-batch although it fires more often. Then only its last firing is comparable.
    """

    windowing: WindowQuery
    operator: OperatorSpec
    last: bool = False


def random_files(rng: random.Random, *, equal_times: bool) -> list[File]:
    """Return ordered files whose rows have many equal event times, or only different ones."""
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
    """Run a stream whose micro-batches have some files each. Return its firings by key and window.

    Args:
        case: The query.
        files: The files in their order.
        rng: Decides the micro-batches.
        ordered: Whether the query declares the order of arrival.
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
    """Run all files as a batch. See :func:`streamed`. If ``ordered``, the rows are sorted in one partition, as by Spark."""
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
    """Pack some source partitions, each with some of the files in any order, because Spark combines files by size."""
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
