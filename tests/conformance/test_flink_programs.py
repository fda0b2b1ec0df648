"""Flink's test programs of windows: the output before and after a restore.

Every row is a micro-batch, followed by a restart. All programs run on the row operator. Declared aggregates also run on columnar
operators, and joins on their own operators. On Spark, the programs of each kind are one query, which stops and starts at the same
rows as in Flink. The table of passing programs is ``docs/coming-from/flink-sql-tests.md``.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import panestream as pst
from panestream import agg
from panestream.engine.operators.row.spec import RowSpec
from panestream.engine.plan import MAIN, Chunk, WindowPlan, WindowQuery
from panestream.engine.planner import plan_aggregates
from panestream.engine.runtime.group_io import GroupInput
from panestream.engine.storage.state import MemoryState
from panestream.errors import InvalidPlanError
from panestream.testing import MicroBatches, WindowTestHarness
from tests.comparison import intervals, joins
from tests.conformance import flink_programs as flink

PAGE = Path(__file__).resolve().parents[2] / "docs" / "coming-from" / "flink-sql-tests.md"
SECOND = 1_000_000
BEHIND = pst.WatermarkStrategy.for_bounded_out_of_orderness("1 second")
PROGRAMS = [pytest.param(program, id=program.names[0]) for program in flink.WINDOWED]


def counts(rows):
    return [(len(rows), sum(row.number for row in rows), len({row.string for row in rows} - {None}))]


def by(column, rows):
    found = {}
    for row in rows:
        found.setdefault(getattr(row, column), []).append(row)
    return found


def first_three(rows, price, most):
    """Return the first three rows. Equal rows keep the order of arrival."""
    return [(*row, rank) for rank, row in enumerate(sorted(rows, key=price, reverse=most)[:3], 1)]


def totals(rows):
    return [(who, sum(row.price for row in its), len(its)) for who, its in by("supplier", rows).items()]


ASKED = {
    "counts": counts,
    "counts by name": lambda rows: [(name, *found) for name, its in by("name", rows).items() for found in counts(its)],
    "rows of a name": lambda rows: [(len(rows),)],
    "rows": lambda rows: [(row.second, row.price, row.item) for row in rows],
    "total": lambda rows: [(sum(row.price for row in rows),)],
    "least": lambda rows: first_three(rows, lambda row: row.price, False),
    "most": lambda rows: first_three(rows, lambda row: row.price, True),
    "least totals": lambda rows: first_three(totals(rows), lambda row: row[1], False),
    "most totals": lambda rows: first_three(totals(rows), lambda row: row[1], True),
    "first": lambda rows: [min(rows, key=lambda row: row.second)],
    "last": lambda rows: [max(rows, key=lambda row: row.second)],
}
"""The functions of a window's rows."""


def answer(program, window, key, found):
    """Return an answer as Flink writes it, with the key only if the program selects it."""
    if program.what == "rows of a name":
        return (key, *found)
    named = (key,) if program.key and program.what == "counts" else ()
    return (*window, *named, *found)


def alike(program, before, after):
    if program.at_once:
        before, after = [], [*before, *after]
    assert Counter(before) == Counter(program.before)
    assert Counter(after) == Counter(program.after)


@pytest.mark.parametrize("program", PROGRAMS)
def test_row_operator_gives_the_answers_of_flinks_programs(program):
    rows = [*program.rows[0], *program.rows[1]]

    def asked(key, window, numbers):
        return ASKED[program.what]([rows[number] for number in numbers])

    harness, found, newest = WindowTestHarness(program.windows, apply=asked), [[], []], 0
    for number, row in enumerate(rows):
        harness.process_element(number, row.second * SECOND, key=getattr(row, program.key) if program.key else "all")
        newest = max(newest, row.second)
        harness.process_watermark((newest - 1) * SECOND - 1)
        later = number >= len(program.rows[0])
        found[later] += harness.extract_output()
        harness.restore(harness.snapshot())
    harness.end_of_input()
    found[1] += harness.extract_output()
    alike(program, *([shown(program, each.window, each.key, each.value) for each in part] for part in found))


def shown(program, window, key, value):
    return answer(program, (window.start // SECOND, window.end // SECOND), key, tuple(value))


# ---------------------------------------------------------------------------------------------------------------------------- as columns

KEYS = pa.schema([("key", pa.string())])
TYPES = {
    "second": pa.int64(),
    "number": pa.int64(),
    "string": pa.string(),
    "price": pa.int64(),
    "item": pa.string(),
    "supplier": pa.string(),
}
BID = ("second", "price", "item", "supplier")
DECLARED = {
    "counts": [agg.count().alias("n"), agg.sum("number").alias("total"), agg.count_distinct("string").alias("different")],
    "rows of a name": [agg.count().alias("n")],
    "total": [agg.sum("price").alias("total")],
    "first": [agg.min_by(name, "second").alias(f"its_{name}") for name in BID],
    "last": [agg.max_by(name, "second").alias(f"its_{name}") for name in BID],
}


@pytest.mark.parametrize("program", [each for each in PROGRAMS if each.values[0].what in DECLARED])
def test_columnar_operators_give_the_answers_of_flinks_programs(program):
    operator = plan_aggregates(WindowQuery(program.windows), DECLARED[program.what], TYPES, KEYS)
    assert not isinstance(operator, RowSpec)
    plan = WindowPlan(("key",), KEYS, program.windows, operator, BEHIND, "ts", 1)
    state, found = MemoryState(), [[], []]
    for later, rows in enumerate(program.rows):
        for row in rows:
            found[later] += output_of(program, plan, state, row)
    found[1] += output_of(program, plan, state, None)
    alike(program, *found)


def output_of(program, plan, state, row):
    """Return the output of a micro-batch of one row, or of the end of the input, from a new operator."""
    batch = GroupInput(end_of_input=row is None)
    if row is not None:
        inputs = [pa.array([getattr(row, name)], TYPES[name]) for name in plan.operator.inputs]
        keys = pa.array([getattr(row, program.key) if program.key else "all"], pa.string())
        for kind, part in plan.operator.pack(plan, Chunk(np.array([row.second * SECOND]), [keys], inputs)):
            batch.parts.setdefault(kind, []).append(part)
        batch.seen, batch.input_rows = {"": row.second * SECOND}, 1
    found = []
    for tag, table in plan.operator.for_group(plan, state, 0).process(batch).tables:
        assert tag == MAIN
        starts, ends = (table[name].cast(pa.int64()).to_numpy() // SECOND for name in ("window_start", "window_end"))
        values = zip(*(table[each.name].to_pylist() for each in DECLARED[program.what]), strict=True)
        for start, end, key, value in zip(starts, ends, table["key"].to_pylist(), values, strict=True):
            found.append(answer(program, (start, end), key, value))
    return found


# --------------------------------------------------------------------------------------------------------------------------------- joins


def one_by_one(sides, later):
    """Alternate the rows of both streams, each a micro-batch."""
    rows = [[joins.Row(side, row.name, row.second * SECOND, row.number) for row in its[later]] for side, its in sides.items()]
    longest = max(map(len, rows))
    return [[[its[at]]] for at in range(longest) for its in rows if at < len(its)]


@pytest.mark.parametrize("program", [pytest.param(program, id=program.name) for program in flink.JOINS])
def test_window_joins_give_the_answers_of_flinks_programs(program):
    plan = joins.Join(WindowQuery(program.windows), program.how, (SECOND, SECOND)).plan()
    state = MemoryState()
    before = joined_rows(joins.found(plan, one_by_one(flink.SIDES, 0), state=state), program.how)
    later = joins.found(plan, one_by_one(flink.SIDES, 1), state=state)
    later += joins.found(plan, [], end=True, state=state)
    assert before == Counter(program.before)
    assert joined_rows(later, program.how) == Counter(program.after)


def joined_rows(batches, how):
    """Return window, key, and the numbers of the left and the right row."""
    found = Counter()
    for batch in batches:
        for (key, start, end), rows in batch.rows.items():
            for row, times in rows.items():
                right = None if how in ("left_semi", "left_anti") else row[2]
                found[(start // SECOND, end // SECOND, key, row[0], right)] += times
    return found


def test_interval_join_gives_the_answers_of_flinks_programs():
    plan = intervals.Interval(-5 * SECOND, 5 * SECOND, "inner", (SECOND, SECOND)).plan()
    state, sides = MemoryState(), {"left": flink.ORDERS, "right": flink.SHIPMENTS}
    for later, expected in enumerate(flink.SHIPPED):
        met = intervals.found(plan, one_by_one(sides, later), state=state)
        assert sorted((row[1], row[3]) for each in met for row in each.rows.elements()) == sorted(expected)


# ------------------------------------------------------------------------------------------------------------------------------ on Spark


def runs(folder, streams, build):
    """Return the rows of ``main`` before and after the restore. The query stops in between, and the last row closes all open
    windows.
    """
    found = []
    for later in (False, True):
        for stream, rows in streams:
            for batch in [rows[1]] if later else [rows[0][:7], rows[0][7:]]:
                stream.add(batch)
        sink = pst.MemorySink()
        result = build(*(pst.stream(stream.stream()).assign_timestamps("ts", BEHIND) for stream, _ in streams))
        result.start(checkpoint=str(folder / "checkpoint"), main=sink).await_termination()
        found.append(sink.rows)
    return found


FAR = 20 * 3600
"""Seconds after the first row at which all windows have ended."""


def of_rows(spark, folder, rows, schema):
    """Make a stream of rows with Spark's timestamps."""
    before, after = ([(flink.at(row.second), *row) for row in part] for part in rows)
    last = (flink.at(FAR), FAR, *[None] * schema.count(","), "the end")
    return MicroBatches(spark, folder, f"ts timestamp, second int, {schema}"), (before, [*after, last])


def bounds(row):
    return tuple(
        round((each.replace(tzinfo=flink.UTC) - flink.MIDNIGHT).total_seconds()) for each in (row.window_start, row.window_end)
    )


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore:.*late row:panestream.errors.PanestreamWarning")
def test_restarted_spark_queries_give_the_answers_of_flinks_programs(spark, tmp_path):
    """Run three queries: counts by name in all aligned windows with split distinct values, sessions by name, and a full join."""
    counted = [program for program in flink.AGGREGATES if program.key]
    aligned = {str(at): program for at, program in enumerate(counted[:-1])}

    def in_windows(stream):
        windows = {name: program.windows for name, program in aligned.items()}
        return stream.key_by("name").windows(windows).options(key_groups=2, split_distinct=2).aggregate(*DECLARED["counts"])

    def in_sessions(stream):
        return stream.key_by("name").window(counted[-1].windows).options(key_groups=2).aggregate(*DECLARED["counts"])

    columns = "number int, string string, name string"
    found = runs(tmp_path / "a", [of_rows(spark, tmp_path / "rows a", flink.COUNTED, columns)], in_windows)
    for name, program in aligned.items():
        its = ([row for row in part if row.window == name] for part in found)
        alike(program, *([(*bounds(row), row.name, row.n, row.total, row.different) for row in part] for part in its))
    found = runs(tmp_path / "b", [of_rows(spark, tmp_path / "rows b", flink.COUNTED, columns)], in_sessions)
    alike(counted[-1], *([(*bounds(row), row.name, row.n, row.total, row.different) for row in part] for part in found))

    def full(left, right):
        windows = left.key_by("name").join(right.key_by("name")).window(flink.JOINS[3].windows).options(key_groups=2)
        return windows.pairs("full", suffixes=("", "_r"))

    sides = [of_rows(spark, tmp_path / side, rows, "number int, name string") for side, rows in flink.SIDES.items()]
    for part, expected in zip(runs(tmp_path / "c", sides, full), (flink.JOINS[3].before, flink.JOINS[3].after), strict=True):
        assert Counter((*bounds(row), row.name, row.number, row.number_r) for row in part) == Counter(expected)


def test_interval_join_with_an_empty_interval_is_refused():
    """Flink's ``interval-join-negative-interval`` has an empty interval."""
    with pytest.raises(InvalidPlanError, match="Swap them"):
        pst.datastream.IntervalJoin(None).between("10 seconds", "5 seconds")


def test_page_lists_all_programs_of_flink():
    assert "\n".join(flink.table()) in PAGE.read_text("utf-8"), "\n".join(flink.table())
