"""The row operator on Spark by the fluent API: triggers, evictors, lateness, user functions and their contexts."""

from __future__ import annotations

import json
import time
from datetime import datetime, timedelta, timezone

import pytest
from pyspark.sql import functions as F

import panestream as pst
from panestream import agg
from panestream.errors import InvalidPlanError
from panestream.spark.operator import dataflow
from panestream.testing import MicroBatches
from panestream.windowing.assigners import merge_touching

# Late rows are dropped on purpose.
pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::panestream.errors.PanestreamWarning")]

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
MICROS = int(START.timestamp()) * 1_000_000
SCHEMA = "user string, at timestamp, price bigint"
MONOTONOUS = pst.WatermarkStrategy.for_monotonous_timestamps()


def at(seconds):
    return START + timedelta(seconds=seconds)


def row(user, seconds, price):
    return user, at(seconds), price


def tens(**options):
    return pst.TumblingEventTimeWindows.of("10 seconds", **options)


def keyed(df, strategy=MONOTONOUS):
    return pst.stream(df).assign_timestamps("at", strategy).key_by("user")


def seconds_of(instant):
    """Return seconds of a time. Spark returns local times without a zone, and None for the bounds of global windows."""
    return None if instant is None else int((instant.astimezone(timezone.utc) - START).total_seconds())


def shown(rows):
    """Return key, start and end in seconds, and the other columns."""
    return sorted(((one[0], seconds_of(one[1]), seconds_of(one[2]), *one[3:]) for one in rows), key=repr)


def run(result, checkpoint, *tags):
    """Run until the input ends. Return the output of each micro-batch."""
    sinks = {tag: pst.MemorySink() for tag in tags or ["main"]}
    result.start(checkpoint=str(checkpoint), **sinks).await_termination()
    found = [{number: rows for number, rows in sink.batches.items() if rows} for sink in sinks.values()]
    return found if tags else {number: shown(rows) for number, rows in found[0].items()}


def test_row_operator_with_all_features_survives_a_restart(spark, tmp_path):
    """Evictor, lateness, late rows, a side output, state per window and per key, with a restart after the first micro-batch."""
    firings = pst.state.ValueStateDescriptor("firings")

    def bump(store):
        state = store.get_state(firings)
        state.update((state.value() or 0) + 1)
        return state.value()

    class Prices(pst.ProcessWindowFunction):
        def process(self, key, context, elements):
            total = sum(element.price for element in elements)
            if total > 5:
                context.output("alerts", (f"{key}: {total}", len(elements)))
            now = datetime.fromtimestamp(context.current_processing_time() / 1e6, timezone.utc)
            recent = abs(datetime.now(timezone.utc) - now) < timedelta(minutes=10)
            watermark = (context.current_watermark() + 1 - MICROS) // 1_000_000
            yield len(elements), total, bump(context.window_state()), bump(context.global_state()), watermark, recent

    rows = MicroBatches(spark, tmp_path / "in", SCHEMA)

    def result():
        windows = keyed(rows.stream()).window(tens()).evictor(pst.evictors.CountEvictor.of(2)).allowed_lateness("10 seconds")
        windows = windows.side_output_late_data("late").side_output("alerts", "message string, n int")
        return windows.process(Prices(), "n int, total bigint, of_window int, of_key int, watermark int, recent boolean")

    rows.add([row("ann", 1, 1), row("ann", 2, 2), row("ann", 3, 3), row("bob", 4, 4)])
    before = run(result(), tmp_path / "checkpoint", "main", "late", "alerts")
    assert before == [{}, {}, {}]
    rows.add([row("ann", 12, 5)])  # the first windows close
    rows.add([row("ann", 5, 6), row("zed", 25, 7)])  # late, but within the allowed lateness; then the first windows are removed
    rows.add([row("ann", 6, 8), row("bob", 31, 9)])  # too late
    main, late, alerts = run(result(), tmp_path / "checkpoint", "main", "late", "alerts")
    assert {number: shown(found) for number, found in main.items()} == {
        1: [("ann", 0, 10, 2, 5, 1, 1, 12, True), ("bob", 0, 10, 1, 4, 1, 1, 12, True)],
        2: [("ann", 0, 10, 2, 9, 2, 2, 12, True), ("ann", 10, 20, 1, 5, 1, 3, 25, True)],
        3: [("zed", 20, 30, 1, 7, 1, 1, 31, True)],
    }
    assert {number: [(one.user, seconds_of(one.at), one.price) for one in found] for number, found in late.items()} == {
        3: [("ann", 6, 8)]
    }
    assert {number: shown(found) for number, found in alerts.items()} == {
        2: [("ann", 0, 10, "ann: 9", 2)],
        3: [("zed", 20, 30, "zed: 7", 1)],
    }


class Mean(pst.AggregateFunction):
    """Accumulate a tuple. The result is None without values."""

    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return (accumulator[0] + value.price, accumulator[1] + 1) if value["price"] is not None else accumulator

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1] if accumulator[1] else None


class ByParity(pst.windows.WindowAssigner):
    """Assign two windows to each row: its own ten seconds, and one for the parity of the price."""

    is_event_time = True

    def assign_windows(self, element, timestamp, processing_time):
        start = timestamp - timestamp % 10_000_000
        odd = (element.price or 0) % 2
        return [
            pst.windows.TimeWindow(start, start + 10_000_000),
            pst.windows.TimeWindow(MICROS + odd * 100_000_000, MICROS + 200_000_000),
        ]


def function_queries(df):
    """Return a query for each way to pass a function, by name, over the same windows."""

    def longest(key, context, elements):
        yield {"n": len(elements), "label": f"{key} {elements[0][0]} {elements[-1]['price']}"}

    def spread(key, window, elements):
        found = [element.price for element in elements if element.price is not None]
        return [(max(found) - min(found), window.end - window.start)] if found else []

    windows = keyed(df).window(tens())

    def larger(a, b):
        return a if (a.price or 0) >= (b.price or 0) else b

    return {
        "reduce": windows.reduce(larger),
        "reduce, then": windows.reduce(larger, then=lambda key, context, rows: [rows[0].price], schema="price bigint"),
        "aggregate": windows.aggregate_with(Mean(), schema="mean double"),
        "aggregate, then": windows.aggregate_with(Mean(), then=lambda key, context, means: [str(means[0])], schema="text string"),
        "declared, then": windows.aggregate(
            agg.count().alias("n"),
            agg.sum("price").alias("s"),
            then=lambda key, context, results: [results[0][0] * 100 + (results[0][1] or 0)],
            schema="x bigint",
        ),
        "declared, exact": windows.options(every_firing=True).aggregate(agg.count().alias("n"), agg.max("price").alias("m")),
        "declared": windows.aggregate(agg.count().alias("n"), agg.max("price").alias("m")),
        "apply": windows.apply(spread, schema="spread bigint, micros bigint"),
        "process": windows.process(longest, schema="n int, label string"),
        "count": keyed(df).count_window(2).apply(lambda key, window, rows: [len(rows)], "n int"),
        "own assigner": keyed(df).window(ByParity()).apply(lambda key, window, rows: [len(rows)], "n int"),
        "never": windows.trigger(pst.triggers.NeverTrigger()).apply(lambda key, window, rows: [len(rows)], "n int"),
    }


ANSWERS = {
    "reduce": [("ann", 0, 10, at(3), 5), ("ann", 10, 20, at(11), 3), ("bob", 0, 10, at(4), None)],
    "reduce, then": [("ann", 0, 10, 5), ("ann", 10, 20, 3), ("bob", 0, 10, None)],
    "aggregate": [("ann", 0, 10, 3.0), ("ann", 10, 20, 3.0), ("bob", 0, 10, None)],
    "aggregate, then": [("ann", 0, 10, "3.0"), ("ann", 10, 20, "3.0"), ("bob", 0, 10, "None")],
    "declared, then": [("ann", 0, 10, 206), ("ann", 10, 20, 103), ("bob", 0, 10, 100)],
    "declared, exact": [("ann", 0, 10, 2, 5), ("ann", 10, 20, 1, 3), ("bob", 0, 10, 1, None)],
    "declared": [("ann", 0, 10, 2, 5), ("ann", 10, 20, 1, 3), ("bob", 0, 10, 1, None)],
    "apply": [("ann", 0, 10, 4, 10_000_000), ("ann", 10, 20, 0, 10_000_000)],
    "process": [("ann", 0, 10, 2, "ann ann 5"), ("ann", 10, 20, 1, "ann ann 3"), ("bob", 0, 10, 1, "bob bob None")],
    "count": [("ann", None, None, 2)],
    "own assigner": [
        ("ann", 0, 10, 2),
        ("ann", 10, 20, 1),
        ("ann", 100, 200, 3),
        ("bob", 0, 10, 1),
        ("bob", 0, 200, 1),
    ],
    "never": [],
}


def test_all_ways_to_pass_a_function_give_their_results(spark):
    """All in one query, because each query would take a second."""
    df = spark.createDataFrame([row("ann", 1, 1), row("ann", 3, 5), row("bob", 4, None), row("ann", 11, 3)], SCHEMA).coalesce(1)
    ways = function_queries(df)
    frames = [
        way.main.select(F.lit(name).alias("way"), F.to_json(F.struct("*"), {"ignoreNullFields": "false"}).alias("row"))
        for name, way in ways.items()
    ]
    everything = frames[0]
    for frame in frames[1:]:
        everything = everything.union(frame)
    found = {name: [] for name in ways}
    for one in everything.collect():
        found[one.way].append(tuple(_read(value) for value in json.loads(one.row).values()))
    assert {name: shown(rows) for name, rows in found.items()} == {name: sorted(rows, key=repr) for name, rows in ANSWERS.items()}
    assert ways["declared, exact"].explain().splitlines()[1].split()[1:] == ["row", "operator"]
    assert ways["declared"].explain().splitlines()[1].split()[1:] == ["aligned", "panes"]


def _read(value):
    return datetime.fromisoformat(value.replace("Z", "+00:00")) if isinstance(value, str) and value.startswith("2026-") else value


NOTEBOOK = """
class Pairs(pst.functions.WindowFunction):
    def apply(self, key, window, inputs):
        check(inputs)
        return [[element.price for element in inputs]]
"""


def test_query_continues_after_a_function_raised_without_loss(spark, tmp_path):
    """The functions are defined here, as in a notebook, so workers cannot import them.

    Windows are half full at restarts and at the failure.
    """
    rows = MicroBatches(spark, tmp_path / "in", SCHEMA)
    rows.add([row("ann", 1, 1), row("bob", 2, 2)]).add([row("ann", 3, 13), row("bob", 4, 3), row("ann", 5, 4)])

    def refuse(elements):
        if elements[-1].price == 13:
            raise ValueError("thirteen!")

    def pairs(check):
        notebook = {"__name__": "__main__", "pst": pst, "check": check}
        exec(compile(NOTEBOOK, "notebook.py", "exec"), notebook)
        return keyed(rows.stream()).count_window(2).apply(notebook["Pairs"](), "prices array<bigint>")

    sink = pst.MemorySink()
    query = pairs(refuse).start(main=sink, checkpoint=str(tmp_path / "checkpoint"))
    with pytest.raises(pst.functions.WindowFunctionError) as raised:
        query.await_termination()
    assert (raised.value.key, raised.value.window, raised.value.elements) == ("ann", pst.windows.GlobalWindow(), 2)
    assert 'raise ValueError("thirteen!")' in str(raised.value)
    assert "ValueError: thirteen!" in str(raised.value)
    assert sink.rows == []
    assert [path.name for path in (tmp_path / "checkpoint" / "commits").glob("[0-9]*")] == ["0"]
    rows.add([row("ann", 6, 5)])
    found = run(pairs(lambda elements: None), tmp_path / "checkpoint")
    assert found == {1: [("ann", None, None, [1, 13]), ("bob", None, None, [2, 3])], 2: [("ann", None, None, [4, 5])]}


class Trailing(pst.functions.WatermarkGenerator):
    """Periodic: five seconds before the largest time so far. It only sees the times of one micro-batch."""

    def __init__(self):
        self.largest = None

    def on_event(self, element, timestamp, output):
        self.largest = timestamp if self.largest is None else max(self.largest, timestamp)

    def on_periodic_emit(self, output):
        output.emit_watermark(self.largest - 5_000_000)


class Marks(pst.functions.WatermarkGenerator):
    """Punctuated: a row without a price marks that all earlier rows have come."""

    def on_event(self, element, timestamp, output):
        if element.price is None:
            output.emit_watermark(timestamp)


def test_user_watermark_generators_drive_the_windows(spark, tmp_path):
    rows = MicroBatches(spark, tmp_path / "in", SCHEMA)
    rows.add([row("ann", 1, 1), row("ann", 20, 2)])  # periodic 15 s, punctuated nothing yet
    rows.add(
        [row("ann", 8, 3), row("bob", 12, None)]
    )  # a new generator gives 7 s, but the watermark stays at 15 s; the mark gives 12 s
    rows.add([row("ann", 40, 4)])
    found = {}
    for generator in (Trailing, Marks):
        windows = keyed(rows.stream(), pst.WatermarkStrategy.for_generator(generator)).window(tens())
        result = windows.side_output_late_data("late").apply(
            lambda key, window, rows: [[one.price for one in rows]], "prices array<bigint>"
        )
        main, late = run(result, tmp_path / generator.__name__, "main", "late")
        late_rows = {number: [(one.user, one.price) for one in rows] for number, rows in late.items()}
        found[generator] = {number: shown(rows) for number, rows in main.items()}, late_rows
    assert found[Trailing] == (
        {0: [("ann", 0, 10, [1])], 2: [("ann", 20, 30, [2]), ("bob", 10, 20, [None])]},
        {1: [("ann", 3)]},
    )
    assert found[Marks] == ({1: [("ann", 0, 10, [1, 3])]}, {})


def test_user_assigner_and_trigger_keep_state_over_restarts_and_merges(spark, tmp_path):
    """A merging assigner, and a trigger with a value state and a reducing state."""
    total = pst.state.ReducingStateDescriptor("total", lambda a, b: a + b)
    last = pst.state.ValueStateDescriptor("last")

    class Neighbours(pst.windows.MergingWindowAssigner):
        """Ten seconds each. Adjacent windows with data merge."""

        is_event_time = True

        def assign_windows(self, element, timestamp, processing_time):
            start = timestamp - timestamp % 10_000_000
            return [pst.windows.TimeWindow(start, start + 10_000_000)]

        def merge_windows(self, windows):
            return merge_touching(windows)

    class Steps(pst.triggers.Trigger):
        """Fire at every hundred of the total, when a price doubles, and at the end."""

        def on_element(self, element, timestamp, window, ctx):
            ctx.register_event_time_timer(window.max_timestamp())
            sums, before = ctx.get_partitioned_state(total), ctx.get_partitioned_state(last)
            known = sums.get() or 0
            sums.add(element.price)
            doubled = before.value() is not None and element.price >= 2 * before.value()
            before.update(element.price)
            return (
                pst.triggers.TriggerResult.FIRE
                if doubled or sums.get() // 100 > known // 100
                else pst.triggers.TriggerResult.CONTINUE
            )

        def on_event_time(self, time, window, ctx):
            return pst.triggers.TriggerResult.FIRE if time == window.max_timestamp() else pst.triggers.TriggerResult.CONTINUE

        def on_processing_time(self, time, window, ctx):
            return pst.triggers.TriggerResult.CONTINUE

        def can_merge(self):
            return True

        def on_merge(self, window, ctx):
            ctx.merge_partitioned_state(total)
            ctx.register_event_time_timer(window.max_timestamp())

        def clear(self, window, ctx):
            ctx.get_partitioned_state(total).clear()
            ctx.get_partitioned_state(last).clear()

    rows = MicroBatches(spark, tmp_path / "in", SCHEMA)

    def result():
        windows = keyed(rows.stream(), pst.WatermarkStrategy.for_bounded_out_of_orderness("30 seconds")).window(Neighbours())
        return windows.trigger(Steps()).apply(lambda key, window, rows: [[one.price for one in rows]], "prices array<bigint>")

    rows.add([row("ann", 1, 60), row("ann", 21, 30), row("bob", 2, 5), row("bob", 3, 10)])
    assert run(result(), tmp_path / "checkpoint") == {0: [("bob", 0, 10, [5, 10])]}
    rows.add([row("ann", 12, 15)])  # merges ann's two windows to 105, over the hundred
    rows.add([row("zed", 70, 1)])
    assert run(result(), tmp_path / "checkpoint") == {
        1: [("ann", 0, 30, [60, 30, 15])],
        2: [("ann", 0, 30, [60, 30, 15]), ("bob", 0, 10, [5, 10])],
    }


def test_processing_time_fires_without_new_rows(spark, tmp_path):
    rows = MicroBatches(spark, tmp_path / "in", SCHEMA).add([row("ann", 1, 1), row("bob", 2, 2), row("ann", 3, 3)])
    windows = pst.stream(rows.stream()).key_by("user").window(pst.TumblingProcessingTimeWindows.of("1 second"))
    result = windows.process(lambda key, context, rows: [len(rows)], "n int")
    sink, checkpoint = pst.MemorySink(), str(tmp_path / "checkpoint")
    # One micro-batch, whose windows are still open at its own time.
    result.start(main=sink, checkpoint=checkpoint, trigger={"once": True}).await_termination()
    assert sink.rows == []
    # After a restart, Spark runs nothing until new rows come. From then on the query wakes up by itself.
    rows.add([row("zed", 4, 4)])
    query = result.start(main=sink, checkpoint=checkpoint, trigger={"processingTime": "100 milliseconds"})
    deadline = time.monotonic() + 120
    while len(sink.rows) < 3 and time.monotonic() < deadline and query.is_active:
        time.sleep(0.1)
    query.stop()
    assert {number: sorted((one.user, one.n) for one in found) for number, found in sink.batches.items() if found} == {
        1: [("ann", 2), ("bob", 1)],
        min(number for number in sink.batches if number > 1): [("zed", 1)],
    }


def test_trigger_with_undeclared_processing_time_is_refused(spark, tmp_path):
    class Impatient(pst.CountTrigger):
        def on_element(self, element, timestamp, window, ctx):
            ctx.register_processing_time_timer(ctx.get_current_processing_time() + 60_000_000)
            return super().on_element(element, timestamp, window, ctx)

    rows = MicroBatches(spark, tmp_path / "in", SCHEMA).add([row("ann", 1, 1)])
    result = keyed(rows.stream()).window(tens()).trigger(Impatient(5)).reduce(lambda a, b: a)
    query = result.start(main=pst.MemorySink(), checkpoint=str(tmp_path / "checkpoint"))
    with pytest.raises(InvalidPlanError, match="uses_processing_time"):
        query.await_termination()


def test_staggered_windows_and_windows_over_all_rows(spark):
    df = spark.createDataFrame([row(f"user{n}", n % 10, n) for n in range(40)], SCHEMA).coalesce(1)
    staggered = (
        keyed(df).window(tens(stagger=pst.windows.WindowStagger.RANDOM)).options(key_groups=4).aggregate(agg.count().alias("n"))
    )
    group = F.pmod(F.xxhash64("user"), F.lit(4))
    found = (
        staggered.main.groupBy(group.alias("g"), (F.unix_micros("window_start") % 10_000_000).alias("shift"))
        .agg(F.sum("n"))
        .collect()
    )
    shifts = [pst.windows.WindowStagger.RANDOM.get_stagger_offset(0, 10_000_000, number) for number in range(4)]
    assert sorted((one.g, one["shift"]) for one in found) == list(enumerate(shifts))
    assert len(set(shifts)) == 4
    assert sum(one[2] for one in found) == 40
    source = pst.stream(df).assign_timestamps("at", MONOTONOUS)
    over_all = source.window_all(tens()).process(lambda key, context, rows: [(str(key), len(rows))], "key string, n int")
    assert over_all.plan.groups == 1
    assert [(seconds_of(one.window_start), one["key"], one.n) for one in over_all.main.collect()] == [(0, "()", 40)]
    pairs = source.count_window_all(20).reduce(lambda a, b: b).main.collect()
    assert [one.price for one in pairs] == [19, 39]


def test_processing_time_windows_in_a_batch_and_with_available_now(spark, tmp_path):
    rows = MicroBatches(spark, tmp_path / "in", SCHEMA).add([row("ann", 1, 1), row("bob", 2, 2), row("ann", 3, 3)])

    def by_the_clock(df):
        windows = pst.stream(df).key_by("user").window(pst.ProcessingTimeSessionWindows.with_gap("1 hour"))
        return windows.aggregate(agg.sum("price").alias("total"))

    assert sorted((one.user, one.total) for one in by_the_clock(rows.batch()).main.collect()) == [("ann", 4), ("bob", 2)]
    patient = pst.triggers.ProcessingTimeoutTrigger.of(pst.CountTrigger.of(9), "1 minute")
    waiting = keyed(rows.stream()).window(pst.GlobalWindows.create()).trigger(patient).reduce(lambda a, b: b)
    for result in (by_the_clock(rows.stream()), waiting):
        with pytest.raises(InvalidPlanError, match=r"processingTime.*processing_time_from"):
            result.start(main=pst.MemorySink(), checkpoint=str(tmp_path / "checkpoint"))


@pytest.mark.parametrize(
    ("assigner", "woken"), [(pst.TumblingProcessingTimeWindows, True), (pst.TumblingEventTimeWindows, False)]
)
def test_main_of_a_stream_has_timers_only_for_processing_time_windows(spark, tmp_path, monkeypatch, assigner, woken):
    modes, transform = [], dataflow.transform
    monkeypatch.setattr(dataflow, "transform", lambda *given, **how: modes.append(how["clock"]) or transform(*given, **how))
    rows = MicroBatches(spark, tmp_path / "in", SCHEMA).add([row("ann", 1, 1)])
    result = keyed(rows.stream()).window(assigner.of("1 hour")).aggregate(agg.sum("price").alias("total"))
    assert result.main.columns[-1] == result.output_over(rows.stream(), "main").columns[-1] == "total"
    assert modes == [woken, woken]


def test_wrong_call_on_the_row_operator_is_refused_with_advice(spark, tmp_path):
    df = spark.createDataFrame([row("ann", 1, 1)], SCHEMA)
    windows = keyed(df).window(tens())
    with pytest.raises(InvalidPlanError, match="trigger needs a trigger such as"):
        windows.trigger(pst.CountTrigger)
    with pytest.raises(InvalidPlanError, match="an object, not the class itself"):
        windows.process(pst.ProcessWindowFunction, "n int")
    with pytest.raises(InvalidPlanError, match=r"[Ww]rite \.aggregate_with\(Mean\(\), schema="):
        windows.aggregate(Mean())
    with pytest.raises(InvalidPlanError, match="schema='n bigint"):
        windows.aggregate_with(Mean())
    with pytest.raises(InvalidPlanError, match=r"[Ww]rite \.aggregate\(agg\.count\(\)\)"):
        windows.aggregate_with(pst.agg.count(), "n bigint")
    with pytest.raises(InvalidPlanError, match="outputs have already"):
        windows.apply(lambda key, window, rows: [len(rows)], "user string, n int")
    with pytest.raises(InvalidPlanError, match="needs merge"):
        keyed(df).window(pst.EventTimeSessionWindows.with_gap("1 second")).aggregate_with(Mean(), schema="mean double")
    with pytest.raises(InvalidPlanError, match="assign_timestamps"):
        pst.stream(df).key_by("user").count_window(3).evictor(pst.evictors.TimeEvictor.of("1 second"))
    with pytest.raises(InvalidPlanError, match="other than 'main'"):
        windows.side_output("main", "n int")
    for twice in (
        lambda: windows.side_output_late_data("other").side_output("other", "n int"),
        lambda: windows.side_output("other", "n int").side_output_late_data("other"),
    ):
        with pytest.raises(InvalidPlanError, match="an output 'other' already"):
            twice()
    undeclared = windows.side_output("alarms", "n int").process(lambda key, context, rows: context.output("alarm", 1), "n int")
    with pytest.raises(InvalidPlanError, match=r"side_output\('alarm', schema\); did you mean 'alarms'"):
        undeclared.run(main=pst.ParquetSink(str(tmp_path / "out")), alarms=pst.MemorySink())
