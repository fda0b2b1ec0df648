"""Columnar count windows: their state, their output, and the queries that they leave to the row operator."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from panestream.engine.explain import explain_plan
from panestream.engine.operators.counts import CountShape
from panestream.engine.operators.row.spec import RowSpec
from panestream.engine.plan import Chunk, WindowQuery
from panestream.engine.planner import plan_aggregates
from panestream.engine.rule import PYTHON
from panestream.engine.storage.state import MemoryState
from panestream.errors import PlanMismatchError
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import GlobalWindows, TumblingEventTimeWindows
from panestream.windowing.assigners.global_windows import CountWindows
from panestream.windowing.evictors import CountEvictor, TimeEvictor
from panestream.windowing.functions import applied
from panestream.windowing.triggers import CountTrigger, PurgingTrigger
from tests.comparison import harness, savepoints

pytestmark = pytest.mark.usefixtures("values_apart")

LIST = (agg.collect_list("v").alias("all"),)


def query(size, slide=None, aggregates=LIST):
    return harness.Query(WindowQuery(*CountWindows(size, slide).parts), aggregates)


def batch(*values, end=False, key="a"):
    return harness.MicroBatch([[(key, number, value, None, 0) for number, value in enumerate(values)]], end=end)


def fired_values(emitted):
    return [values[0] for _, values in emitted.fired]


def test_tumbling_count_window_fires_at_every_n_rows():
    emitted = harness.run(query(3).columnar(), [batch(1, 2), batch(3, 4, 5, 6, 7), batch(8, end=True)])
    assert [list(map(sorted, fired_values(output))) for output in emitted] == [[], [[1, 2, 3], [4, 5, 6]], []]


def test_sliding_count_window_fires_the_last_n_rows_at_every_slide():
    emitted = harness.run(query(5, 2).columnar(), [batch(1, 2, 3), batch(4, 5, 6), batch(7, 8)])
    assert [list(map(sorted, fired_values(output))) for output in emitted] == [
        [[1, 2]],
        [[1, 2, 3, 4], [2, 3, 4, 5, 6]],
        [[4, 5, 6, 7, 8]],
    ]


def test_count_trigger_without_purge_fires_all_rows_again():
    windowing = WindowQuery(GlobalWindows.create(), CountTrigger.of(2))
    plan = harness.Query(windowing, (agg.sum("v").alias("total"),)).columnar()
    emitted = harness.run(plan, [batch(1, 2, 3, 4, 5), batch(6), batch(7)])
    assert [fired_values(output) for output in emitted] == [[10], [21], []]


def of_keys(keys, first=0):
    """Return numbered rows of these keys. The newest row has the smallest event time."""
    return harness.MicroBatch([[(key, -number, number, None, number) for number, key in enumerate(keys, first)]])


SUMS = (agg.count().alias("n"), agg.first("v").alias("first"), agg.sum("v").alias("total"))
A, B, C = (("a", None, None), ("b", None, None), ("c", None, None))


@pytest.mark.parametrize(
    ("windowing", "expected"),
    [
        (
            WindowQuery(*CountWindows(3, 2).parts),
            [
                {A: [(2, 2, 2), (3, 7, 13)], B: [(2, 5, 6)], C: [(2, 6, 9)]},
                {},
                {A: [(3, 11, 26)], B: [(3, 13, 27)], C: [(3, 12, 28)]},
            ],
        ),
        (
            WindowQuery(GlobalWindows.create(), CountTrigger.of(2)),
            [{A: [(4, 7, 13)], B: [(2, 5, 6)], C: [(2, 6, 9)]}, {}, {A: [(6, 11, 32)], B: [(4, 13, 28)], C: [(4, 12, 31)]}],
        ),
        (
            WindowQuery(GlobalWindows.create(), CountTrigger.of(1), CountEvictor.of(1)),
            [
                {A: [(1, n, n) for n in (0, 2, 4, 7, 8)], B: [(1, n, n) for n in (1, 5, 9)], C: [(1, n, n) for n in (3, 6)]},
                {C: [(1, 10, 10)]},
                {A: [(1, 11, 11)], B: [(1, 13, 13)], C: [(1, 12, 12)]},
            ],
        ),
    ],
    ids=["the last rows", "all rows", "each row"],
)
def test_each_key_counts_its_own_rows(windowing, expected):
    """A key without new rows keeps its state. The windows of a key come in order."""
    batches = [of_keys("abacabcaab"), of_keys("c", 10), of_keys("acb", 11)]
    results = []
    for emitted in harness.run(harness.Query(windowing, SUMS).columnar(), batches):
        results.append({})
        for place, values in emitted.fired:
            results[-1].setdefault(place, []).append(values)
    assert results == expected


def test_open_panes_are_saved_shown_and_restored():
    plan = query(3, 2, SUMS).columnar()
    stopped, started = savepoints.Query(plan, 1), savepoints.Query(plan, 1)
    stopped.run(of_keys("abacabcaab"))
    (saved,) = stopped.tables()
    names = ["key 0", "pane", "rows", "#0.value", "#0.by", "#1.sum"]
    assert sorted(tuple(row[name] for name in names) for row in saved.table("panes").to_pylist()) == [
        ("a", -1, 1, 7, -7, 7),
        ("a", 0, 1, 8, -8, 8),
        ("b", -1, 1, 5, -5, 5),
        ("b", 0, 1, 9, -9, 9),
        ("c", -1, 1, 6, -6, 6),
    ]
    assert saved.header["counters"] == {}
    assert [list(partial["columns"]) for partial in saved.header["partials"]] == [
        ["#0.value", "#0.by"],
        ["#1.sum", "#1.high"],
        ["#2.n"],
    ]
    windows = plan.operator.views(plan, saved, 0).windows.to_pylist()
    assert {row["key"]["key"]: (row["rows"], tuple(row["results"].values())) for row in windows} == {
        "a": (2, (2, 8, 15)),
        "b": (2, (2, 9, 14)),
        "c": (1, (1, 6, 6)),
    }
    started.restore([saved])
    assert started.tables()[0].table("panes").sort_by("key 0").equals(saved.table("panes").sort_by("key 0"))
    (emitted,) = harness.run(plan, [of_keys("d", 10)], started.states[0])
    assert emitted.metrics.kept_windows == 4


def test_count_windows_may_change_aggregates_on_restore():
    assert query(3).columnar().operator.changeable == {"aggregates", "partials"}


def test_only_open_panes_are_kept():
    state = MemoryState()
    plan = query(4, 2, (agg.count().alias("n"),)).columnar()
    for _ in range(5):
        (output,) = harness.run(plan, [batch(*range(101))], state)
    storage = plan.operator.for_group(plan, state, 0)._storage
    assert storage.read(np.ones(len(storage.index), np.bool_))["rows"].to_pylist() == [2, 1]
    assert output.metrics.state_calls == 6
    assert output.metrics.kept_windows == 1, "of one key"


def test_incomplete_count_window_does_not_fire_at_the_end_of_input():
    (output,) = harness.run(query(3).columnar(), [batch(1, 2, 3, 4, end=True)])
    assert len(fired_values(output)) == 1


def test_state_of_count_windows_of_another_size_is_refused():
    state = MemoryState()
    harness.run(query(4, 2).columnar(), [batch(1)], state)
    with pytest.raises(PlanMismatchError, match="count windows: at every 2 rows of a key the last 4"):
        harness.run(query(4, 3).columnar(), [batch(1)], state)


def test_count_windows_without_keys_and_inputs():
    plan = harness.plan_for(
        plan_aggregates(WindowQuery(*CountWindows(2).parts), (agg.count().alias("n"),), {}, pa.schema([])), query(2).windowing
    )
    plan, group_input = replace(plan, keys=(), key_schema=pa.schema([])), harness.GroupInput(end_of_input=True)
    for kind, part in plan.operator.pack(plan, Chunk(np.arange(5), [], [])):
        group_input.parts.setdefault(kind, []).append(part)
    output = plan.operator.for_group(plan, MemoryState(), 0).process(group_input)
    assert output.tables[0][1]["n"].to_pylist() == [2, 2]


@pytest.mark.parametrize(("size", "slide"), [(6, 3), (6, 4), (5, 2), (7, 7), (7, 1), (9, 5), (100, 7)])
def test_count_window_consists_of_whole_panes(size, slide):
    shape, rows = CountShape(size, slide), np.arange(-3 * size, 3 * size)
    panes = dict(zip(rows.tolist(), shape.panes_of(rows).tolist(), strict=True))
    assert panes[0] == 0
    assert panes[-1] == -1
    for end in range(0, 2 * size, slide):
        inside = [panes[row] for row in range(end - size, end)]
        assert panes[end - size - 1] < inside[0]
        assert inside[-1] < panes[end]
        assert inside[-1] - inside[0] + 1 == shape.panes_per_window
        assert panes[end] == end // slide * shape.panes_per_slide


@pytest.mark.parametrize(
    ("windowing", "reason"),
    [
        (WindowQuery(*CountWindows(3).parts, every_firing=True), "every firing was asked for"),
        (WindowQuery(*CountWindows(2, 3).parts), "windows with fewer rows than between two firings"),
        (WindowQuery(GlobalWindows.create()), "with a CountTrigger only"),
        (
            WindowQuery(GlobalWindows.create(), CountTrigger.of(2), TimeEvictor(3)),
            "an evictor other than the one of count windows",
        ),
        (WindowQuery(GlobalWindows.create(), CountTrigger.of(2), CountEvictor.of(3, True)), "an evictor other than"),
        (WindowQuery(GlobalWindows.create(), PurgingTrigger.of(CountTrigger.of(2)), CountEvictor.of(3)), "an evictor other than"),
        (WindowQuery(TumblingEventTimeWindows(10), CountTrigger.of(2)), "CountTrigger.of(2)"),
    ],
)
def test_count_windows_that_need_the_row_operator(windowing, reason):
    operator = plan_aggregates(windowing, (agg.count().alias("n"),), {}, harness.KEYS)
    assert isinstance(operator, RowSpec)
    assert any(reason in other for other in operator.reasons)


def test_function_after_count_windows_needs_the_row_operator():
    then = applied(lambda key, window, rows: rows)
    operator = plan_aggregates(query(3).windowing, (agg.count().alias("n"),), {}, harness.KEYS, then, harness.KEYS)
    assert isinstance(operator, RowSpec)
    assert operator.reasons == (PYTHON,)


@pytest.mark.parametrize(
    ("trigger", "evictor", "shape"),
    [
        (PurgingTrigger.of(CountTrigger.of(3)), None, CountShape(3, 3)),
        (CountTrigger.of(3), None, CountShape(None, 3)),
        (CountTrigger.of(3), CountEvictor.of(3), CountShape(3, 3)),
        (CountTrigger.of(3), CountEvictor.of(4), CountShape(4, 3)),
        (CountTrigger.of(1), CountEvictor.of(1), CountShape(1, 1)),
        (CountTrigger.of(0), None, CountShape(None, 1)),
    ],
)
def test_triggers_and_evictors_that_run_as_columnar_count_windows(trigger, evictor, shape):
    operator = harness.Query(WindowQuery(GlobalWindows.create(), trigger, evictor), LIST).columnar().operator
    assert (operator.name, operator.shape) == ("counts", shape)


def test_explain_describes_count_windows():
    text = explain_plan(query(100, 7).columnar(), streaming=True, chosen=None)
    for words in (
        "counts",
        "at every 7 rows of a key the last 100",
        "2 to a slide, 29 to a window",
        "unreduced",
        "by hash of the key",
    ):
        assert words in text
    assert "every 5 rows of a key, each in one window" in explain_plan(query(5).columnar(), streaming=False, chosen=None)
