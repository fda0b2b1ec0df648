"""The table in docs/how-to/arrival-order.md of results that depend on the order of arrival, kind by kind. Without Spark.


``PANESTREAM_CASES=2000 pytest tests/comparison/test_arrival_order.py`` draws more; ``PANESTREAM_SEED`` others.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from panestream.engine.operators.accumulating.windowed_rows import TablePerWindow
from panestream.engine.operators.row.contents import AggregateRows, KeepRows, ReduceRows
from panestream.engine.plan import WindowQuery
from panestream.engine.planner import plan_aggregates, plan_functions, plan_table_function
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import (
    EventTimeSessionWindows,
    GlobalWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from panestream.windowing.assigners.global_windows import CountWindows
from panestream.windowing.evictors import CountEvictor, DeltaEvictor, TimeEvictor
from panestream.windowing.functions import AggregateFunction, applied, processed
from panestream.windowing.triggers import ContinuousEventTimeTrigger, CountTrigger, DeltaTrigger, PurgingTrigger
from tests.comparison import harness
from tests.comparison.arrivals import SIZE, Case, batched, random_files, streamed

Found = dict[harness.Place, list[tuple]]
RESULTS = pa.schema([("r", pa.list_(pa.int64()))])


class Listed(agg.ColumnAggregate):
    """A user-defined aggregate that depends on the order: the values as they came."""

    partial_type = result_type = pa.list_(pa.int64())

    def partial(self, values, group, groups):
        return self.merge(pa.array([[value] for value in values[0].to_pylist()], self.partial_type), group, groups)

    def merge(self, partial, group, groups):
        lists = [[] for _ in range(groups)]
        for place, held in zip(group, partial.to_pylist(), strict=True):
            lists[place] += held
        return pa.array(lists, self.partial_type)

    def final(self, partial):
        return partial


class Digits(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return (accumulator * 31 + value.u) % 1_000_003

    def get_result(self, accumulator):
        return ([accumulator],)

    def merge(self, a, b):
        return (a * 31 + b) % 1_000_003


def declared(*aggregates, **windowing) -> Callable[[WindowQuery], Case]:
    def of(windows: WindowQuery) -> Case:
        return Case(windows, plan_aggregates(windows, aggregates, harness.TYPES, harness.KEYS), **windowing)

    return of


def called(function) -> Callable[[WindowQuery], Case]:
    def of(windows: WindowQuery) -> Case:
        results = harness.ROWS if isinstance(function, ReduceRows) else RESULTS
        if isinstance(function, ReduceRows):
            results = pa.schema([column for column in harness.ROWS if column.name != "key"])
        return Case(windows, plan_functions(windows, function, results, harness.ROWS, function, harness.KEYS))

    return of


def rows_of(key, _window, rows):
    return [([row.u for row in rows],)]


def table_of(key, window, table):
    return pa.table({"r": pa.array([table["u"].to_pylist()], RESULTS.types[0])})


def tables(windows: WindowQuery) -> Case:
    return Case(windows, plan_table_function(windows, TablePerWindow(table_of), RESULTS, harness.ROWS, harness.KEYS))


TUMBLING = WindowQuery(TumblingEventTimeWindows(SIZE))
SLIDING = WindowQuery(SlidingEventTimeWindows(SIZE, 4))
SESSIONS = WindowQuery(EventTimeSessionWindows.with_gap("3 microseconds"))
WINDOWS = {
    "tumbling": TUMBLING,
    "sliding": SLIDING,
    "sessions": SESSIONS,
    "tumbling by the row operator": WindowQuery(TUMBLING.assigner, every_firing=True),
    "sessions by the row operator": WindowQuery(SESSIONS.assigner, every_firing=True),
}

FREE = {
    "count": agg.count(), "count(v)": agg.count("v"), "sum of integers": agg.sum("v"), "min": agg.min("v"), "max": agg.max("x"),
    "count_distinct": agg.count_distinct("v"), "top_k": agg.top_k("v", 2), "histogram": agg.histogram("v", [0, 2, 4]),
    "approx_count_distinct": agg.approx_count_distinct("v"),
    # These agree up to rounding.
    "sum of floats": agg.sum("x"), "mean": agg.mean("x"), "var": agg.var("x"), "stddev": agg.stddev("x"),
    "weighted_mean": agg.weighted_mean("x", "v"),
}  # fmt: skip
EQUAL_TIMES = {
    "first": agg.first("u"), "last": agg.last("u"), "first not null": agg.first("v", ignore_nulls=True),
    "last not null": agg.last("v", ignore_nulls=True), "min_by": agg.min_by("u", "v"), "max_by": agg.max_by("u", "v"),
    "arg_min": agg.arg_min("v", "u", "x"), "arg_max": agg.arg_max("v", "u", "x"), "collect_list": agg.collect_list("u"),
    "top_k by": agg.top_k("u", 2, by="v"),
}  # fmt: skip
MORE = {
    *("avg", "approx_quantile", "approx_quantiles", "complete", "user"),
    *("count_if", "bool_and", "bool_or", "median", "percentile", "percentiles", "mode", "entropy", "collect_set"),
    *("corr", "covar_samp", "covar_pop", "regr_slope", "regr_intercept", "regr_r2", "decayed_sum", "decayed_mean"),
    *("hll_sketch", "theta_sketch", "ohlc", "increase", "rate", "time_weighted_mean"),
}
"""Aggregates with another name above, approximate ones, ones that describe another aggregate, those tested below, and those of
which only their own tests show how they depend on the order."""
ELEMENTS = called(KeepRows(applied(rows_of)))
EVICTING = WindowQuery(TUMBLING.assigner, evictor=TimeEvictor.of("3 microseconds"))
GLOBAL = GlobalWindows.create()
ALWAYS: dict[str, Case] = {
    "count windows": declared(agg.sum("u"))(WindowQuery(*CountWindows(2).parts)),
    "sliding count windows": declared(agg.sum("u"), agg.first("u"))(WindowQuery(*CountWindows(4, 2).parts)),
    "count trigger": declared(agg.sum("u"))(WindowQuery(TUMBLING.assigner, CountTrigger.of(2))),
    "purging count trigger": declared(agg.sum("u"))(WindowQuery(TUMBLING.assigner, PurgingTrigger.of(CountTrigger.of(2)))),
    "count trigger on the global window": declared(agg.sum("u"), last=True)(WindowQuery(GLOBAL, CountTrigger.of(2))),
    "delta trigger": ELEMENTS(WindowQuery(GLOBAL, DeltaTrigger.of(2.0**38, lambda old, new: abs(new.u - old.u)))),
    "count evictor": ELEMENTS(WindowQuery(TUMBLING.assigner, evictor=CountEvictor.of(2))),
    "time evictor": ELEMENTS(EVICTING),
    "delta evictor": ELEMENTS(WindowQuery(TUMBLING.assigner, evictor=DeltaEvictor.of(2.0**38, lambda a, b: abs(a.u - b.u)))),
    "apply": ELEMENTS(TUMBLING),
    "apply, sliding": ELEMENTS(SLIDING),
    "apply, sessions": ELEMENTS(SESSIONS),
    "process, sessions": called(KeepRows(processed(rows_of)))(SESSIONS),
    "process": called(KeepRows(processed(rows_of)))(TUMBLING),
    "apply_arrow": tables(TUMBLING),
    "apply_arrow, sessions": tables(SESSIONS),
    "reduce": called(ReduceRows(lambda a, b: a.replace(u=(a.u * 31 + b.u) % 1_000_003)))(TUMBLING),
    "aggregate function": called(AggregateRows(Digits()))(TUMBLING),
    "user": declared(agg.user(Listed(), "u"))(TUMBLING),
}


def pairs(case: Case, most: int, *, equal_times: bool, ordered: bool) -> Iterator[tuple[str, Found, Found]]:
    """Yield for some seeds the output of a stream and of a batch of the same rows, with a text to reproduce it."""
    for seed in range(harness.first_seed(), harness.first_seed() + most):
        files = random_files(random.Random(seed), equal_times=equal_times)
        stream = streamed(case, files, random.Random(seed), ordered=ordered)
        batch = batched(case, files, random.Random(-seed - 1), ordered=ordered)
        yield f"seed {seed}: {case}\n{files}", stream, batch


def check_they_agree(case: Case, *, equal_times: bool, ordered: bool) -> None:
    for what, stream, batch in pairs(case, harness.cases(12), equal_times=equal_times, ordered=ordered):
        wrong = harness.difference(batch, stream)
        assert wrong is None, f"batch against stream: {wrong}\n{what}"


def aggregates(chosen: Mapping[str, agg.Aggregate]) -> list[agg.Aggregate]:
    return [aggregate.alias(name) for name, aggregate in chosen.items()]


@pytest.mark.parametrize("windows", WINDOWS.values(), ids=WINDOWS)
def test_order_insensitive_aggregates_agree_without_an_order(windows):
    case = declared(*aggregates(FREE))(windows)
    # The row operator does not inspect its aggregates.
    assert case.operator.capabilities.order_sensitive == windows.every_firing
    check_they_agree(case, equal_times=True, ordered=False)


def test_time_evictor_alone_does_not_depend_on_the_arrival_order():
    check_they_agree(declared(*aggregates(FREE))(EVICTING), equal_times=True, ordered=False)
    check_they_agree(declared(*aggregates(EQUAL_TIMES))(EVICTING), equal_times=False, ordered=False)


@pytest.mark.parametrize("windows", WINDOWS.values(), ids=WINDOWS)
def test_some_aggregates_depend_on_arrival_order_only_for_equal_event_times(windows):
    case = declared(*aggregates(EQUAL_TIMES))(windows)
    check_they_agree(case, equal_times=False, ordered=False)
    check_they_agree(case, equal_times=True, ordered=True)
    alike = set(EQUAL_TIMES)
    for _, stream, batch in pairs(case, 200, equal_times=True, ordered=False):
        for place in {*stream, *batch}:
            columns = zip(EQUAL_TIMES, stream[place][0], batch[place][0], strict=True)
            alike -= {name for name, one, other in columns if one != other}
        if not alike:
            return
    raise AssertionError(f"these never differed: {alike}")


@pytest.mark.parametrize("windows", WINDOWS.values(), ids=WINDOWS)
@pytest.mark.parametrize("aggregate", EQUAL_TIMES.values(), ids=EQUAL_TIMES)
def test_plan_marks_each_order_sensitive_aggregate(aggregate, windows):
    assert declared(aggregate)(windows).operator.capabilities.order_sensitive


@pytest.mark.parametrize("case", ALWAYS.values(), ids=ALWAYS)
def test_some_kinds_depend_on_arrival_order_for_all_event_times(case):
    assert case.operator.capabilities.order_sensitive
    check_they_agree(case, equal_times=True, ordered=True)
    assert any(harness.difference(batch, stream) for _, stream, batch in pairs(case, 100, equal_times=False, ordered=False))


CONTINUOUS = ContinuousEventTimeTrigger.of("3 microseconds")


@pytest.mark.parametrize("exact", [False, True], ids=["panes", "row operator"])
def test_ends_of_micro_batches_change_early_firings_but_not_the_last(exact):
    windows = WindowQuery(TUMBLING.assigner, CONTINUOUS, every_firing=exact)
    counted = declared(agg.count().alias("n"), agg.sum("v").alias("s"))(windows)
    check_they_agree(replace(counted, last=True), equal_times=True, ordered=False)
    listed = replace(declared(*aggregates(EQUAL_TIMES))(windows), last=True)
    check_they_agree(listed, equal_times=True, ordered=True)
    assert any(harness.difference(batch, stream) for _, stream, batch in pairs(counted, 100, equal_times=False, ordered=True))


def test_ends_of_micro_batches_change_purged_windows():
    case = declared(agg.count())(WindowQuery(TUMBLING.assigner, PurgingTrigger.of(CONTINUOUS)))
    case = replace(case, last=True)
    assert any(harness.difference(batch, stream) for _, stream, batch in pairs(case, 100, equal_times=False, ordered=True))


@pytest.mark.parametrize("windows", [SESSIONS, WINDOWS["sessions by the row operator"]], ids=["sessions", "row operator"])
def test_row_exactly_a_gap_after_a_fired_session_starts_another(windows):
    case = declared(agg.count())(windows)
    first, second = ("a", 0, 1, None, 1), ("a", 3, 1, None, 2)
    other = ("b", 3, 1, None, 3)  # moves time to the end of a's first session, when its second row is just in time
    plan = harness.plan_for(case.operator, windows)
    stream = harness.run(
        plan, [harness.MicroBatch([[first, other]]), harness.MicroBatch([[second]]), harness.MicroBatch([], end=True)]
    )
    (batch,) = harness.run(plan, [harness.MicroBatch([[first, other, second]], end=True)])
    of_a = [place for one in stream for place, _ in one.fired if place[0] == "a"]
    assert of_a == [("a", 0, 3), ("a", 3, 6)]
    assert not any(one.metrics.late_rows for one in stream)
    assert [place for place, _ in batch.fired if place[0] == "a"] == [("a", 0, 6)]


def test_page_of_arrival_order_names_every_kind():
    functions = {name for name in agg.__all__ if name.islower()}
    tried = {aggregate.function for aggregate in (*FREE.values(), *EQUAL_TIMES.values())}
    assert functions - tried == MORE
    page = (Path(__file__).resolve().parents[2] / "docs" / "how-to" / "arrival-order.md").read_text("utf-8")
    named = set(re.findall(r"`([a-z_0-9]+)`", page))
    assert functions <= named
    missing = [name for name in ALWAYS if name.split(",")[0].removeprefix("purging ").removeprefix("sliding ") not in page]
    assert not missing
