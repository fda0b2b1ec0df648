"""A script that runs every operator with one version of Spark, on the checkpoints of the version before. Not a test module.

    carried.py FOLDER FIRST LAST [remote]

It adds the micro-batches FIRST to LAST, and runs all queries until they have processed them.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

SCHEMA = "user string, at timestamp, price bigint"
START = datetime(2026, 1, 1, tzinfo=timezone.utc)
# Seconds of each user in turn. Panes, sessions, counts and timers are open at each change of version.
SECONDS = ([0, 1, 2, 9, 12], [14, 16, 17, 3, 21], [24, 26, 33, 12, 34], [36, 48, 20, 49, 90])
USERS = ("ann", "bob", "cem")
ROWS = [
    [
        (user, START + timedelta(seconds=second), 100 * batch + 10 * place + USERS.index(user))
        for place, second in enumerate(seconds)
        for user in USERS
    ]
    for batch, seconds in enumerate(SECONDS)
]


def keyed(df: Any) -> Any:
    """Key the rows by user, with a watermark."""
    import panestream as pst

    watermark = pst.WatermarkStrategy.for_bounded_out_of_orderness("4 seconds")
    return pst.stream(df).assign_timestamps("at", watermark).arrival_order("price").key_by("user")


def count_visits(df: Any, *triggers: Any) -> Any:
    """Call a function with state for each key, on the row operator."""
    import panestream as pst

    visits = pst.state.ValueStateDescriptor("visits")

    def visit(key: Any, context: Any, rows: Any) -> Any:
        store = context.global_state().get_state(visits)
        store.update((store.value() or 0) + 1)
        return [(len(rows), sum(row.price for row in rows), store.value())]

    windowed = keyed(df).window(pst.SlidingEventTimeWindows.of("20 seconds", "10 seconds")).options(key_groups=2)
    for trigger in triggers:
        windowed = windowed.trigger(trigger)
    return windowed.side_output_late_data("late").process(visit, "n int, total bigint, visits int")


def queries() -> dict[str, Callable[[Any], Any]]:
    """Return a query for each operator. The row operator has two, with timers of event time and of processing time."""
    import panestream as pst
    from panestream import agg

    sliding = pst.SlidingEventTimeWindows.of("20 seconds", "10 seconds")
    count, total = agg.count().alias("n"), agg.sum("price").alias("total")
    newest = agg.max_by("price", "at").alias("newest")

    def windowed(df: Any, windows: Any) -> Any:
        return keyed(df).window(windows).options(key_groups=2).side_output_late_data("late")

    def by_the_clock(df: Any) -> Any:
        timeout = pst.triggers.ProcessingTimeoutTrigger.of(pst.CountTrigger.of(1000), "15 seconds")
        by_user = pst.stream(df).key_by("user").window(pst.GlobalWindows.create())
        return by_user.options(key_groups=2).trigger(timeout).aggregate(count, total)

    return {
        "panes": lambda df: windowed(df, sliding).aggregate(count, total, newest),
        "accumulating": lambda df: windowed(df, sliding).apply_arrow(
            lambda key, window, table: table.select(["price"]), "price bigint"
        ),
        "sessions": lambda df: windowed(df, pst.EventTimeSessionWindows.with_gap("8 seconds")).aggregate(count, total),
        "counts": lambda df: keyed(df).count_window(3).options(key_groups=2).aggregate(count, total),
        "row": lambda df: count_visits(df, pst.ContinuousEventTimeTrigger.of("5 seconds")),
        "clock": by_the_clock,
    }


def wait_for(query: Any, enough: Callable[[], bool]) -> None:
    """Wait until an endless query has done enough. Fail if the query failed or takes minutes."""
    deadline = time.monotonic() + 180
    while query.is_active and not enough() and time.monotonic() < deadline:
        time.sleep(0.3)
    query.stop()


def committed(checkpoint: Path) -> int:
    """Return how many micro-batches Spark has committed."""
    return sum(path.name.isdigit() for path in (checkpoint / "commits").glob("*"))


def all_seen(folder: Path) -> bool:
    """Return whether some firing of every user has all its rows."""
    import pyarrow.parquet as pq

    rows = pq.read_table(folder).to_pylist() if any(folder.rglob("*.parquet")) else []
    most = {user: max((row["n"] for row in rows if row["user"] == user), default=0) for user in USERS}
    return set(most.values()) == {sum(map(len, SECONDS))}


def main() -> None:
    """Run the script, as the module describes."""
    warnings.simplefilter("ignore")
    folder, first, last = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    import panestream as pst
    from panestream.testing import MicroBatches

    if "remote" in sys.argv:
        from pyspark.sql import SparkSession

        spark = SparkSession.builder.remote("local[2]").getOrCreate()
    else:
        spark = pst.build_session("carried on", {"spark.ui.enabled": "false", "spark.driver.memory": "1g"}, master="local[2]")
        spark.sparkContext.setLogLevel("ERROR")
    batches = MicroBatches(spark, folder / "in", SCHEMA)
    for rows in ROWS[first : last + 1]:
        batches.add(rows)
    running = {}
    for name, build in queries().items():
        result = build(batches.stream())
        checkpoint = folder / "checkpoints" / name
        sinks = {tag: pst.ParquetSink(str(folder / "out" / name / tag)) for tag in ("main", "late") if tag in result.plan.tags}
        trigger = "1 second" if name == "clock" else "availableNow"
        query = result.start(checkpoint=str(checkpoint), trigger=trigger, **sinks)
        if name == "clock" and last < len(ROWS) - 1:
            wait_for(query, lambda: committed(folder / "checkpoints" / "clock") > last)
        elif name == "clock":
            wait_for(query, lambda: all_seen(folder / "out" / "clock" / "main"))
        query.await_termination()
        running[name] = committed(checkpoint)
    print(json.dumps({"spark": spark.version, "committed": running}))
    spark.stop()


if __name__ == "__main__":
    main()
