"""Joins and co-groups of two streams on Spark: streams with a restart, batches, and refused plans."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest
from pyspark.sql import functions as F

import panestream as pst
from panestream import agg
from panestream.engine.runtime.sides import SIDES
from panestream.errors import InvalidPlanError
from panestream.testing import MicroBatches
from tests.comparison import as_of, intervals, joins
from tests.comparison.on_spark import EPOCH_MICROS, instant

# Random streams drop late rows, and .main warns about its columns.
pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::panestream.errors.PanestreamWarning")]

LEFT, RIGHT = "key string, ts timestamp, n bigint, name string", "key string, at timestamp, m bigint"
NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
CLICKS, VIEWS = "user string, ts timestamp, url string", "user string, ts timestamp, price double"


def keyed(df, time="ts", delay="1 second", key="user", invalid=None):
    stream = pst.stream(df).assign_timestamps(time, pst.WatermarkStrategy.for_bounded_out_of_orderness(delay))
    return (stream if invalid is None else stream.side_output_invalid(invalid)).key_by(key)


def at(seconds):
    return NOON + timedelta(seconds=seconds)


@pytest.fixture
def clicks(spark):
    return spark.createDataFrame([("ann", at(1), "a"), ("ann", at(2), "b"), ("bob", at(3), "c"), ("ann", at(70), "d")], CLICKS)


@pytest.fixture
def views(spark):
    return spark.createDataFrame([("ann", at(5), 1.5), ("ann", at(59), 2.5), ("eve", at(8), 9.0)], VIEWS)


MINUTES, SESSIONS = pst.TumblingEventTimeWindows.of("1 minute"), pst.EventTimeSessionWindows.with_gap("50 seconds")


# -- compared with the definition -----------------------------------------------------------------------------------------------


def random_case(seed):
    """Return a join, and micro-batches with rows of both sides in each, because Spark skips empty ones."""
    rng = random.Random(seed)
    while True:
        join, span = joins.random_join(rng)
        batches = joins.random_streams(rng, span)
        if len(batches) > 2 and all({row.side for chunk in batch for row in chunk} == set(SIDES) for batch in batches):
            # In one of Spark's micro-batches, all rows of one side come before the other side.
            chunks = [[[row for chunk in batch for row in chunk if row.side == side] for side in SIDES] for batch in batches]
            moved = [[[replace(row, time=row.time + EPOCH_MICROS) for row in chunk] for chunk in batch] for batch in chunks]
            return replace(join, late=True), moved


def joined(join, left, right):
    delays = [timedelta(microseconds=delay) for delay in join.delays]
    streams = keyed(left, "ts", delays[0], "key"), keyed(right, "at", delays[1], "key")
    windows = streams[0].join(streams[1]).window(join.windowing.assigner)
    windows = windows.allowed_lateness(timedelta(microseconds=join.windowing.allowed_lateness))
    return windows.side_output_late_data("late").pairs(join.how)


def count_rows(df, names):
    """Count the rows of each key and window."""
    found = {}
    for row in df.select("key", F.unix_micros("window_start"), F.unix_micros("window_end"), *names).collect():
        found.setdefault(tuple(row[:3]), Counter())[tuple(row[3:])] += 1
    return found


@pytest.mark.parametrize("seed", [1, 2])
def test_restarted_join_of_streams_agrees_with_the_definition(spark, tmp_path, seed):
    join, batches = random_case(seed)
    files = MicroBatches(spark, tmp_path / "left", LEFT), MicroBatches(spark, tmp_path / "right", RIGHT)
    found, late = {}, {side: {} for side in SIDES}
    names = ["n", "name"] if join.how.startswith("left_") else ["n", "name", "m"]

    def into(kept, names):
        return pst.ForeachBatchSink(
            lambda df, batch_id: kept.update({batch_id: count_rows(df, names) if kept is found else df.count()}), idempotent=True
        )

    half = random.Random(seed).randint(1, len(batches) - 1)
    for part in (batches[:half], batches[half:]):
        for left, right in part:
            files[0].add([(row.key, instant(row.time), *row.values) for row in left])
            files[1].add([(row.key, instant(row.time), *row.values) for row in right])
        result = joined(join, files[0].stream(), files[1].stream())
        sinks = {"main": into(found, names), **{f"late_{side}": into(late[side], names) for side in SIDES}}
        result.start(checkpoint=f"{tmp_path}/c", **sinks).await_termination()
    for place, wanted in enumerate(joins.defined(join, batches)):
        assert found.get(place, {}) == wanted.rows, f"micro-batch {place} of {join}\n{batches}"
        for side in SIDES:
            assert late[side].get(place, 0) == len(wanted.late[side]), f"micro-batch {place} of {join}\n{batches}"


@pytest.mark.parametrize("how", joins.HOWS)
def test_batch_join_agrees_with_the_definition(spark, how):
    join, batches = random_case(7)
    join = replace(join, how=how)
    rows = {side: [row for one in batches for chunk in one for row in chunk if row.side == side] for side in SIDES}
    frames = [
        spark.createDataFrame([(row.key, instant(row.time), *row.values) for row in rows[side]], schema)
        for side, schema in zip(SIDES, (LEFT, RIGHT), strict=True)
    ]
    (wanted,) = joins.defined(join, [[rows["left"], rows["right"]]], end=True)
    names = ["n", "name"] if how.startswith("left_") else ["n", "name", "m"]
    assert count_rows(joined(join, *frames).main, names) == wanted.rows


# -- columns -------------------------------------------------------------------------------------------------------------------


def test_join_renames_columns_that_both_streams_have(clicks, views):
    windows = keyed(clicks).join(keyed(views)).window(MINUTES)
    with pytest.raises(
        InvalidPlanError,
        match=r"a column of each stream would be called 'ts' in the results. Distinguish them with \.pairs\(suffixes=",
    ):
        windows.pairs()
    result = windows.pairs("full", suffixes=("", "_view"))
    assert result.main.columns == ["user", "window_start", "window_end", "ts", "url", "ts_view", "price"]
    rows = [(row.user, row.url, row.price) for row in result.main.collect()]
    assert sorted(rows, key=str) == sorted(
        [
            *[("ann", url, price) for url in "ab" for price in (1.5, 2.5)],
            ("ann", "d", None),
            ("bob", "c", None),
            ("eve", None, 9.0),
        ],
        key=str,
    )
    alone = windows.pairs("left_anti").main
    assert alone.columns == ["user", "window_start", "window_end", "ts", "url"]
    assert sorted(row.url for row in alone.collect()) == ["c", "d"]


def test_join_of_keys_with_different_names(clicks, views):
    other = views.withColumnsRenamed({"user": "who", "ts": "seen"})
    result = keyed(clicks).join(keyed(other, "seen", key="who")).window(MINUTES).pairs("right")
    assert result.main.columns == ["user", "window_start", "window_end", "ts", "url", "seen", "price"]
    assert {row.user for row in result.main.collect()} == {"ann", "eve"}
    many = keyed(clicks, key="lower(user) AS user").join(keyed(other, "seen", key="lower(who) AS u")).window(MINUTES)
    assert many.pairs().main.columns == ["user", "window_start", "window_end", "ts", "url", "who", "seen", "price"]


def test_join_with_a_stream_that_has_only_its_key(spark, clicks):
    users = spark.createDataFrame([("ann",)], "user string")
    stream = pst.stream(users).assign_timestamps(F.lit(at(9)), pst.WatermarkStrategy.no_watermarks()).key_by("user")
    result = keyed(clicks).join(stream).window(MINUTES).pairs()
    assert result.main.columns == ["user", "window_start", "window_end", "ts", "url"]
    assert sorted(row.url for row in result.main.collect()) == ["a", "b"]


def test_join_of_a_stream_with_itself(clicks):
    result = keyed(clicks).join(keyed(clicks)).window(MINUTES).pairs(suffixes=("", "_too"))
    pairs = [(row.url, row.url_too) for row in result.main.collect()]
    assert sorted(pairs) == sorted([("a", "a"), ("a", "b"), ("b", "a"), ("b", "b"), ("c", "c"), ("d", "d")])


# -- functions and aggregates --------------------------------------------------------------------------------------------------


def shown(key, window, left, right):
    return [(window.start // 1_000_000 % 3600, [row.url for row in left], [row.price for row in right])]


def tables(key, window, left, right):
    return [(window.start // 1_000_000 % 3600, left["url"].to_pylist(), right["price"].to_pylist())]


def frames(key, window, left, right):
    return [(window.start // 1_000_000 % 3600, left.url.tolist(), right.price.tolist())]


@pytest.mark.parametrize(
    ("step", "assigner"),
    [("apply", MINUTES), ("apply_arrow", SESSIONS), ("apply_arrow", MINUTES), ("apply_in_pandas", MINUTES)],
)
def test_functions_get_the_rows_of_both_streams(clicks, views, step, assigner):
    if step == "apply_in_pandas":
        pytest.importorskip("pandas")
    function = {"apply": shown, "apply_arrow": tables, "apply_in_pandas": frames}[step]
    windows = keyed(clicks).co_group(keyed(views)).window(assigner)
    result = getattr(windows, step)(function, "second bigint, urls array<string>, prices array<double>")
    found = sorted((row.user, row.second, sorted(row.urls), sorted(row.prices)) for row in result.main.collect())
    if assigner is MINUTES:
        ann = [("ann", 0, ["a", "b"], [1.5, 2.5]), ("ann", 60, ["d"], [])]
    else:
        # The view of 5 follows Ann's second of 1. That of 59 and the click of 70 are 54 seconds later.
        ann = [("ann", 1, ["a", "b"], [1.5]), ("ann", 59, ["d"], [2.5])]
    others = (
        [("bob", 0, ["c"], []), ("eve", 0, [], [9.0])] if assigner is MINUTES else [("bob", 3, ["c"], []), ("eve", 8, [], [9.0])]
    )
    assert found == [*ann, *others]


def test_aggregates_over_both_streams_keep_no_rows(clicks, views):
    windows = keyed(clicks).co_group(keyed(views)).window(MINUTES)
    result = windows.aggregate(agg.count("left.url").alias("clicks"), agg.sum("right.price").alias("paid"))
    assert result.operator.name == "aligned panes"
    found = sorted(
        (row.user, row.clicks, row.paid) for row in result.main.where("window_start < '2026-01-01T12:01:00Z'").collect()
    )
    assert found == [("ann", 2, 4.0), ("bob", 1, None), ("eve", 0, 9.0)]


def test_firings_of_a_join_are_numbered(spark, tmp_path):
    left, right = MicroBatches(spark, tmp_path / "l", CLICKS), MicroBatches(spark, tmp_path / "r", VIEWS)
    left.add([("ann", at(1), "a"), ("ann", at(100), "z")]).add([("ann", at(2), "late")]).add([("ann", at(300), "end")])
    right.add([("ann", at(5), 1.0), ("ann", at(100), 0.0)]).add([("ann", at(101), 0.0)]).add([("ann", at(300), 0.0)])
    windows = keyed(left.stream()).join(keyed(right.stream())).window(MINUTES).allowed_lateness("1 minute")
    result = windows.pairs(suffixes=("", "_view")).with_firing()
    result.start(main=pst.ParquetSink(f"{tmp_path}/out"), checkpoint=f"{tmp_path}/c").await_termination()
    rows = spark.read.parquet(f"{tmp_path}/out").where("price = 1.0").collect()
    told = sorted((row.firing_number, row.firing, row.is_last, row.url) for row in rows)
    assert told == [(0, "on_time", False, "a"), (1, "late", False, "a"), (1, "late", False, "late")]


# -- rows that cannot be used --------------------------------------------------------------------------------------------------


def test_each_stream_has_its_own_output_for_invalid_rows(spark):
    clicks = spark.createDataFrame(
        [("ann", "2026-01-01T12:00:01Z", "a"), ("ann", "noon", "b")], "user string, t string, url string"
    )
    views = spark.createDataFrame([("ann", at(5), 1.0), ("ann", None, 2.0)], VIEWS)
    time = "try_to_timestamp(t)"
    both = keyed(clicks, time, invalid="bad_clicks").join(keyed(views, invalid="bad_views")).window(MINUTES).pairs()
    assert [(row.url, row.price) for row in both.main.collect()] == [("a", 1.0)]
    assert [tuple(row) for row in both.output("bad_clicks").collect()] == [("ann", "noon", "b")]
    assert [tuple(row) for row in both.output("bad_views").collect()] == [("ann", None, 2.0)]
    one = keyed(clicks, time, invalid="bad_clicks").join(keyed(views)).window(MINUTES).pairs()
    with pytest.raises(Exception, match="an unusable event time in 'ts'"):
        one.main.collect()
    neither = keyed(clicks, time).join(keyed(views.where("ts IS NOT NULL"))).window(MINUTES).pairs()
    with pytest.raises(Exception, match=r"an unusable event time in 'try_to_timestamp\(t\)'.*noon"):
        neither.main.collect()


def test_row_limit_of_one_stream_does_not_apply_to_the_other(spark):
    clicks = spark.createDataFrame([("ann", at(1), "a"), ("ann", at(2), "b"), ("ann", at(90_000), "c")], CLICKS)
    views = spark.createDataFrame([("ann", at(5), 1.0), ("ann", at(6), 1.0), ("ann", at(90_001), 2.0)], VIEWS)
    strategy = pst.WatermarkStrategy.for_bounded_out_of_orderness("1 second")
    limited = pst.stream(clicks.coalesce(1)).assign_timestamps("ts", strategy.max_ahead("1 hour", of="rows"))
    limited = limited.side_output_invalid("ahead").key_by("user")
    result = limited.join(keyed(views)).window(MINUTES).pairs("full", suffixes=("", "_view"))
    assert [row.url for row in result.output("ahead").collect()] == ["c"]
    assert sorted((row.url, row.price) for row in result.main.where("url IS NOT NULL").collect()) == [
        ("a", 1.0),
        ("a", 1.0),
        ("b", 1.0),
        ("b", 1.0),
    ]
    assert [row.price for row in result.main.where("url IS NULL").collect()] == [2.0]


# -- refused -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda c, v: keyed(c).join(v), "join needs another keyed stream"),
        (lambda c, v: keyed(c).join(keyed(v).window(MINUTES)), "join needs another keyed stream"),
        (lambda c, v: keyed(c).co_group(pst.stream(v).key_by("user")), "co_group: one stream has event time .* Give it to both"),
        (lambda c, v: keyed(c).join(pst.stream(v).key_by("user", "price")), r"the key \(user\), the right one \(user, price\)"),
        (
            lambda c, v: keyed(c).join(keyed(v, key="price")),
            "'user' of the left stream is string, 'price' of the right one is double",
        ),
        (
            lambda c, v: keyed(c.selectExpr("1 AS user", "ts")).join(keyed(v.selectExpr("1L AS user", "ts"))),
            r"'user' of the right one is bigint: .*, on the left \.key_by\('cast\(user AS bigint\) AS user'\)$",
        ),
        (
            lambda c, v: keyed(c).join(keyed(v)).window(pst.LookBackWindows.of("1 hour")).pairs("semi"),
            r"look-backs work on one stream.* left\.interval_join\(right\)",
        ),
        (lambda c, v: keyed(c, key="user AS left").join(keyed(v)), "a key cannot be called 'left'"),
        (lambda c, v: keyed(c, invalid="bad").join(keyed(v, invalid="bad")), "both streams have an output 'bad'"),
        (lambda c, v: keyed(c).join(keyed(v)).window(MINUTES).pairs("cross"), "there is no join 'cross'"),
        (lambda c, v: keyed(c).join(keyed(v)).window(MINUTES).pairs(suffixes="_x"), "suffixes are two texts"),
        (
            lambda c, v: (
                keyed(c.withColumn("URL_X", c.url))
                .join(keyed(v.withColumn("url", v.user)))
                .window(MINUTES)
                .pairs(suffixes=("_x", ""))
            ),
            "the left stream would have two columns 'url_x' and 'URL_X', which are one name here",
        ),
        (
            lambda c, v: (
                keyed(c).join(keyed(v.selectExpr("*", "user AS url", "user AS url_x"))).window(MINUTES).pairs(suffixes=("", "_x"))
            ),
            "the right stream would have two columns 'url_x' in the results, one of them because of its suffix. Use another suffix",
        ),
        (
            lambda c, v: keyed(c.withColumnRenamed("url", "rank")).join(keyed(v)).window(MINUTES).pairs("left_semi"),
            "a column is called 'rank'",
        ),
        (
            lambda c, v: keyed(c).join(keyed(v)).window(MINUTES).pairs("semi").run(late_left=pst.MemorySink()),
            r"no output 'late_left'; known here: main \(late rows have one with \.side_output_late_data\('late'\)\)",
        ),
        (
            lambda c, v: keyed(c).co_group(keyed(v)).window(MINUTES).aggregate(agg.sum("price")).plan,
            r"'price' is neither a column nor valid SQL over the columns; did you mean 'right\.price'\?",
        ),
        (
            lambda c, v: keyed(c).co_group(keyed(v)).window(MINUTES).aggregate(agg.sum("prise")).plan,
            "known here: left, right, ts, user",
        ),
        (
            lambda c, v: keyed(c).co_group(keyed(v)).window(MINUTES).aggregate(agg.sum("right.prise")).plan,
            r"'right\.prise' is neither a column nor valid SQL over the columns; did you mean 'right\.price'\?",
        ),
        (
            lambda c, v: (
                keyed(c)
                .join(keyed(v.withColumnRenamed("price", "Firing")))
                .window(MINUTES)
                .pairs("left", suffixes=("", "_v"))
                .with_firing()
            ),
            "with_firing adds a column 'firing', the results have one already",
        ),
        (lambda c, v: keyed(c).join(keyed(v)).window(MINUTES).pairs("semi").changelog(), "a join has many"),
        (lambda c, v: keyed(c).join(keyed(v)).window(MINUTES).pairs("semi").top(3, "url"), "a join has many"),
        (
            lambda c, v: keyed(c).join(keyed(v)).window(MINUTES).apply(lambda k, w, rows: rows, "n int"),
            r"\(key, window, left, right\)",
        ),
        (
            lambda c, v: keyed(c, invalid="late_right").join(keyed(v)).window(MINUTES).side_output_late_data("late"),
            "an output 'late_right' already",
        ),
        (
            lambda c, v: pst.prepare(lambda df: keyed(df).join(keyed(v)).window(MINUTES).pairs("semi"), CLICKS, streaming=False),
            "prepare: build starts with another DataFrame .* A second stream is a second argument of build",
        ),
    ],
)
def test_wrong_window_join_is_refused(clicks, views, build, message):
    with pytest.raises(InvalidPlanError, match=message):
        build(clicks, views)


def test_join_of_a_stream_and_a_batch_is_refused(spark, tmp_path, views):
    stream = MicroBatches(spark, tmp_path / "l", CLICKS).add([("ann", at(1), "a")]).stream()
    with pytest.raises(InvalidPlanError, match="one side is a stream and the other a batch"):
        keyed(stream).join(keyed(views))


def test_join_with_incompatible_watermark_strategies_is_refused(clicks, views):
    plain = pst.WatermarkStrategy.for_bounded_out_of_orderness("1 second")
    closing = pst.stream(views).assign_timestamps("ts", plain.closing_after("1 minute")).key_by("user")
    with pytest.raises(InvalidPlanError, match=r"closing_after .* [Gg]ive it to both streams, or to neither"):
        keyed(clicks).join(closing)


def test_explain_describes_a_join(clicks, views):
    windows = keyed(clicks, invalid="bad").join(keyed(views, delay="1 hour")).window(MINUTES).side_output_late_data("late")
    text = windows.pairs("left", suffixes=("", "_view")).explain()
    assert "left join: a window keeps the rows of each side once" in text
    assert "left: WatermarkStrategy.for_bounded_out_of_orderness('1 second'); right: " in text
    assert "late rows go to the output 'late_left' (left), 'late_right' (right)" in text
    assert "'bad' (left), none (right: fail the query)" in text


# -- by time -------------------------------------------------------------------------------------------------------------------


def test_interval_join_of_a_batch(clicks, views):
    near = keyed(views).interval_join(keyed(clicks)).between("-1 minute", "11 seconds")
    result = near.pairs("full", suffixes=("", "_click"))
    assert result.main.columns == ["user", "ts", "price", "ts_click", "url"]
    found = sorted(((row.user, row.price, row.url) for row in result.main.collect()), key=str)
    ann = [("ann", 1.5, "a"), ("ann", 1.5, "b"), ("ann", 2.5, "a"), ("ann", 2.5, "b"), ("ann", 2.5, "d")]
    assert found == sorted([*ann, ("bob", None, "c"), ("eve", 9.0, None)], key=str)
    without = near.upper_bound_exclusive().pairs("inner", suffixes=("", "_click"))
    assert sorted(row.url for row in without.main.collect()) == ["a", "a", "b", "b"]
    assert "a row of the right from -1 minute to 11 seconds after the time of one of the left" in result.explain()


@pytest.mark.parametrize("seed", [3])
def test_restarted_interval_join_agrees_with_the_definition(spark, tmp_path, seed):
    join, _ = intervals.random_interval(random.Random(seed))
    bounds = timedelta(microseconds=join.lower), timedelta(microseconds=join.upper)
    _restarted(spark, tmp_path, join, seed, intervals.defined, lambda left, right: left.interval_join(right).between(*bounds))


@pytest.mark.parametrize("seed", [10, 11])
def test_restarted_as_of_join_agrees_with_the_definition(spark, tmp_path, seed):
    """Only Spark shows that the condition for deletes is computed over the right stream, and what a checkpoint keeps."""
    join, _ = as_of.random_as_of(random.Random(seed))
    join = replace(join, late=True)  # the streams have outputs for late rows
    how = {
        "direction": join.direction,
        "tolerance": None if join.tolerance is None else timedelta(microseconds=join.tolerance),
        "deletes": "m % 3 = 0" if join.deletes else None,
    }
    _restarted(spark, tmp_path, join, seed, as_of.defined, lambda left, right: left.asof_join(right, **how))


def _restarted(spark, tmp_path, join, seed, defined, joined):
    """Run a join of random streams, with a restart in between, and compare each micro-batch with the definition."""
    rng = random.Random(seed)
    _, batches = random_case(seed)
    files = MicroBatches(spark, tmp_path / "left", LEFT), MicroBatches(spark, tmp_path / "right", RIGHT)
    found, late = {}, {side: {} for side in SIDES}

    def kept(df, batch_id):
        found[batch_id] = Counter(tuple(row) for row in df.select("key", "n", "name", "m").collect())

    half = rng.randint(1, len(batches) - 1)
    for part in (batches[:half], batches[half:]):
        for left, right in part:
            files[0].add([(row.key, instant(row.time), *row.values) for row in left])
            files[1].add([(row.key, instant(row.time), *row.values) for row in right])
        delays = [timedelta(microseconds=delay) for delay in join.delays]
        streams = keyed(files[0].stream(), "ts", delays[0], "key"), keyed(files[1].stream(), "at", delays[1], "key")
        result = joined(*streams).side_output_late_data("late").pairs(join.how)
        sinks = {
            f"late_{side}": pst.ForeachBatchSink(lambda df, n, side=side: late[side].update({n: df.count()}), idempotent=True)
            for side in SIDES
        }
        main = pst.ForeachBatchSink(kept, idempotent=True)
        result.start(checkpoint=f"{tmp_path}/c", main=main, **sinks).await_termination()
    for place, wanted in enumerate(defined(join, batches)):
        assert found.get(place, Counter()) == wanted.rows, f"micro-batch {place} of {join}\n{batches}"
        for side in SIDES:
            assert late[side].get(place, 0) == sum(wanted.late[side].values()), f"micro-batch {place} of {join}\n{batches}"


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda c, v: keyed(c).interval_join(keyed(v)).between("1 hour", "0 s"), "is after the upper bound '0 s'. Swap them"),
        (
            lambda c, v: pst.stream(c).key_by("user").interval_join(pst.stream(v).key_by("user")).between("0 s", "1 s"),
            "interval_join needs event time",
        ),
        (
            lambda c, v: keyed(c).interval_join(keyed(v)).between("0 s", "0 s").upper_bound_exclusive().pairs(),
            "the interval is empty. Include its bounds, or move one",
        ),
        (
            lambda c, v: keyed(c).interval_join(keyed(v)).between("0 s", "1 s").pairs("leftsemi"),
            "'leftsemi' is of joins in windows; here there are 'inner', 'left', 'right', 'full': take pairs\\('inner'\\)",
        ),
        (
            lambda c, v: keyed(c).interval_join(keyed(v)).between("0 s", "1 s").pairs("left_anti"),
            r"take pairs\('left'\) and keep the rows whose right columns are null, e\.g\. where\('paid_at IS NULL'\)",
        ),
        (
            lambda c, v: keyed(c).interval_join(keyed(v)).between("0 s", "1 s").pairs(suffixes=("", "_v")).with_firing(),
            "emits each pair once",
        ),
    ],
)
def test_wrong_interval_join_is_refused(clicks, views, build, message):
    with pytest.raises(InvalidPlanError, match=message):
        build(clicks, views)


# -- as of ---------------------------------------------------------------------------------------------------------------------


def test_as_of_join_of_a_batch(clicks, views):
    joined = keyed(clicks).asof_join(
        keyed(views.withColumn("gone", F.lit(None).cast("boolean"))), tolerance="1 minute", deletes="gone OR price > 2"
    )
    result = joined.pairs("left", suffixes=("", "_view"))
    assert result.main.columns == ["user", "ts", "url", "ts_view", "price", "gone"]
    views_of = {(row.user, row.url): row.price for row in result.main.collect()}
    assert views_of == {("ann", "a"): None, ("ann", "b"): None, ("bob", "c"): None, ("ann", "d"): None}
    kept = keyed(clicks).asof_join(keyed(views)).pairs("inner", suffixes=("", "_view")).main.collect()
    assert [(row.user, row.url, row.ts_view.second) for row in kept] == [("ann", "d", 59)]
    ahead = keyed(clicks).asof_join(keyed(views), direction="forward", tolerance="3 seconds").pairs(suffixes=("", "_view"))
    assert [(row.url, row.price) for row in ahead.main.collect()] == [("b", 1.5)]
    text = result.explain()
    assert "left join: each left row with the newest right row at or before its time, at most 1 minute away" in text
    assert "a right row may delete the value of its key, from its time on" in text


@pytest.mark.parametrize("streaming", [False, pytest.param(True, marks=pytest.mark.full)])
@pytest.mark.parametrize("ordered", SIDES)
def test_one_of_two_streams_may_have_an_arrival_order(spark, tmp_path, ordered, streaming):
    """As a topic of Kafka has beside a table: its rows keep their order, and the others that of Spark."""
    given = MicroBatches(spark, tmp_path / "l", CLICKS), MicroBatches(spark, tmp_path / "r", VIEWS)
    given[0].add([("ann", at(9), "b"), ("ann", at(9), "a")])
    given[1].add([("ann", at(5), 7.0), ("ann", at(5), 1.5)])
    left, right = (keyed((files.stream() if streaming else files.batch()).coalesce(1)) for files in given)
    if ordered == "left":
        left = pst.datastream.KeyedStream(left.source.arrival_order("url"), left.keys)
    else:
        right = pst.datastream.KeyedStream(right.source.arrival_order("price"), right.keys)
    functions = (
        left.co_group(right)
        .window(MINUTES)
        .apply(
            lambda key, window, clicks, views: [([row.url for row in clicks], [row.price for row in views])],
            "urls array<string>, prices array<double>",
        )
    )
    if streaming:
        found = []
        sink = pst.ForeachBatchSink(lambda df, _: found.extend(df.collect()), idempotent=True)
        functions.start(main=sink, checkpoint=str(tmp_path / "c"), fire_at_end=True).await_termination()
    else:
        found = functions.main.collect()
    wanted = (["a", "b"], [7.0, 1.5]) if ordered == "left" else (["b", "a"], [1.5, 7.0])
    assert [(row.urls, row.prices) for row in found] == [wanted]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda c, v: keyed(c).asof_join(keyed(v), direction="backwards"), r"no direction 'backwards'; .*'backward'"),
        (lambda c, v: keyed(c).asof_join(keyed(v), tolerance="-1 hour"), "tolerance"),
        (lambda c, v: keyed(c).asof_join(keyed(v), direction="nearest", deletes="price > 2"), "deletes is about values"),
        (lambda c, v: keyed(c).asof_join(keyed(v), deletes="price"), "deletes is double, not true or false"),
        (lambda c, v: keyed(c).asof_join(keyed(v), deletes="cost > 2"), "deletes 'cost > 2' is neither a column nor valid SQL"),
        (lambda c, v: keyed(c).asof_join(keyed(v)).pairs("full"), "exchange the streams"),
        (lambda c, v: keyed(c).asof_join(keyed(v)).pairs("left_anti"), r"take pairs\('left'\) and keep the rows"),
        (lambda c, v: keyed(c).asof_join(keyed(v)).pairs("left"), "a column of each stream would be called 'ts'"),
        (
            lambda c, v: keyed(c).asof_join(keyed(v)).pairs(suffixes=("", "_v")).with_firing(),
            "emits each row of the left stream once",
        ),
        (
            lambda c, v: pst.stream(c).key_by("user").asof_join(pst.stream(v).key_by("user")),
            "asof_join goes by event time",
        ),
        (lambda c, v: keyed(c).merge_asof(keyed(v)), r"write orders\.asof_join\(prices\)"),
        (lambda c, v: keyed(c).asof_join(v), "asof_join needs another keyed stream"),
    ],
)
def test_wrong_as_of_join_is_refused(clicks, views, build, message):
    with pytest.raises(InvalidPlanError, match=message):
        build(clicks, views)


def test_window_method_before_windows_is_refused_with_the_line_to_write(clicks, views):
    """Other missing names raise AttributeError, so that hasattr works."""
    together = keyed(clicks).join(keyed(views))
    with pytest.raises(InvalidPlanError, match=r"need windows. Write \.window\(\.\.\.\)\.pairs.*interval_join"):
        together.pairs("left")
    assert not hasattr(together, "aggregate")
    with pytest.raises(AttributeError, match="no attribute 'pears'"):
        together.pears  # noqa: B018
