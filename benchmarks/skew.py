"""One key has most of the rows. Count the rows and bytes of the exchange and the work of each key group's task, without Spark.

Run: ``python -m benchmarks.skew [--rows 200000] [--write]``. Some source partitions pack their rows. Some key groups each process
their input, micro-batch by micro-batch, with state in memory. One run has equally frequent keys, and another has a key with 90 %
of the rows. Rows and bytes are those of the exchange. Seconds are processor time of one core, so other load on the machine does
not count. (Compare only figures of one machine.)
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.skew_cases import KEYS, ROWS, SECOND, Case, cases
from panestream.engine.exchange.group_run import run_micro_batch
from panestream.engine.exchange.packing import PackColumns, PartFor, pack
from panestream.engine.plan import OperatorSpec, WindowPlan
from panestream.engine.storage import payload
from panestream.engine.storage.payload import REPORT, PayloadPart, joined
from panestream.engine.storage.state import MemoryState
from panestream.windowing.watermarks import WatermarkStrategy

PARTITIONS, GROUPS, BATCHES = 4, 4, 4
NUMBER_OF_KEYS = 1_000
PER_SECOND = 2_000
"""Rows per second of event time."""
RESULTS = Path(__file__).parent / "results"


@dataclass
class Counted:
    """The counts of one run of a case, over the micro-batches after the first.

    Attributes:
        rows, sent: the rows and bytes of the exchange, by key group.
        packing: seconds of each source partition.
        grouping: seconds of each key group.
        fired: the number of result rows.
    """

    rows: list[int] = field(default_factory=lambda: [0] * GROUPS)
    sent: list[int] = field(default_factory=lambda: [0] * GROUPS)
    packing: list[float] = field(default_factory=lambda: [0.0] * PARTITIONS)
    grouping: list[float] = field(default_factory=lambda: [0.0] * GROUPS)
    fired: int = 0

    @property
    def longest(self) -> float:
        """The seconds of the query with a core for every task: the slowest packing task, then the slowest key group."""
        return max(self.packing) + max(self.grouping)


def plan_of(case: Case, operator: OperatorSpec) -> WindowPlan:
    """Return the plan of a case."""
    keys = KEYS if case.keyed else pa.schema([])
    needs_rows = operator.capabilities.takes_rows or case.late
    return WindowPlan(
        tuple(keys.names), keys, case.window.assigner, operator, WatermarkStrategy(SECOND), "ts", GROUPS if case.keyed else 1,
        late_tag="late" if case.late else None, row_schema=ROWS if needs_rows else None,
    )  # fmt: skip


def rows_of(number: int, rows: int, share: float) -> pa.Table:
    """Return the rows of one micro-batch.

    Args:
        number: the number of the micro-batch.
        rows: the number of rows.
        share: the share of rows with key 0, or 0 for equally frequent keys.
    """
    rng = np.random.default_rng(number)
    times = (number * rows + np.arange(rows)) * 1000 // PER_SECOND * 1000 - rng.integers(0, 500, rows) * 1000
    keys = rng.integers(0, NUMBER_OF_KEYS, rows)
    keys[rng.random(rows) < share] = 0
    columns = [keys, times, rng.integers(0, 1000, rows), rng.integers(0, 100_000, rows)]
    return pa.Table.from_arrays([pa.array(column) for column in columns], schema=ROWS)


def exchange_input(plan: WindowPlan, table: pa.Table, *, split: bool = False) -> tuple[pa.Table, PackColumns]:
    """Return the columns that Spark hands to ``pack``, and their places."""
    columns = {"time": table["ts"], **{f"key {name}": table[name] for name in plan.key_schema.names}}
    columns |= {f"value {text}": table[text] for text in plan.operator.inputs}
    types = tuple(ROWS.field(text).type for text in plan.operator.inputs)
    where = PackColumns(tuple(plan.key_schema.types), types)
    if plan.groups > 1:
        where = replace(where, group=len(columns))
        # Spread the other keys evenly over groups, instead of by hash.
        part = table["user"].to_numpy() if split else 0
        columns["group"] = pa.array((table["key"].to_numpy() + part) % plan.groups)
    if plan.row_schema is not None:
        where = replace(where, row=len(columns))
        columns["row"] = table.to_struct_array()
    return pa.table(columns), where


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds of processor time, and the result."""
    started = time.process_time()
    result = call()
    return time.process_time() - started, result


def measure(case: Case, rows: int, share: float) -> Counted:
    """Runs a case."""
    plan, counted = plan_of(case, case.operator()), Counted()
    states = [MemoryState() for _ in range(plan.groups)]
    for number in range(BATCHES + 1):
        table = rows_of(number, rows, share)
        parts: dict[int, list[PayloadPart]] = {group: [] for group in range(plan.groups)}
        took = Counted()
        for origin in range(PARTITIONS):
            # Adjacent rows go to different partitions, as in a source that is read in parallel.
            columns, where = exchange_input(
                plan, table.take(pa.array(np.arange(origin, rows, PARTITIONS))).combine_chunks(), split=case.split
            )
            took.packing[origin], packed = timed(partial(_packed, plan, where, columns, origin))
            for group, part in packed:
                parts[group].append(part)
        for group, state in enumerate(states):
            for kind, count, size in crossed(parts[group]):
                if kind != REPORT:
                    took.rows[group] += count
                    took.sent[group] += size
            took.grouping[group], output = timed(partial(run_micro_batch, plan, state, group, parts[group]))
            took.fired += output.metrics.fired_rows
        if number:
            _add(counted, took)
    return counted


def _packed(plan: WindowPlan, where: PackColumns, columns: pa.Table, origin: int) -> list[PartFor]:
    return list(pack(plan, where, columns.to_batches(max_chunksize=10_000), origin))


def crossed(parts: list[PayloadPart]) -> Iterator[tuple[str, int, int]]:
    """Yield kind, rows and bytes of each payload."""
    for _, body in joined(parts):
        table, header = payload.decode(body)
        yield header["kind"], table.num_rows, len(body)


def _add(total: Counted, more: Counted) -> None:
    for name in ("rows", "sent", "packing", "grouping"):
        setattr(total, name, [a + b for a, b in zip(getattr(total, name), getattr(more, name), strict=True)])
    total.fired += more.fired


def line_of(case: Case, even: Counted, skewed: Counted, rows: int) -> str:
    """Return a line of the table with both runs, per micro-batch. Key group 0 has the key."""
    total = rows * BATCHES
    hot, others = skewed.rows[0], sum(skewed.rows[1:]) / max(GROUPS - 1, 1)
    shares = f"{hot / BATCHES:,.0f} | {others / BATCHES:,.0f} | {sum(skewed.sent) / total:.2f}"
    pack_ms, even_ms, hot_ms = (1000 * max(part) / BATCHES for part in (skewed.packing, even.grouping, skewed.grouping))
    other_ms = 1000 * sum(skewed.grouping[1:]) / max(GROUPS - 1, 1) / BATCHES
    worse = skewed.longest / even.longest
    return f"| {case.name} | {shares} | {pack_ms:,.0f} | {even_ms:,.0f} | {hot_ms:,.0f} | {other_ms:,.0f} | {worse:.2f} |"


HEAD = """\
# One key has 90 % of the rows

Counted by `python -m benchmarks.skew --rows {rows} {only}--write`: {partitions} source partitions, {groups} key groups, {keys:,} keys; per micro-batch
of {rows:,} rows ({batches} of them after the first), {second:,} rows a second of event time. Key group 0 has the key. Rows and bytes are those of
the exchange (reports left out; a packed cell of rows counts as one row, with all its bytes). Milliseconds are processor time of one
core: of the slowest packing task, and of key groups' tasks. The last column is what the query takes with a core for every task
(slowest packing task, then slowest key group), with the key beside all keys alike: 1 is no harm, {groups} is one task for all.

| operator, function | rows to the key's group | to each other group | bytes per input row | pack ms | group ms, keys alike | the key's group ms | other groups ms | with the key ÷ keys alike |
|---|---:|---:|---:|---:|---:|---:|---:|---:|"""  # noqa: E501


def main() -> None:
    """Print a line for each case, and with ``--write`` save the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000, help="rows of a micro-batch")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--write", action="store_true", help="write results/skew.md (with --only: skew-ONLY.md)")
    options = parser.parse_args()
    head = HEAD.format(
        rows=options.rows,
        only=f"--only {options.only} " if options.only else "",
        partitions=PARTITIONS,
        groups=GROUPS,
        keys=NUMBER_OF_KEYS,
        batches=BATCHES,
        second=PER_SECOND,
    )
    print(head, flush=True)
    lines = [head]
    for case in cases():
        if options.only in case.name:
            even, skewed = (measure(case, options.rows, share) for share in (0.0, 0.9))
            lines.append(line_of(case, even, skewed, options.rows))
            print(lines[-1], flush=True)
    if options.write:
        name = "-".join(["skew", *options.only.split()])
        (RESULTS / f"{name}.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
