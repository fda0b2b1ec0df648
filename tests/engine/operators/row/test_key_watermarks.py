"""A watermark for each key: firing, lateness, idle keys, state, and refused combinations."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

import panestream as pst
from panestream import agg
from panestream.datastream.starting import check_ending
from panestream.engine.inspection.filters import StateFilter, key_arrays
from panestream.engine.inspection.merge import StateOrigin, merge_parts
from panestream.engine.inspection.reduce import reduce_group
from panestream.engine.operators.row.process import process_spec
from panestream.engine.operators.row.spec import RowSpec
from panestream.engine.plan import WindowQuery
from panestream.engine.planner import plan_aggregates
from panestream.engine.storage.state import MemoryState
from panestream.errors import InvalidPlanError, PlanMismatchError
from panestream.spark.savepoint.inspectable_state import lookup
from panestream.tracing.of_state import check_key
from panestream.tracing.why_state import explain_state
from panestream.windowing.watermarks import WatermarkStrategy
from tests.comparison import harness as columns
from tests.comparison.harness import MicroBatch, group_input

pytestmark = pytest.mark.usefixtures("values_apart")

TEN = pst.TumblingEventTimeWindows(10)
STRATEGY = WatermarkStrategy(0, key_idle_after=100)


def harness_of(assigner=TEN, **more):
    more = {"reduce": lambda a, b: a + b, "side_output_late_data": True, "watermark_strategy": STRATEGY, **more}
    return pst.testing.WindowTestHarness(assigner, **more)


def results(harness):
    return [(one.key, one.window.start, one.value) for one in harness.extract_output()]


def micro_batch(harness, *rows):
    """Run a micro-batch of (key, time, value), and return its results and late values."""
    for key, time, value in rows:
        harness.process_element(value, time, key)
    harness.end_micro_batch(1)
    return results(harness), [late.value for late in harness.extract_late_elements()]


def test_progress_of_another_key_neither_fires_nor_makes_late():
    harness = harness_of()
    assert micro_batch(harness, ("van", 5, 1), ("car", 95, 2)) == ([], [])
    assert micro_batch(harness, ("van", 6, 4), ("car", 101, 8)) == ([("car", 90, 2)], [])
    assert micro_batch(harness, ("van", 10, 16)) == ([("van", 0, 5)], [])
    assert micro_batch(harness, ("van", 9, 32)) == ([], [32])


def test_rows_of_a_key_are_judged_by_its_watermark_before_the_micro_batch():
    harness = harness_of()
    assert micro_batch(harness, ("van", 25, 1), ("van", 5, 2)) == ([("van", 0, 2)], [])
    assert micro_batch(harness, ("van", 5, 4), ("van", 45, 8), ("van", 35, 16)) == ([("van", 20, 1), ("van", 30, 16)], [4])


def test_silent_key_fires_once_it_is_idle():
    harness = harness_of()
    micro_batch(harness, ("van", 5, 1))
    assert micro_batch(harness, ("car", 109, 2))[0] == []
    assert micro_batch(harness, ("car", 110, 4))[0] == [("van", 0, 1), ("car", 100, 2)]


def test_row_of_an_idle_key_is_late_only_behind_the_stream_minus_idle_after():
    harness = harness_of()
    micro_batch(harness, ("van", 5, 1), ("car", 200, 2))
    assert micro_batch(harness, ("van", 99, 4), ("van", 100, 8), ("van", 150, 16)) == ([("van", 100, 8)], [4])
    # It is not idle any more, because its own rows put it ahead.
    assert micro_batch(harness, ("van", 139, 32), ("van", 151, 64)) == ([], [32])


def test_new_key_starts_at_the_stream_minus_idle_after():
    harness = harness_of()
    micro_batch(harness, ("car", 200, 1))
    assert micro_batch(harness, ("van", 99, 2), ("van", 100, 4)) == ([], [2])


def test_late_row_of_an_idle_key_refires_its_window_within_allowed_lateness():
    harness = harness_of(allowed_lateness=20)
    assert micro_batch(harness, ("van", 85, 1), ("car", 200, 2))[0] == [("van", 80, 1)]
    assert micro_batch(harness, ("van", 86, 4), ("van", 75, 8), ("van", 5, 16)) == ([("van", 80, 5)], [8, 16])


def test_window_closed_under_a_smaller_lateness_stays_closed_though_its_key_is_idle():
    before, after = harness_of(), harness_of(allowed_lateness=1000)
    micro_batch(before, ("van", 50, 1))
    after.restore(before.snapshot())
    assert micro_batch(after, ("car", 200, 2))[0] == [("van", 50, 1)]
    assert micro_batch(after, ("van", 5, 4), ("van", 55, 8), ("bus", 5, 16)) == ([("van", 50, 9), ("bus", 0, 16)], [4])


def test_idle_key_without_windows_leaves_the_state_without_rows_of_its_page():
    harness = harness_of()
    for number in range(50):
        micro_batch(harness, (f"van {number}", 5, 1), (f"van {number}", 15, 1))
    stored = harness.state_sizes
    harness.snapshot()
    assert stored()["pages"]
    micro_batch(harness, ("car", 125, 1))
    harness.snapshot()
    assert [owner.key for owner in harness._operator.store.all_keys()] == ["car"]
    assert harness.num_key_state_entries() == 0
    harness.end_of_input()
    harness.snapshot()
    assert "pages" not in stored()


def test_times_of_keys_survive_a_restart_between_rows_and_the_end_of_their_micro_batch():
    harness = harness_of()
    micro_batch(harness, ("van", 5, 1), ("car", 60, 2))
    harness.process_element(4, 25, "van")
    harness.restore(harness.snapshot())
    assert harness.current_watermark == -41
    assert micro_batch(harness, ("van", 6, 8), ("car", 61, 16)) == ([("van", 0, 9)], [])


def test_sessions_of_keys_end_by_their_own_watermarks():
    harness = harness_of(pst.EventTimeSessionWindows(10))
    assert micro_batch(harness, ("van", 0, 1), ("car", 50, 2)) == ([], [])
    assert micro_batch(harness, ("van", 8, 4), ("van", 30, 8)) == ([("van", 0, 5)], [])


def test_silence_of_all_input_makes_keys_idle():
    strategy = WatermarkStrategy(0, key_idle_after=100).closing_after("1 millisecond")
    harness = harness_of(watermark_strategy=strategy)
    harness.process_element(1, 5, "van")
    harness.end_micro_batch(1_000)
    harness.end_micro_batch(2_000)
    assert results(harness) == [("van", 0, 1)]


@pytest.mark.parametrize("traced", [False, True])
def test_trigger_and_function_see_the_watermark_of_their_key(traced):
    seen = []

    class Watermarks(pst.functions.ProcessWindowFunction):
        def process(self, key, context, elements):
            seen.append((key, context.current_watermark()))
            return [0]

    harness = harness_of(pst.TumblingEventTimeWindows(10), reduce=None, process=Watermarks(), traced=traced)
    micro_batch(harness, ("van", 15, 1), ("van", 3, 1), ("car", 48, 2), ("car", 31, 2))
    assert sorted(seen) == [("car", 47), ("van", 14)]


def test_explanation_names_the_watermark_of_the_key_that_closed_a_window():
    harness = harness_of(traced=True)
    for rows in ((("van", 5, 1), ("car", 60, 2)), (("van", 15, 4),), (("van", 99, 8),), (("van", 6, 16),)):
        micro_batch(harness, *rows)
    told = str(harness.explain(key="van", row=16))
    assert "when the watermark was 98" in told
    assert "had closed when the watermark came to 14" in told


# ---------------------------------------------------------------- on columns


COUNT = (agg.count().alias("n"),)


def plan_of(window=WindowQuery(TEN, per_key=True), strategy=STRATEGY, **more):  # noqa: B008 - immutable
    operator = plan_aggregates(window, COUNT, columns.TYPES, columns.KEYS)
    return columns.plan_for(operator, window, watermark=strategy, **more)


def run(plan, state, *rows):
    given = [(key, time, 1, 1.0, 1) for key, time in rows]
    return plan.operator.for_group(plan, state, 0).process(group_input(plan, MicroBatch([given])))


def test_aggregates_run_on_the_row_operator_with_the_reason():
    plan = plan_of()
    assert isinstance(plan.operator, RowSpec)
    assert plan.operator.reasons == ("each key has its own watermark",)
    told = plan.operator.explain(plan, streaming=True)["state"][0]
    assert "the newest event time of each key until it is idle" in told


def test_late_rows_are_counted_by_the_watermark_of_their_key():
    plan, state = plan_of(), MemoryState()
    run(plan, state, ("van", 5), ("car", 95))
    metrics = run(plan, state, ("van", 6), ("car", 6)).metrics
    assert (metrics.late_rows, metrics.windowed_rows, metrics.watermark) == (1, 1, 94)


def test_checkpoint_is_tied_to_watermarks_per_key_but_not_to_the_idle_time():
    state = MemoryState()
    run(plan_of(), state, ("van", 5))
    run(plan_of(strategy=replace(STRATEGY, key_idle_after=7)), state, ("van", 6))
    row = WindowQuery(TEN, every_firing=True)
    with pytest.raises(PlanMismatchError, match=r"watermark: per key  ->  \(absent\)"):
        run(plan_of(row, WatermarkStrategy(0)), state, ("van", 6))


def known(plan, state, key=None):
    of_key = {} if key is None else {"keys": key_arrays(plan, key)}
    state_filter = StateFilter(**{"keys": {}, **of_key}, most=10, lists=True)
    part = reduce_group(plan, plan.operator.for_group(plan, state, 0).tables(), 0, state_filter)
    summary = merge_parts(plan, [part], state_filter, StateOrigin("c", 1, None, 0))
    return lookup(plan, summary, "the checkpoint c", **({} if key is None else {"key": key}))


def test_state_shows_and_explains_the_watermark_of_a_key():
    plan, state = plan_of(), MemoryState()
    run(plan, state, ("van", 25), ("car", 195))
    assert [known(plan, state, key).watermark for key in (None, "van", "car", "bus")] == [194, 94, 194, 94]
    run(plan, state, ("van", 145))
    of_van = known(plan, state, "van")
    assert (of_van.watermark, of_van.of_key) == (144, True)
    told = str(explain_state(of_van, key="van", at=139))
    assert "The watermark of the key is at" in told
    assert "Such a row is late" in told
    assert "Such a row is taken" in str(explain_state(of_van, key="van", at=141))
    with pytest.raises(InvalidPlanError, match="each key has its own watermark"):
        check_key(plan, given=False)


# ---------------------------------------------------------------- refused


def bounded():
    return WatermarkStrategy.for_bounded_out_of_orderness("5 seconds")


def of_columns(operator, assigner=TEN):
    return lambda: columns.plan_for(operator, WindowQuery(assigner), watermark=STRATEGY)


def aggregates_over(assigner):
    return lambda: plan_of(WindowQuery(assigner, per_key=True))


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (lambda: bounded().per_key("0 seconds"), "per_key: idle_after must be positive, got '0 seconds'"),
        (lambda: WatermarkStrategy.no_watermarks().per_key("1 hour"), "no_watermarks.. does not. Use for_bounded"),
        (lambda: WatermarkStrategy.for_generator(lambda: None).per_key("1 hour"), "Use for_bounded"),
        (
            lambda: WatermarkStrategy.of_sides({"left": bounded(), "right": bounded().per_key("1 hour")}, "side"),
            "a join of two streams has one watermark for all keys. Leave out per_key on both sides",
        ),
        (lambda: harness_of(pst.TumblingProcessingTimeWindows(10)), "does not end by event time. Leave out per_key"),
        (aggregates_over(pst.TumblingProcessingTimeWindows(10)), "these windows do not end by event time. Leave out per_key"),
        (of_columns(plan_aggregates(WindowQuery(TEN), COUNT, columns.TYPES, columns.KEYS)), "columns have one watermark"),
        (
            of_columns(process_spec(type("P", (pst.functions.KeyedProcessFunction,), {"process_element": lambda s, v, c: None})(),
                       pa.schema([("n", pa.int64())]), columns.ROWS), pst.GlobalWindows.create()),
            "a keyed process function has one watermark for all keys. Leave out per_key",
        ),
        (lambda: check_ending(plan_of(), {"availableNow": True}, fire_at_end=True), "fire_at_end closes windows of all keys"),
        (aggregates_over(pst.LookBackWindows(10)), "have one watermark for all keys: leave out per_key"),
    ],
)  # fmt: skip
def test_combination_without_meaning_is_refused_with_the_reason(made, told):
    with pytest.raises(InvalidPlanError, match=told):
        made()
