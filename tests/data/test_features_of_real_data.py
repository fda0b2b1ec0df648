"""Rolling values, an as-of join, filled windows and rates of real events, each compared with a definition in DuckDB.

Only whole numbers of seconds reach DuckDB, so it shares no treatment of time with Spark.
"""

from __future__ import annotations

import csv
import gzip
from collections import defaultdict
from datetime import datetime, timezone

import duckdb
import pyarrow as pa
import pytest

import panestream as pst
from panestream import agg
from tests.data.test_real_data import rides

pytestmark = pytest.mark.spark

MINUTE = 60


def keyed(spark, rows, schema, key):
    """Return rows of a batch, whose column ``moment`` has seconds, keyed."""
    df = spark.createDataFrame(rows, schema).selectExpr("*", "timestamp_seconds(moment) AS ts")
    return pst.stream(df, time="ts", out_of_orderness="1 second").key_by(key)


def by_duckdb(query, **tables):
    """Return the rows of a query over lists of tuples, given with the names of their columns."""
    with duckdb.connect() as connection:
        for name, (columns, rows) in tables.items():
            arrays = [pa.array(column) for column in zip(*rows, strict=True)]
            connection.register(name, pa.table(arrays, names=columns.split()))
        return sorted(connection.execute(query).fetchall(), key=repr)


def rows_of(df, *columns):
    return sorted((tuple(row) for row in df.selectExpr(*columns).collect()), key=repr)


REVENUE = """
WITH steps AS (
    SELECT DISTINCT zone, moment // 60 * 60 + 60 + wait AS as_of FROM fares, (VALUES (0), (900), (3600)) AS waits(wait)
), sums AS (
    SELECT s.zone, s.as_of, sum(cents) FILTER (moment >= as_of - 900)::BIGINT AS quarter, sum(cents)::BIGINT AS hour,
        count(moment) FILTER (moment >= as_of - 900) AS n_quarter, count(moment) AS n_hour
    FROM steps AS s LEFT JOIN fares AS f ON f.zone = s.zone AND f.moment >= s.as_of - 3600 AND f.moment < s.as_of GROUP BY ALL
)
SELECT * FROM sums
QUALIFY (quarter, hour, n_quarter, n_hour) IS DISTINCT FROM lag((quarter, hour, n_quarter, n_hour)) OVER (PARTITION BY zone ORDER BY as_of)
"""


def test_rolling_revenue_of_taxi_zones_changes_when_rides_enter_or_leave_a_window(spark, event_data):
    fares = []
    for _, _, end, start, _, _, longitude, latitude, *_ in rides(event_data):
        ended, began = (int(datetime.fromisoformat(time).replace(tzinfo=timezone.utc).timestamp()) for time in (end, start))
        fares.append((f"{float(longitude):.2f} {float(latitude):.2f}", ended, 250 + 50 * ((ended - began) // MINUTE)))
    stream = keyed(spark, fares, "zone string, moment bigint, cents bigint", "zone")
    rolling = stream.rolling({"15m": "15 minutes", "1h": "1 hour"}, every="1 minute")
    found = rolling.aggregate(agg.sum("cents").alias("cents"), agg.count().alias("n")).main
    expected = by_duckdb(REVENUE, fares=("zone moment cents", fares))
    assert rows_of(found, "zone", "unix_seconds(as_of)", "cents_15m", "cents_1h", "n_15m", "n_1h") == expected
    assert len(expected) > 10_000


AS_OF = """
SELECT c.number, CASE WHEN c.moment - p.moment <= 600 THEN p.price END AS price
FROM clicks AS c ASOF LEFT JOIN prices AS p ON c.category = p.category AND c.moment >= p.moment
"""


def test_clicks_get_the_last_price_paid_in_their_category_within_ten_minutes(spark, event_data):
    with gzip.open(event_data / "taobao_userbehavior_2h_sorted.csv.gz", "rt") as lines:
        read = [line.rstrip("\n").split(",") for line in lines]
    clicks = [(int(category), number, int(at)) for number, (_, _, category, kind, at) in enumerate(read) if kind == "pv"]
    # The files have no prices: the item takes the place of one. Of one second, the largest counts, because an order is needed.
    paid = defaultdict(int)
    for _, item, category, kind, at in read:
        if kind == "buy":
            paid[int(category), int(at)] = max(paid[int(category), int(at)], int(item))
    prices = [(category, at, price) for (category, at), price in paid.items()]
    left = keyed(spark, clicks, "category bigint, number bigint, moment bigint", "category")
    right = keyed(spark, prices, "category bigint, moment bigint, price bigint", "category")
    found = left.asof_join(right, tolerance="10 minutes").pairs("left", suffixes=("", "_paid")).main
    expected = by_duckdb(AS_OF, clicks=("category number moment", clicks), prices=("category moment price", prices))
    assert rows_of(found, "number", "price") == expected
    known = sum(price is not None for _, price in expected)
    assert 1_000 < known < len(expected) == 98_361


FILLED = """
WITH hours AS (
    SELECT net, moment // 3600 AS hour, count(*) AS n, max(mag) AS strongest FROM quakes GROUP BY ALL
), every_hour AS (
    SELECT net, unnest(range(min(hour), (SELECT max(hour) + 1 FROM hours))) AS hour FROM hours GROUP BY net
)
SELECT net, hour * 3600, coalesce(n, 0), last_value(strongest IGNORE NULLS) OVER (PARTITION BY net ORDER BY hour)
FROM every_hour LEFT JOIN hours USING (net, hour)
"""


def test_hours_without_earthquakes_are_filled_for_each_network(spark, event_data):
    with gzip.open(event_data / "usgs_earthquakes_30d_2025-07-23.csv.gz", "rt", encoding="utf-8") as lines:
        quakes = [
            (row["net"], int(datetime.fromisoformat(row["time"].replace("Z", "+00:00")).timestamp()), float(row["mag"] or 0))
            for row in csv.DictReader(lines)
        ]
    windows = keyed(spark, quakes, "net string, moment bigint, mag double", "net").window(pst.tumbling("1 hour"))
    filled = windows.fill("last", {"n": "zero"}).aggregate(agg.count().alias("n"), agg.max("mag").alias("strongest"))
    expected = by_duckdb(FILLED, quakes=("net moment mag", quakes))
    assert rows_of(filled.main, "net", "unix_seconds(window_start)", "n", "strongest") == expected
    empty = sum(n == 0 for _, _, n, _ in expected)
    assert len(expected) / 2 < empty < len(expected)


RATES = """
WITH steps AS (
    SELECT *, moment // 600 * 600 AS begins, lag(total) OVER (PARTITION BY status, moment // 600 ORDER BY moment) AS before FROM readings
)
SELECT status, begins, sum(CASE WHEN total < before THEN total ELSE total - before END) / nullif(max(moment) - min(moment), 0)
FROM steps GROUP BY status, begins
"""


def test_requests_have_their_rate_although_the_counter_restarts(spark, event_data):
    with gzip.open(event_data / "nasa_http_1995-08-01.tsv.gz", "rt", encoding="latin-1") as lines:
        requests = [line.split("\t") for line in lines][1:]
    # Each status has a counter, which is read after each second with a request. The server restarts after 7,000 requests.
    readings, counters = {}, defaultdict(int)
    for number, (_, _, at, _, _, status, *_) in enumerate(requests):
        if number % 7_000 == 0:
            counters.clear()
        counters[status] += 1
        readings[status, int(at)] = counters[status]
    rows = [(status, at, total) for (status, at), total in readings.items()]
    windows = keyed(spark, rows, "status string, moment bigint, total bigint", "status").window(pst.tumbling("10 minutes"))
    rates = windows.aggregate(agg.rate("total").alias("rate")).main
    found = rows_of(rates, "status", "unix_seconds(window_start)", "rate")
    expected = by_duckdb(RATES, readings=("status moment total", rows))
    assert [row[:2] for row in found] == [row[:2] for row in expected]
    assert [row[2] for row in found] == [None if row[2] is None else pytest.approx(row[2], rel=1e-12) for row in expected]
    busiest = max(row[2] or 0 for row in expected)
    assert 0.5 < busiest < 10
