"""The state views of queries over real events, after some of their micro-batches, agree with a count of the events alone."""

from __future__ import annotations

import csv
import gzip
import os
import random
from collections import Counter, defaultdict
from datetime import datetime, timezone
from itertools import pairwise

import numpy as np
import pytest

import panestream as pst
from panestream import agg

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore::panestream.errors.PanestreamWarning"),
]

MINUTE = 60
LOOKS = 3


def in_files(rows, folder, files):
    """Write the rows in files that a stream reads one after the other. Return the rows of each file."""
    folder.mkdir()
    cuts = [len(rows) * number // files for number in range(files + 1)]
    batches = [rows[begin:end] for begin, end in pairwise(cuts)]
    for number, batch in enumerate(batches):
        file = folder / f"{number:03d}.csv"
        with file.open("w", newline="") as lines:
            csv.writer(lines).writerows(batch)
        os.utime(file, (1_700_000_000 + number,) * 2)
    return batches


def lines(path):
    with gzip.open(path, "rt") as text:
        return list(csv.reader(text))


def after_some(spark, checkpoint, batches):
    """Return the state's windows after some micro-batches, including the last, as lists of columns."""
    chosen = {*random.Random(batches).sample(range(batches), LOOKS - 1), batches - 1}
    assert len(chosen) in (LOOKS, LOOKS - 1)
    for batch_id in sorted(chosen):
        shown = pst.state.read_checkpoint(spark, checkpoint, batch_id).windows
        columns = ["key.*", "unix_seconds(window_start) AS start", "unix_seconds(window_end) AS end", "results.*", "rows"]
        yield batch_id, [tuple(row) for row in shown.selectExpr(*columns).collect()]


def test_state_views_of_late_taxi_rides_agree_with_a_count(spark, event_data, tmp_path):
    """Windows of 30 minutes every 10 by the rides' starts, keyed by passengers.

    Rides arrive at their ends, out of order by hours.
    """
    rides = [
        (ride, int(datetime.fromisoformat(start).replace(tzinfo=timezone.utc).timestamp()), passengers)
        for ride, kind, _end, start, *_, passengers, _taxi, _driver in lines(event_data / "nyc_taxi_rides_2013-01-01.csv.gz")
        if kind == "END"
    ]
    batches = in_files(rides, tmp_path / "in", 10)
    size, slide, delay, lateness = 30 * MINUTE, 10 * MINUTE, 5 * MINUTE, 10 * MINUTE
    stream = spark.readStream.schema("ride bigint, start bigint, passengers int").option("maxFilesPerTrigger", 1)
    result = (
        pst.stream(stream.csv(str(tmp_path / "in")).selectExpr("ride", "timestamp_seconds(start) AS start", "passengers"))
        .assign_timestamps("start", pst.WatermarkStrategy.for_bounded_out_of_orderness(f"{delay} seconds"))
        .key_by("passengers")
        .window(pst.SlidingEventTimeWindows.of(f"{size} seconds", f"{slide} seconds"))
        .allowed_lateness(f"{lateness} seconds")
        .aggregate(agg.count().alias("rides"), agg.sum("ride").alias("total"))
    )
    checkpoint = str(tmp_path / "checkpoint")
    result.start(main=pst.MemorySink(), checkpoint=checkpoint).await_termination()
    # A window accepts rows until the watermark passes its end plus the lateness. The watermark is the largest start minus the
    # delay.
    held, closed, expected = defaultdict(lambda: (0, 0)), None, []
    for batch in batches:
        for ride, start, passengers in batch:
            for begin in range(start // slide * slide, start // slide * slide - size, -slide):
                if closed is None or begin + size > closed:
                    count, total = held[int(passengers), begin]
                    held[int(passengers), begin] = count + 1, total + int(ride)
        closed = (
            max([start for _, start, _ in batch] + ([] if closed is None else [closed + delay + lateness])) - delay - lateness
        )
        held = defaultdict(lambda: (0, 0), {place: sums for place, sums in held.items() if place[1] + size > closed})
        expected.append(sorted((n, begin, begin + size, count, total, count) for (n, begin), (count, total) in held.items()))
    for batch_id, shown in after_some(spark, checkpoint, len(batches)):
        assert sorted(shown) == expected[batch_id]
        assert sum(row[3] for row in shown) > 1_000


def test_state_views_of_shop_sessions_and_hourly_views_agree_with_a_count(spark, event_data, tmp_path):
    """Sessions of users with gaps of ten minutes, and page views of items by the hour."""
    events = [
        (int(user), int(item), int(second))
        for user, item, _category, behavior, second in lines(event_data / "taobao_userbehavior_2h_sorted.csv.gz")
        if behavior == "pv"
    ]
    batches = in_files(events, tmp_path / "in", 6)
    stream = spark.readStream.schema("user bigint, item bigint, second bigint").option("maxFilesPerTrigger", 1)
    views = stream.csv(str(tmp_path / "in")).selectExpr("user", "item", "timestamp_seconds(second) AS at")
    timed = pst.stream(views).assign_timestamps("at", pst.WatermarkStrategy.for_monotonous_timestamps())
    gap = 10 * MINUTE
    sessions = timed.key_by("user").window(pst.EventTimeSessionWindows.with_gap(f"{gap} seconds"))
    hours = timed.key_by("item").window(pst.TumblingEventTimeWindows.of("1 hour"))
    for name, windowed in {"sessions": sessions, "hours": hours}.items():
        query = windowed.aggregate(agg.count().alias("views")).start(
            main=pst.MemorySink(), checkpoint=str(tmp_path / name), trigger="availableNow"
        )
        query.await_termination()
    come = np.cumsum([len(batch) for batch in batches])
    # Events are sorted by user and time. A session starts if the user changes or the gap is wide enough.
    table = np.array(events)
    for batch_id, shown in after_some(spark, str(tmp_path / "sessions"), len(batches)):
        some = table[: come[batch_id]]
        some = some[np.lexsort((some[:, 2], some[:, 0]))]
        begins = np.flatnonzero((np.diff(some[:, 0], prepend=-1) != 0) | (np.diff(some[:, 2], prepend=-1) > gap))
        ends = np.append(begins[1:], len(some))
        found = np.stack([some[begins, 0], some[begins, 2], some[ends - 1, 2] + gap, ends - begins, ends - begins], 1)
        expected = found[found[:, 2] > some[:, 2].max()]
        assert sorted(shown) == sorted(map(tuple, expected.tolist()))
        assert len(shown) > 1_000
    for batch_id, shown in after_some(spark, str(tmp_path / "hours"), len(batches)):
        some = events[: come[batch_id]]
        newest = max(second for *_, second in some)
        counts = Counter((item, second // 3600 * 3600) for _, item, second in some if second // 3600 * 3600 + 3600 > newest)
        assert sorted(shown) == sorted((item, hour, hour + 3600, n, n) for (item, hour), n in counts.items())
