"""Aligned panes on Spark agree with the row operator, several windows with each alone, and a batch with a stream."""

from __future__ import annotations

import random
from datetime import datetime, timedelta, timezone
from itertools import groupby

import pyarrow as pa
import pytest

import panestream as pst
from panestream import agg
from panestream.errors import InvalidPlanError, SinkError
from panestream.testing import MicroBatches

# Random rows may be late, and .main warns about its columns.
pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::panestream.errors.PanestreamWarning")]

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
SCHEMA = "user string, ts timestamp, price bigint"
AGGREGATES = (agg.count().alias("n"), agg.sum("price").alias("total"), agg.last("price").alias("latest"))
HOUR, MINUTES = "60 seconds", "10 seconds"
SLIDING = pst.SlidingEventTimeWindows.of(HOUR, MINUTES)


def rows(seed, count, begin):
    rng = random.Random(seed)
    made = []
    for number in range(count):
        late = rng.choice([0, 0, 0, 30, 200])
        at = START + timedelta(seconds=begin + number - rng.randint(0, 5) - late)
        made.append((rng.choice(["ann", "bob", None]), at, seed * 1000 + number))
    return made


@pytest.fixture
def clicks(spark, tmp_path):
    """Four micro-batches. The last has a row so far ahead that everything closes."""
    made = MicroBatches(spark, tmp_path / "clicks", SCHEMA)
    for seed in range(3):
        made.add(rows(seed, 60, 60 * seed))
    return made.add([("zoe", START + timedelta(days=1), 0)])


def keyed(df, delay="5 seconds"):
    strategy = pst.WatermarkStrategy.for_bounded_out_of_orderness(delay)
    return pst.stream(df).assign_timestamps("ts", strategy).key_by("user")


def streamed(result, folder, tag="main"):
    """Return the sorted rows of an output by micro-batch."""
    result.start(**{tag: pst.ParquetSink(f"{folder}/{tag}")}, checkpoint=f"{folder}/c").await_termination()
    schema = result.output(tag).schema.add("batch_id", "integer")
    found = result.main.sparkSession.read.schema(schema).parquet(f"{folder}/{tag}").collect()
    return sorted(found, key=lambda row: row.batch_id)


def last_of_each(found):
    """Return the last row of each key, window and micro-batch, which columnar operators emit."""
    return {(row.batch_id, row.user, row.window_start, row.window_end): tuple(row) for row in found}


@pytest.mark.parametrize(
    ("assigner", "trigger"),
    [
        (SLIDING, None),
        (pst.SlidingEventTimeWindows.of(HOUR, "7 seconds"), pst.ContinuousEventTimeTrigger.of("20 seconds")),
        # tests/comparison covers the other cases without Spark.
        (pst.CumulatingEventTimeWindows.of(HOUR, MINUTES), None),
    ],
    ids=["sliding", "continuous", "cumulating"],
)
def test_panes_on_spark_agree_with_the_row_operator(clicks, tmp_path, assigner, trigger):
    windowed = keyed(clicks.stream()).window(assigner).allowed_lateness("1 minute")
    windowed = windowed if trigger is None else windowed.trigger(trigger)
    columnar, row = windowed.aggregate(*AGGREGATES), windowed.options(every_firing=True).aggregate(*AGGREGATES)
    assert (columnar.operator.name, row.operator.name) == ("aligned panes", "row operator")
    found = streamed(columnar, tmp_path / "columnar")
    assert last_of_each(found) == last_of_each(streamed(row, tmp_path / "row"))
    assert len(found) == len(last_of_each(found)) > len({one[1:] for one in last_of_each(found)})


def test_changelog_on_spark_applied_to_a_table_gives_the_last_results(clicks, tmp_path):
    windowed = keyed(clicks.stream()).window(SLIDING).allowed_lateness("1 minute")
    changes = streamed(windowed.aggregate(*AGGREGATES).changelog().with_firing(), tmp_path / "changes")
    table = {}
    for _, batch in groupby(changes, key=lambda row: row.batch_id):
        # The two rows of a change need not be adjacent in a file. A micro-batch is applied at once, like MERGE.
        applied = dict(table)
        for row in batch:
            place, values = (row.user, row.window_start, row.window_end), (row.n, row.total, row.latest, row.firing_number)
            if row.op == "update_before":
                assert table[place] == values
            else:
                assert (place in table) == (row.op == "update_after")
                applied[place] = values
        table = applied
    exact = streamed(windowed.options(every_firing=True).aggregate(*AGGREGATES), tmp_path / "row")
    expected = {(row.user, row.window_start, row.window_end): (row.n, row.total, row.latest) for row in exact}
    assert {place: values[:3] for place, values in table.items()} == expected
    assert {row.firing for row in changes} == {"on_time", "late"}


def test_several_windows_on_spark_agree_with_each_alone(clicks, tmp_path):
    kinds = {
        "short": pst.TumblingEventTimeWindows.of(MINUTES),
        "long": SLIDING,
        "so far": pst.CumulatingEventTimeWindows.of(HOUR, MINUTES),
    }
    together = streamed(keyed(clicks.stream()).windows(kinds).aggregate(*AGGREGATES), tmp_path / "together")
    for label, assigner in kinds.items():
        alone = streamed(keyed(clicks.stream()).window(assigner).aggregate(*AGGREGATES), tmp_path / label.replace(" ", ""))
        of_label = [row.asDict() for row in together if row.window == label]
        for row in of_label:
            del row["window"]
        # A row may be late for one kind of windows and not for another. It is then not late, and counts in the windows that
        # accept it.
        assert sorted(map(str, of_label)) == sorted(str(row.asDict()) for row in alone)


def test_batch_of_panes_agrees_with_the_stream_without_late_rows(clicks, tmp_path):
    def result(df):
        windows = pst.SlidingEventTimeWindows.of("60 seconds", "1 second"), pst.TumblingEventTimeWindows.of("7 seconds")
        return keyed(df, "10 minutes").window(*windows).aggregate(*AGGREGATES)

    stream = [tuple(row)[:-1] for row in streamed(result(clicks.stream()), tmp_path / "stream")]
    batch = [tuple(row) for row in result(clicks.batch()).main.collect() if row.user != "zoe"]
    assert sorted(stream, key=str) == sorted(batch, key=str)
    assert {row[1] for row in stream} == {"1 minute / 1 second", "7 seconds"}


def test_processing_time_panes_agree_with_the_row_operator(clicks, tmp_path):
    def result(exact):
        stream = pst.stream(clicks.stream()).processing_time_from("ts").key_by("user")
        windowed = stream.window(pst.SlidingProcessingTimeWindows.of("2 minutes", "30 seconds"))
        windowed = windowed.trigger(pst.triggers.ContinuousProcessingTimeTrigger.of("20 seconds"))
        return (windowed.options(every_firing=True) if exact else windowed).aggregate(*AGGREGATES[:2])

    assert result(exact=False).operator.name == "aligned panes"
    found = last_of_each(streamed(result(exact=False), tmp_path / "columnar"))
    assert found == last_of_each(streamed(result(exact=True), tmp_path / "row"))
    assert found


def per_window(key, window, table):
    return pa.table(
        {
            "n": [table.num_rows],
            "total": [pa.compute.sum(table["price"]).as_py()],
            "latest": table["price"].slice(table.num_rows - 1),
        }
    )


def in_pandas(key, window, frame):
    return frame.assign(n=len(frame), total=frame["price"].sum(), latest=frame["price"].iloc[-1])[["n", "total", "latest"]].tail(
        1
    )


def at_once(table):
    by = ["user", "window_start", "window_end"]
    found = table.group_by(by, use_threads=False).aggregate([("price", "count"), ("price", "sum"), ("price", "last")])
    return found.rename_columns({"price_count": "n", "price_sum": "total", "price_last": "latest"})


def over_rows(key, window, rows):
    return [(len(rows), sum(row.price for row in rows), rows[-1].price)]


def with_context(key, context, rows):
    context.output("seen", context.window().end)
    return over_rows(key, context.window(), rows)


def test_functions_over_rows_of_every_shape_agree(clicks, tmp_path):
    pytest.importorskip("pandas")
    windowed = keyed(clicks.stream()).window(SLIDING)
    schema = "n bigint, total bigint, latest bigint"
    shapes = {
        "rows": windowed.apply(over_rows, schema),
        "arrow": windowed.apply_arrow(per_window, schema),
        "pandas": windowed.apply_in_pandas(in_pandas, schema),
        "all": windowed.apply_arrow(at_once, schema, all_windows=True),
        "process": windowed.side_output("seen", "till bigint").process(with_context, schema, stateless=True),
    }
    expected = streamed(windowed.options(every_firing=True).apply(over_rows, schema), tmp_path / "row")
    assert expected
    for name, result in shapes.items():
        assert result.operator.name == "accumulating panes"
        found = streamed(result, tmp_path / name)
        assert sorted(map(str, found)) == sorted(map(str, expected)), name
    seen = shapes["process"].start(
        main=pst.ParquetSink(str(tmp_path / "main")), seen=pst.ParquetSink(str(tmp_path / "seen")), checkpoint=str(tmp_path / "c")
    )
    seen.await_termination()
    till = clicks.stream().sparkSession.read.parquet(str(tmp_path / "seen")).collect()
    assert sorted(row.till for row in till) == sorted(int(row.window_end.timestamp()) * 1_000_000 for row in expected)


def test_merge_sink_runs_sql_and_refuses_a_table_without_merge(spark, tmp_path):
    sink = pst.MergeSink("merged_clicks", ["user"])
    columns = ["user", "window", "window_start", "window_end", "n", "op"]
    parser = spark._jsparkSession.sessionState().sqlParser()
    assert "MergeIntoTable" in parser.parsePlan(sink.statement(columns)).toString()
    assert "MergeIntoTable" in parser.parsePlan(sink.statement(columns[:-1])).toString()
    df = spark.createDataFrame([("ann", 1, "insert")], "user string, n bigint, op string")
    with pytest.raises(SinkError, match="does not support MERGE"):
        sink.write(df, 0)
    with pytest.raises(SinkError, match="no key column 'item'"):
        pst.MergeSink("merged_clicks", ["item"]).check_columns(df.columns)


def test_unsupported_options_of_panes_are_refused(clicks):
    several = keyed(clicks.stream()).window(SLIDING, pst.TumblingEventTimeWindows.of(HOUR))
    with pytest.raises(InvalidPlanError, match="aligned panes only"):
        several.trigger(pst.CountTrigger.of(3)).aggregate(*AGGREGATES)
    row = keyed(clicks.stream()).window(SLIDING).apply(lambda key, window, rows: [len(rows)], "n bigint")
    with pytest.raises(InvalidPlanError, match="changelog"):
        row.changelog()
    at_once_only = keyed(clicks.stream()).window(SLIDING).apply_arrow(at_once, "n bigint", all_windows=True)
    with pytest.raises(InvalidPlanError, match="do not number firings: the row operator does"):
        at_once_only.with_firing()
    with pytest.raises(InvalidPlanError, match="do not keep results that a later result could replace"):
        at_once_only.changelog()  # the row operator does not support it either, so it is not a way out
    beside = {"a": pst.TumblingEventTimeWindows.of("10 minutes", "1 second"), "b": pst.TumblingEventTimeWindows.of("10 minutes")}
    assert "one between any two edges of windows" in keyed(clicks.stream()).windows(beside).aggregate(*AGGREGATES).explain()
    assert "shared" in several.aggregate(*AGGREGATES).explain()


def test_row_operator_on_spark_labels_firings(clicks, tmp_path):
    row = keyed(clicks.stream()).window(SLIDING).allowed_lateness("10 minutes").options(every_firing=True).aggregate(*AGGREGATES)
    found = streamed(row.with_firing(), tmp_path / "row")
    numbers: dict[tuple, int] = {}
    for one in sorted(found, key=lambda row: (str(row.user), row.window_start, row.firing_number)):
        place = one.user, one.window_start
        assert one.firing_number == numbers.get(place, 0)
        # A window whose first row of a key came after its end starts with a late firing.
        assert one.firing == "late" or (one.firing == "on_time" and one.firing_number == 0)
        numbers[place] = one.firing_number + 1
    assert max(numbers.values()) > 1
    assert {one.firing for one in found} == {"on_time", "late"}
