"""Flink's tests of SQL windows on Spark. The stream fails, starts again, and closes its windows at the end of the rows.

``WindowAggregateITCase`` has 24 tests, and 23 are here. Flink does not check the answer of the last one (processing-time
windows). Grouping sets, ``CUBE`` and ``ROLLUP`` over one column are two queries: its groups, and all rows together.

``WindowJoinITCase`` has 20 tests, and 18 are here. One runs as a stream. The others run as batches, which give the same answers.
The two missing tests are ``NOT IN``, which is not a join if there are nulls. Some of Flink's tests count before they join. Here
the joined rows are counted.
"""

from __future__ import annotations

import datetime as dt

import pytest

import panestream as pst
from panestream import agg
from panestream.errors import CallbackError
from panestream.testing import MicroBatches
from tests.conformance import flink_sql as flink

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:.*late row:panestream.errors.PanestreamWarning")]

STRATEGY = pst.WatermarkStrategy.for_bounded_out_of_orderness("1 second")
WINDOWS = {
    "tumble": pst.TumblingEventTimeWindows.of("5 seconds"),
    "tumble offset": pst.TumblingEventTimeWindows.of("1 day", "8 hours"),
    "tumble negative offset": pst.TumblingEventTimeWindows.of("1 day", "-8 hours"),
    "hop": pst.SlidingEventTimeWindows.of("10 seconds", "5 seconds"),
    "hop offset": pst.SlidingEventTimeWindows.of("1 day", "12 hours", "8 hours"),
    "hop negative offset": pst.SlidingEventTimeWindows.of("1 day", "12 hours", "-8 hours"),
    "cumulate": pst.CumulatingEventTimeWindows.of("15 seconds", "5 seconds"),
    "cumulate offset": pst.CumulatingEventTimeWindows.of("1 day", "12 hours", "8 hours"),
    "cumulate negative offset": pst.CumulatingEventTimeWindows.of("1 day", "12 hours", "-8 hours"),
}
OF_ALL = ("tumble", "hop", "cumulate")


def aggregates():
    return [
        agg.count().alias("n"),
        agg.sum("bigdec").alias("total"),
        agg.max("double").alias("most"),
        agg.min("float").alias("least"),
        agg.count_distinct("string").alias("different"),
        agg.collect_list("string").alias("strings"),
        agg.min("ts").alias("first"),
        agg.max("ts").alias("last"),
    ]


def seconds(instant):
    return round((instant.replace(tzinfo=dt.timezone.utc) - flink.MIDNIGHT).total_seconds())


class BrokenError(Exception):
    """The error that stops the query."""


def break_off(progress):
    if progress.batch_id == 1:
        raise BrokenError


def run(spark, folder, build, rows=(flink.LEFT,)):
    """Return the rows of ``main``. The query fails in its second micro-batch and starts again."""
    streams = [MicroBatches(spark, folder / str(number), flink.SCHEMA) for number in range(len(rows))]
    for batch in flink.BATCHES:
        for stream, its in zip(streams, rows, strict=True):
            stream.add(its[batch])
    result = build(*(pst.stream(stream.stream()).assign_timestamps("ts", STRATEGY) for stream in streams))
    how = {"checkpoint": str(folder / "checkpoint"), "main": pst.MemorySink(), "fire_at_end": True}
    with pytest.raises(CallbackError):
        result.start(on_progress=break_off, **how).await_termination()
    result.start(**how).await_termination()
    return how["main"].rows


def answers(rows):
    """Return the rows by window, in Flink's form."""
    found = {}
    for row in rows:
        strings = tuple(sorted(set(row.strings)))
        assert row.different == len(strings)
        one = (row.key, seconds(row.window_start), seconds(row.window_end), row.n, row.total, row.most, row.least, strings)
        found.setdefault(row.window, []).append(one)
    return found


def assert_same_rows(found, expected):
    assert sorted(found, key=repr) == sorted(expected, key=repr)


@pytest.fixture(scope="module")
def by_name(spark, tmp_path_factory):
    return run(
        spark,
        tmp_path_factory.mktemp("by_name"),
        lambda rows: rows.key_by("name AS key").windows(WINDOWS).options(key_groups=2).aggregate(*aggregates()),
    )


@pytest.fixture(scope="module")
def of_all(spark, tmp_path_factory):
    windows = {name: WINDOWS[name] for name in OF_ALL}
    return run(
        spark,
        tmp_path_factory.mktemp("of_all"),
        lambda rows: rows.key_by("'all' AS key").windows(windows).options(key_groups=1).aggregate(*aggregates()),
    )


@pytest.mark.parametrize(
    ("test", "window", "expected"),
    [
        ("testEventTimeTumbleWindow", "tumble", flink.TUMBLE),
        ("testEventTimeTumbleWindowWithOffset", "tumble offset", flink.TUMBLE_OFFSET),
        ("testEventTimeTumbleWindowWithNegativeOffset", "tumble negative offset", flink.TUMBLE_NEGATIVE_OFFSET),
        ("testEventTimeHopWindow", "hop", flink.HOP),
        ("testEventTimeHopWindowWithOffset", "hop offset", flink.HOP_OFFSET),
        ("testEventTimeHopWindowWithNegativeOffset", "hop negative offset", flink.HOP_NEGATIVE_OFFSET),
        ("testEventTimeCumulateWindow", "cumulate", flink.CUMULATE),
        ("testEventTimeCumulateWindowWithOffset", "cumulate offset", flink.CUMULATE_OFFSET),
        ("testEventTimeCumulateWindowWithNegativeOffset", "cumulate negative offset", flink.CUMULATE_NEGATIVE_OFFSET),
    ],
)
def test_windows_by_name_give_flinks_answers(by_name, test, window, expected):
    assert_same_rows(answers(by_name)[window], expected)


@pytest.mark.parametrize("sets", ["GroupingSets", "Cube", "Rollup"])
@pytest.mark.parametrize(
    ("window", "named", "together"),
    [
        ("tumble", flink.TUMBLE, flink.TUMBLE_OF_ALL),
        ("hop", flink.HOP, flink.HOP_OF_ALL),
        ("cumulate", flink.CUMULATE, flink.CUMULATE_OF_ALL),
    ],
)
def test_grouping_sets_give_flinks_answers(by_name, of_all, window, named, together, sets):
    assert_same_rows([*answers(by_name)[window], *answers(of_all)[window]], [*named, *together])


def test_windows_without_a_key_give_flinks_answers(of_all):
    """Covers ``testTumbleWindowGroupOnWindowOnly`` and ``testTumbleWindowWithoutOutputWindowColumns``."""
    found = answers(of_all)["tumble"]
    assert_same_rows(found, flink.TUMBLE_OF_ALL)
    assert_same_rows([row[3:] for row in found], [row[3:] for row in flink.TUMBLE_OF_ALL])


def test_window_time_is_the_last_millisecond_of_a_window(by_name):
    """``testTumbleWindowOutputWindowTime``: the time of a window is its end less one millisecond."""
    found = [
        (row.key, seconds(row.window_end - dt.timedelta(milliseconds=1)), row.n) for row in by_name if row.window == "tumble"
    ]
    assert_same_rows(found, [(name, end, count) for name, _start, end, count, *_ in flink.TUMBLE])


def test_first_and_last_times_of_a_window_give_flinks_answers(of_all):
    """``testFieldNameConflict``."""
    found = [(seconds(row.window_end), seconds(row.first), seconds(row.last)) for row in of_all if row.window == "tumble"]
    assert_same_rows(found, flink.FIRST_AND_LAST)


def test_cascaded_windows_give_flinks_answers(spark):
    """``testCascadeEventTimeTumbleWindowWithOffset`` as a batch. In a stream, only the last of two operators closes at the end."""
    ends, window = pst.WatermarkStrategy.for_monotonous_timestamps(), WINDOWS["tumble offset"]
    keyed = pst.stream(spark.createDataFrame(flink.LEFT, flink.SCHEMA)).assign_timestamps("ts", ends).key_by("name")
    first = keyed.window(window).aggregate(agg.count_distinct("string").alias("different"))
    counted = pst.stream(first.main).assign_timestamps("window_end - INTERVAL 1 MICROSECOND", ends).key_by("different AS key")
    rows = counted.window(window).aggregate(agg.count().alias("n")).main.collect()
    assert_same_rows([(row.key, seconds(row.window_start), seconds(row.window_end), row.n) for row in rows], flink.CASCADE)


def sides_of(spark):
    """Return both streams as batches, keyed by name."""
    frames = [spark.createDataFrame(rows, flink.SCHEMA) for rows in (flink.LEFT, flink.RIGHT)]
    return [pst.stream(frame).assign_timestamps("ts", STRATEGY).key_by("name") for frame in frames]


def joined_rows(spark, how, window="5 seconds", offset="0 seconds"):
    left, right = sides_of(spark)
    windows = left.join(right).window(pst.TumblingEventTimeWindows.of(window, offset))
    return windows.pairs(how, suffixes=("", "_r")).main.collect()


def count_strings(rows):
    """Count the distinct strings of each side by name and window. None means no rows."""
    found = {}
    for row in rows:
        here = row.ts is not None, row.ts_r is not None
        strings = found.setdefault((row.name, seconds(row.window_start), seconds(row.window_end), here), (set(), set()))
        for different, string in zip(strings, (row.string, row.string_r), strict=True):
            different.update({string} - {None})
    return [
        (*place, *(len(each) if there else None for each, there in zip(strings, here, strict=True)))
        for (*place, here), strings in found.items()
    ]


@pytest.mark.parametrize(
    ("test", "how", "expected"),
    [
        ("testInnerJoin", "inner", flink.BOTH),
        ("testLeftJoin", "left", [*flink.BOTH, *flink.LEFT_ALONE, flink.NULL_OF_LEFT]),
        ("testRightJoin", "right", [*flink.BOTH, *flink.RIGHT_ALONE, flink.NULL_OF_RIGHT]),
        (
            "testOuterJoin",
            "full",
            [*flink.BOTH, *flink.LEFT_ALONE, *flink.RIGHT_ALONE, flink.NULL_OF_LEFT, flink.NULL_OF_RIGHT],
        ),
    ],
)
def test_window_joins_give_flinks_counts(spark, test, how, expected):
    assert_same_rows(count_strings(joined_rows(spark, how)), expected)


def test_restarted_full_join_of_streams_gives_flinks_counts(spark, tmp_path):
    """``testOuterJoin`` with a failure and a restart."""

    def full(left, right):
        windows = left.key_by("name").join(right.key_by("name")).window(WINDOWS["tumble"]).options(key_groups=2)
        return windows.pairs("full", suffixes=("", "_r"))

    alone = [*flink.LEFT_ALONE, *flink.RIGHT_ALONE, flink.NULL_OF_LEFT, flink.NULL_OF_RIGHT]
    assert_same_rows(count_strings(run(spark, tmp_path, full, (flink.LEFT, flink.RIGHT))), [*flink.BOTH, *alone])


@pytest.mark.parametrize(
    ("test", "offset"),
    [
        ("testInnerJoinOnWTF", "0 seconds"),
        ("testInnerJoinOnWTFWithOffset", "1 second"),
        ("testInnerJoinOnWTFWithNegativeOffset", "-1 second"),
    ],
)
def test_inner_join_gives_flinks_pairs(spark, test, offset):
    rows = joined_rows(spark, "inner", offset=offset)
    assert_same_rows([(seconds(row.ts), row.number_r) for row in rows], flink.PAIRS)
    shift = int(offset.split()[0])
    assert all((seconds(row.window_start) - shift) % 5 == 0 for row in rows)


@pytest.mark.parametrize("how", ["left_semi", "left_anti"])
def test_semi_and_anti_joins_give_flinks_rows(spark, how):
    """``testSemiJoinExists``, ``testSemiJoinIN``, ``testAntiJoinNotExists`` on rows (``WTF``) and on counts."""
    rows = [row for row in joined_rows(spark, how) if row.float is not None]
    assert_same_rows([seconds(row.ts) for row in rows], flink.MET if how == "left_semi" else flink.NOT_MET)
    strings = {}
    for row in rows:
        strings.setdefault((row.name, seconds(row.window_start), seconds(row.window_end)), set()).update({row.string} - {None})
    expected = flink.BOTH if how == "left_semi" else [*flink.LEFT_ALONE, flink.NULL_OF_LEFT]
    assert_same_rows([(*place, len(each)) for place, each in strings.items()], [row[:4] for row in expected])


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("testInnerJoinWithIsNotDistinctFrom", flink.BOTH),
        ("testLeftJoinWithIsNotDistinctFrom", [*flink.BOTH, *flink.LEFT_ALONE]),
        ("testRightJoinWithIsNotDistinctFrom", [*flink.BOTH, *flink.RIGHT_ALONE]),
        ("testOuterJoinWithIsNotDistinctFrom", [*flink.BOTH, *flink.LEFT_ALONE, *flink.RIGHT_ALONE]),
    ],
)
def test_co_group_counts_rows_with_a_null_key(spark, test, expected):
    """A co-group treats a null key like any other key."""
    left, right = sides_of(spark)
    windows = left.co_group(right).window(WINDOWS["tumble"])
    counts = [agg.count(f"{side}.ts").alias(f"n_{side}") for side in ("left", "right")]
    names = [agg.count_distinct(f"{side}.string").alias(side) for side in ("left", "right")]
    rows = windows.aggregate(*counts, *names).main.collect()
    found = [
        (
            row.name,
            seconds(row.window_start),
            seconds(row.window_end),
            row.left if row.n_left else None,
            row.right if row.n_right else None,
        )
        for row in rows
    ]
    wanted = {"Inner": (True, True), "Left": (True, False), "Right": (False, True), "Outer": (False, False)}
    (needs,) = [needs for name, needs in wanted.items() if name in test]
    found = [row for row in found if all(value is not None or not needed for value, needed in zip(row[3:], needs, strict=True))]
    assert_same_rows(found, [*expected, flink.NULLS_MEET])


def test_co_group_pairs_rows_with_a_null_key(spark):
    """``testInnerJoinWithIsNotDistinctFromOnWTF``."""

    def meet(key, window, left, right):
        return [(each.ts, other.number) for each in left for other in right]

    left, right = sides_of(spark)
    rows = left.co_group(right).window(WINDOWS["tumble"]).apply(meet, "ts timestamp, number int").main.collect()
    assert_same_rows([(seconds(row.ts), row.number) for row in rows], [*flink.PAIRS, flink.NULL_PAIR])
