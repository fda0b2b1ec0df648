"""Tiles as an output, and the windows and answers combined from them, on Spark: batches, restarted streams and errors."""

from __future__ import annotations

import math
from datetime import datetime, timedelta, timezone
from decimal import Decimal

import pytest

import panestream as pst
from panestream import agg
from panestream.errors import InvalidPlanError
from panestream.spark.session import session_settings
from panestream.testing import MicroBatches

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::panestream.errors.PanestreamWarning")]

SCHEMA = "user string, ts timestamp, price double, amount decimal(28, 4), page string"
BEGIN = datetime(2026, 3, 1, tzinfo=timezone.utc)
HOUR = timedelta(hours=1)
SLICES = pst.TumblingEventTimeWindows.of("1 hour")
WINDOWS = pst.SlidingEventTimeWindows.of("6 hours", "2 hours")
AGGREGATES = (
    agg.count().alias("n"),
    agg.sum("price").alias("total"),
    agg.mean("price").alias("mean"),
    agg.sum("amount").alias("amount"),
    agg.max("page").alias("last_page"),
    agg.count_distinct("page").alias("pages"),
    agg.collect_list("price").alias("prices"),
    agg.first("ts").alias("first"),
    agg.arg_max("price", "page", "ts").alias("dearest"),
    agg.approx_quantile("price", 0.5).alias("median"),
    agg.stddev("price").alias("spread"),
    agg.count("price + 1").alias("known"),
)


def clicks(count: int = 400, begin: datetime = BEGIN, step: timedelta = timedelta(minutes=7)):
    """Make rows of users, one of them null, with prices that may be null."""
    made = []
    for number in range(count):
        user = None if number % 11 == 0 else f"u{number * number % 7}"
        price = None if number % 13 == 0 else float(number * 37 % 101) / 4
        at = begin + number * step + timedelta(microseconds=number % 3)
        made.append((user, at, price, Decimal(10**20 + number), f"p{number % 5}"))
    return made


def keyed(df):
    return pst.stream(df).assign_timestamps("ts", pst.WatermarkStrategy.for_bounded_out_of_orderness("30 minutes")).key_by("user")


def same(one, other) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9)
    return one == other


def assert_same_rows(found, expected):
    found, expected = (sorted(map(tuple, df.collect()), key=lambda row: tuple(map(str, row[:3]))) for df in (found, expected))
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert all(map(same, one, other)), (one, other)


@pytest.fixture(scope="module")
def rows(spark):
    return spark.createDataFrame(clicks(), SCHEMA).cache()


@pytest.fixture(scope="module")
def stored(spark, rows, tmp_path_factory):
    """Tiles as Parquet files."""
    folder = str(tmp_path_factory.mktemp("tiles") / "hours")
    keyed(rows).window(SLICES).panes(*AGGREGATES).run(main=pst.ParquetSink(folder))
    return spark.read.parquet(folder)


def test_windows_from_stored_tiles_equal_windows_of_the_rows(rows, stored):
    found = pst.from_panes(stored, *AGGREGATES).window(WINDOWS)
    expected = keyed(rows).window(WINDOWS).aggregate(*AGGREGATES).main
    assert found.columns == expected.columns
    assert [field.dataType for field in found.schema] == [field.dataType for field in expected.schema]
    assert_same_rows(found, expected)


@pytest.fixture
def count_tasks(spark):
    """Count the jobs, stages and tasks of an action."""
    group = "tiles are read"

    def count(act):
        status = spark.sparkContext.statusTracker()
        before = set(status.getJobIdsForGroup(group))
        spark.sparkContext.setJobGroup(group, "")
        try:
            act()
        finally:
            spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
        jobs = [status.getJobInfo(job) for job in set(status.getJobIdsForGroup(group)) - before]
        stages = [status.getStageInfo(stage) for job in jobs for stage in job.stageIds]
        return len(jobs), len(stages), sum(stage.numTasks for stage in stages)

    return count


def _simple(tiles):
    return pst.from_panes(tiles, *AGGREGATES[:4])


def test_few_tiles_are_inspected_and_read_by_one_job_each(spark, rows, stored, count_tasks, capsys):
    """Spark evaluates Python once in a single stage, without a shuffle.

    The driver asks for the schema once, and lists files once.
    """
    made = []
    jobs, stages, _ = count_tasks(lambda: made.append(_simple(stored)))
    assert (jobs, stages) == (1, 1)
    assert count_tasks(lambda: made.append(made[0].window(WINDOWS))) == (0, 0, 0)
    assert count_tasks(lambda: made[1].write.format("noop").mode("overwrite").save()) == (1, 1, 1)
    made[1].explain()
    plan = capsys.readouterr().out
    assert (plan.count("MapInArrow"), plan.count("FileScan"), plan.count("Exchange")) == (1, 1, 0)
    assert_same_rows(made[1], keyed(rows).window(WINDOWS).aggregate(*AGGREGATES[:4]).main)


@pytest.mark.parametrize("why", ["computed", "two places", "partitions asked for", "settings", "rows", "lists"])
def test_large_or_partitioned_tiles_are_distributed_by_key(spark, rows, stored, why, capsys):
    """One task would compute, hold or read too much, or the user has set the number of partitions."""
    tiles, wanted, more = stored, AGGREGATES[:4], {}
    if why == "computed":
        tiles = keyed(rows).window(SLICES).panes(*wanted).main
    elif why == "two places":
        half = stored.where("window_start < '2026-03-02'"), stored.where("window_start >= '2026-03-02'")
        tiles = half[0].unionAll(half[1].localCheckpoint())
    elif why == "partitions asked for":
        more = {"partitions": 3}
    elif why == "rows":
        more = {"rows": rows, "event_time": "ts"}
    elif why == "lists":
        wanted = AGGREGATES
    setting = {"spark.sql.shuffle.partitions": "3"} if why == "settings" else {}
    with session_settings(spark, setting):
        found = pst.from_panes(tiles, *wanted, **more).window(WINDOWS)
        found.explain()
        plan = capsys.readouterr().out
        assert_same_rows(found, keyed(rows).window(WINDOWS).aggregate(*wanted).main)
    assert "REPARTITION_BY_NUM" in plan


def test_tiles_of_two_folders_are_inspected(spark, rows, stored):
    """Such rows cannot show their file. Their metadata is still found."""
    half = stored.where("window_start < '2026-03-02'"), stored.where("window_start >= '2026-03-02'")
    found = _simple(half[0].unionAll(half[1])).window(WINDOWS)
    assert_same_rows(found, keyed(rows).window(WINDOWS).aggregate(*AGGREGATES[:4]).main)


def test_tile_has_typed_columns_and_describes_them(spark, rows, stored):
    result = keyed(rows).window(SLICES).panes(agg.sum("price"), agg.mean("price"))
    tiles = result.main
    assert tiles.columns[:4] == ["user", "window_start", "window_end", "rows"]
    assert tiles.columns[-1] == "tile"
    sums, counts = tiles.columns[4:-1]  # two aggregates that share their stored columns
    assert sums.startswith("float_sum_price_")
    assert tiles.schema[sums].dataType.simpleString() == "struct<sum:double>"
    assert tiles.schema[counts].dataType.simpleString() == "struct<n:bigint>"
    tiles.createOrReplaceTempView("price_tiles")
    # The format is open: compute a mean by hand.
    by_hand = spark.sql(f"SELECT user, sum({sums}.sum) / sum({counts}.n) FROM price_tiles GROUP BY user").collect()
    expected = rows.groupBy("user").avg("price").collect()
    assert len(by_hand) > 3
    assert {row[0]: round(row[1], 9) for row in by_hand} == {row[0]: round(row[1], 9) for row in expected}
    assert set(tiles.columns[4:-1]) < set(stored.columns)  # the columns do not depend on other aggregates


def test_late_rows_correct_the_tiles_of_a_restarted_stream(spark, tmp_path):
    made = MicroBatches(spark, tmp_path / "in", SCHEMA)
    every = clicks(300)
    # The fifth batch is late. Its hours have ended and have tiles.
    late = every[20:40:2]
    on_time = [row for row in every if row not in late]
    wanted = (agg.count().alias("n"), agg.sum("price").alias("total"), agg.count_distinct("page").alias("pages"))

    def run():
        panes = keyed(made.stream()).window(SLICES).allowed_lateness("2 days").panes(*wanted)
        out = pst.ParquetSink(str(tmp_path / "tiles"))
        panes.start(main=out, checkpoint=str(tmp_path / "c")).await_termination()

    made.add(on_time[:150])
    run()
    before = spark.read.parquet(str(tmp_path / "tiles")).count()
    made.add(late + on_time[150:])
    run()
    made.add([("zoe", BEGIN + timedelta(days=60), 1.0, Decimal(1), "p")])
    run()
    tiles = spark.read.parquet(str(tmp_path / "tiles"))
    again = tiles.groupBy("user", "window_start").count().where("count > 1").count()
    assert before > 0
    assert again > 0  # a corrected tile does not replace the old one
    batch = spark.createDataFrame(every, SCHEMA)
    found = pst.from_panes(tiles, *wanted).window(WINDOWS)
    assert_same_rows(found, keyed(batch).window(WINDOWS).aggregate(*wanted).main)
    of_batch = keyed(batch).window(SLICES).panes(*wanted).main
    assert_same_rows(found, pst.from_panes(of_batch, *wanted).window(WINDOWS))


def test_row_operator_writes_tiles(rows):
    wanted = AGGREGATES[:5]
    panes = keyed(rows).window(SLICES).options(every_firing=True).panes(*wanted)
    assert "row operator" in str(panes.explain())
    assert_same_rows(pst.from_panes(panes.main, *wanted).window(WINDOWS), keyed(rows).window(WINDOWS).aggregate(*wanted).main)


def test_given_rows_after_the_last_tile_count(rows, stored):
    noon = BEGIN + 30 * HOUR
    old = stored.where(stored.window_end <= noon)
    expected = keyed(rows).window(WINDOWS).aggregate(*AGGREGATES).main
    found = pst.from_panes(old, *AGGREGATES, rows=rows, event_time="ts").window(WINDOWS)
    assert_same_rows(found, expected)
    alone = pst.from_panes(old, *AGGREGATES).window(WINDOWS)
    assert alone.count() < expected.count()


def questions(spark, count: int = 90):
    made = []
    for number in range(count):
        at = BEGIN + timedelta(minutes=31 * number) if number % 3 else BEGIN + number * timedelta(minutes=7)
        made.append((number, None if number % 7 == 0 else f"u{number % 8}", at if number % 29 else None, {"a": number}))
    return spark.createDataFrame(made, "id bigint, user string, at timestamp, more map<string, bigint>")


def answers_by_hand(rows, asked, minutes: int, *, rounded: bool = False):
    """Compute the answers in SQL with a join on the range of times."""
    end = "date_trunc('hour', q.at)" if rounded else "q.at"
    joined = asked.alias("q").join(
        rows.alias("r"),
        on=_expr(f"q.user <=> r.user AND r.ts < {end} AND r.ts >= {end} - INTERVAL '{minutes}' MINUTE"),
        how="left",
    )
    return {
        row.id: (row.n, row.total, row.pages, row.prices)
        for row in joined.groupBy("q.id")
        .agg(
            *map(
                _expr,
                [
                    "count(r.ts) AS n",
                    "sum(r.price) AS total",
                    "count(DISTINCT r.page) AS pages",
                    "sort_array(collect_list(r.price)) AS prices",
                ],
            )
        )
        .collect()
    }


def _expr(text):
    from pyspark.sql import functions as F

    return F.expr(text)


def answers(df, label: str):
    return {
        row.id: (row[f"n_{label}"], row[f"total_{label}"], row[f"pages_{label}"], sorted(row[f"prices_{label}"] or []))
        for row in df.collect()
    }


def assert_same_answers(found, expected):
    assert found.keys() == expected.keys()
    for number, values in expected.items():
        assert all(map(same, found[number], values)), (number, found[number], values)


WANTED = (AGGREGATES[0], AGGREGATES[1], AGGREGATES[5], AGGREGATES[6])


def test_answers_from_tiles_and_rows_are_exact(spark, rows, stored):
    asked = questions(spark)
    found = pst.from_panes(stored, *WANTED, rows=rows, event_time="ts").as_of(
        asked, at="at", windows={"6h": "6 hours", "95m": "95 minutes"}
    )
    assert found.columns[:4] == asked.columns
    found.cache()
    assert_same_answers(answers(found, "6h"), answers_by_hand(rows, asked, 360))
    assert_same_answers(answers(found, "95m"), answers_by_hand(rows, asked, 95))
    assert found.where("id = 5").first().more == {"a": 5}
    # The same holds if tiles end within the rows, and for a single question, because serving uses the same path.
    old = stored.where(stored.window_end <= BEGIN + 20 * HOUR)
    one = asked.where("id = 70")
    again = pst.from_panes(old, *WANTED, rows=rows, event_time="ts").as_of(one, at="at", windows={"6h": "6 hours"})
    assert answers(again, "6h") == {70: answers(found, "6h")[70]}


def test_answers_from_tiles_alone_end_at_the_start_of_the_slice(spark, rows, stored):
    asked = questions(spark).withColumnRenamed("user", "who")
    found = pst.from_panes(stored, *WANTED).as_of(asked, at="at", windows={"6h": "6 hours"}, on={"user": "who"})
    by_hand = answers_by_hand(rows, asked.withColumnRenamed("who", "user"), 360, rounded=True)
    assert_same_answers(answers(found, "6h"), by_hand)


def test_tiles_give_global_and_calendar_windows(rows):
    everything = pst.stream(rows).assign_timestamps("ts", pst.WatermarkStrategy.for_monotonous_timestamps())
    days = pst.CalendarDays.of(1, zone="America/New_York")
    weeks = pst.CalendarWeeks.of(1, zone="America/New_York")
    tiles = everything.window_all(days).panes(*AGGREGATES).main
    expected = everything.window_all(weeks).aggregate(*AGGREGATES).main
    assert_same_rows(pst.from_panes(tiles, *AGGREGATES).window(weeks), expected)
    with pytest.raises(InvalidPlanError, match="need slices of equal length"):
        pst.from_panes(tiles, *AGGREGATES).as_of(rows, at="ts", windows={"w": "7 days"})
    utc = pst.from_panes(tiles, *AGGREGATES).window(pst.TumblingEventTimeWindows.of("1 day"))
    with pytest.raises(Exception, match="a window begins or ends within the pane from"):
        utc.collect()


def test_aggregate_added_later_needs_tiles_made_since(spark, rows, tmp_path):
    folder = str(tmp_path / "tiles")
    midday = BEGIN + 24 * HOUR
    keyed(rows.where(rows.ts < midday)).window(SLICES).panes(agg.sum("price")).main.write.parquet(folder)
    later = keyed(rows.where(rows.ts >= midday)).window(SLICES).panes(agg.max("page"), agg.sum("price")).main
    later.write.mode("append").parquet(folder)
    tiles = spark.read.option("mergeSchema", "true").parquet(folder)
    expected = keyed(rows).window(WINDOWS).aggregate(agg.sum("price")).main
    assert_same_rows(pst.from_panes(tiles, agg.sum("price")).window(WINDOWS), expected)
    new = tiles.where(tiles.window_start >= midday)
    since = keyed(rows.where(rows.ts >= midday)).window(WINDOWS).aggregate(agg.max("page")).main
    assert_same_rows(pst.from_panes(new, agg.max("page")).window(WINDOWS), since)
    with pytest.raises(Exception, match="they were made before there was an aggregate that needs it"):
        pst.from_panes(tiles, agg.max("page")).window(WINDOWS).collect()


def test_wrong_tiles_query_is_refused(rows):
    windowed = keyed(rows).window(SLICES)
    with pytest.raises(InvalidPlanError, match=r"cannot be slices for panes .they overlap"):
        keyed(rows).window(WINDOWS).panes(agg.count())
    with pytest.raises(InvalidPlanError, match=r"cannot be slices for panes .EventTimeSessionWindows are not aligned"):
        keyed(rows).window(pst.EventTimeSessionWindows.with_gap("1 hour")).panes(agg.count())
    with pytest.raises(InvalidPlanError, match=r"[Ll]eave out the trigger"):
        windowed.trigger(pst.ContinuousEventTimeTrigger.of("5 minutes")).panes(agg.count())
    with pytest.raises(InvalidPlanError, match="Leave out the evictor"):
        windowed.evictor(pst.evictors.CountEvictor.of(3)).panes(agg.count())
    with pytest.raises(InvalidPlanError, match="windows of the clock depend on when rows were read"):
        keyed(rows).window(pst.TumblingProcessingTimeWindows.of("1 hour")).panes(agg.count())
    with pytest.raises(InvalidPlanError, match="panes needs at least one aggregate"):
        windowed.panes()
    with pytest.raises(InvalidPlanError, match=r"agg\.sum"):
        windowed.panes("sum(price)")
    with pytest.raises(InvalidPlanError, match="Mine is a function over rows"):
        windowed.panes(Mine())
    with pytest.raises(InvalidPlanError, match="tiles have a column 'rows'"):
        pst.stream(rows.withColumnRenamed("user", "rows")).assign_timestamps(
            "ts", pst.WatermarkStrategy.for_monotonous_timestamps()
        ).key_by("rows").window(SLICES).panes(agg.count())


class Mine(pst.AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + 1

    def get_result(self, accumulator):
        return accumulator


def test_wrong_reading_of_tiles_is_refused(spark, rows, stored):
    with pytest.raises(InvalidPlanError, match=r"do not contain 'prise' .did you mean 'price'\?.: they were made for agg.count"):
        pst.from_panes(stored, agg.sum("prise"))
    with pytest.raises(InvalidPlanError, match=r"no column 'extreme_price_\w+', which an aggregate needs"):
        pst.from_panes(stored, agg.min("price"))
    with pytest.raises(InvalidPlanError, match="no column 'tile'"):
        pst.from_panes(stored.drop("tile"), agg.count())
    with pytest.raises(InvalidPlanError, match=r"which is not what \.panes"):
        pst.from_panes(stored.withColumn("tile", _expr("'{}'")), agg.count())
    with pytest.raises(InvalidPlanError, match="a newer one wrote them"):
        pst.from_panes(stored.withColumn("tile", _expr("""'{"format": 9}'""")), agg.count())
    with pytest.raises(InvalidPlanError, match="tiles are missing"):
        pst.from_panes(stored.where("false"), agg.count())
    with pytest.raises(InvalidPlanError, match="no column 'user', which is a key"):
        pst.from_panes(stored.drop("user"), agg.count())
    with pytest.raises(InvalidPlanError, match="at least one aggregate"):
        pst.from_panes(stored)
    with pytest.raises(InvalidPlanError, match="rows and event_time go together"):
        pst.from_panes(stored, agg.count(), rows=rows)
    minutes = keyed(rows).window(pst.TumblingEventTimeWindows.of("30 minutes")).panes(*AGGREGATES).main
    with pytest.raises(InvalidPlanError, match="the tiles have different slices"):
        pst.from_panes(stored.unionByName(minutes, allowMissingColumns=True), agg.count())
    read = pst.from_panes(stored, agg.count(), agg.sum("price"))
    for windows in (
        pst.TumblingEventTimeWindows.of("90 minutes"),
        pst.TumblingEventTimeWindows.of("2 hours", offset="5 minutes"),
        pst.SlidingEventTimeWindows.of("90 minutes", "1 hour"),  # these start with the slices
    ):
        with pytest.raises(InvalidPlanError, match="windows begin or end within panes of 1 hour"):
            read.window(windows)
    with pytest.raises(InvalidPlanError, match="cannot be combined from slices"):
        read.window(pst.EventTimeSessionWindows.with_gap("1 hour"))
    asked = questions(spark)
    with pytest.raises(InvalidPlanError, match="is not a multiple of the slice of 1 hour"):
        read.as_of(asked, at="at", windows={"m": "90 minutes"})
    with pytest.raises(InvalidPlanError, match="no key 'usr'; did you mean 'user'"):
        read.as_of(asked, at="at", windows={"h": "1 hour"}, on={"usr": "user"})
    with pytest.raises(InvalidPlanError, match="the key 'user' is a bigint, in the tiles it is a string: cast it"):
        read.as_of(asked, at="at", windows={"h": "1 hour"}, on={"user": "id"})
    with pytest.raises(InvalidPlanError, match="Rename the window"):
        read.as_of(asked.withColumn("count_h", _expr("1")), at="at", windows={"h": "1 hour"})
    whole = rows.withColumn("price", rows.price.cast("bigint"))
    with pytest.raises(InvalidPlanError, match="'price' is of type bigint in the rows, but the tiles had double"):
        pst.from_panes(stored, agg.sum("price"), rows=whole, event_time="ts")
    with pytest.raises(InvalidPlanError, match=r"the key 'user' is not a column; .* its function user\(\)"):
        pst.from_panes(stored, agg.count(), rows=rows.withColumnRenamed("user", "visitor"), event_time="ts")
    with pytest.raises(InvalidPlanError, match="the key 'user' is not a column; known here: at, id"):
        read.as_of(asked.select("at", "id"), at="at", windows={"h": "1 hour"})
    with pytest.raises(InvalidPlanError, match=r"on is the column of the questions for each key .* got \['user'\]"):
        read.as_of(asked, at="at", windows={"h": "1 hour"}, on=["user"])
    with pytest.raises(InvalidPlanError, match="the questions have more than one column 'at': rename or drop one"):
        read.as_of(asked.select("user", "at", "at"), at="at", windows={"h": "1 hour"})
    with pytest.raises(
        InvalidPlanError, match="the column 'any' of the questions has the type variant, which panestream does not support"
    ):
        read.as_of(asked.withColumn("any", _expr("parse_json('1')")), at="at", windows={"h": "1 hour"})
    with pytest.raises(InvalidPlanError, match="as_of reads a batch: the DataFrame of questions is a stream"):
        read.as_of(spark.readStream.format("rate").load(), at="timestamp", windows={"h": "1 hour"})
    with pytest.raises(InvalidPlanError, match="partitions is how many tasks read, from 1 on, got 0"):
        pst.from_panes(stored, agg.count(), partitions=0)
