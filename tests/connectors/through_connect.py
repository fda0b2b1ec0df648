"""A script for a separate process: Kafka and Delta through Spark Connect. Not a test module.

    through_connect.py FOLDER SERVERS CLICKS HOURS LATE

It fills the topic CLICKS and reads it with two queries, into the topics HOURS and LATE and into two Delta tables. Each query runs
three times, and then repeats its last micro-batch. The results go to FOLDER/found.json.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable
from pathlib import Path

import panestream as pst
from panestream import agg
from panestream.errors import MalformedRecordError
from tests.connectors import components
from tests.connectors.kafka.kafka_topics import Topics

ROUNDS = (
    (("ann", 10), ("bob", 20), ("ann", 3600)),
    (("ann", 3700), ("ann", 30), ("cid", 3 * 3600)),
    # An hour fires again, and one row is too late for its hour.
    (("ann", 3800), ("bob", 5 * 3600), ("ann", 40)),
)
SCHEMA = "user STRING, at BIGINT"


def count_by_hour(clicks):
    timed = clicks.assign_timestamps("at", pst.WatermarkStrategy.for_monotonous_timestamps(), unit="seconds")
    hours = timed.key_by("user").window(pst.TumblingEventTimeWindows.of("1 hour"))
    return hours.allowed_lateness("2 hours").side_output_late_data("late").options(key_groups=2).aggregate(agg.count().alias("n"))


def forget_last_commit(checkpoint: Path) -> None:
    """Undo Spark's last commit, as if the query was killed between the sink's commit and Spark's."""
    last = max(checkpoint.glob("commits/[0-9]*"), key=lambda path: int(path.name))
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)


def failed_after_the_commit(run: Callable[[], object]) -> bool:
    """Run a query that repeats its last micro-batch, and start it again if Spark's Kafka source failed. Return whether it failed.

    Spark's Kafka source asks for an offset that it has not looked up yet. By that time the micro-batch is committed.
    docs/how-to/kafka.md describes it.
    """
    from pyspark.errors import StreamingQueryException

    try:
        run()
    except StreamingQueryException as error:
        if "scala.Option.get()" not in str(error):
            raise
        run()
        return True
    return False


def transactions(table: Path) -> list[tuple[str, int]]:
    """Return the transactions in a Delta table's log, one for each commit that has one."""
    log = sorted(table.glob("_delta_log/*.json"))
    actions = [json.loads(line) for path in log for line in path.read_text().splitlines()]
    return [(action["txn"]["appId"], action["txn"]["version"]) for action in actions if "txn" in action]


def main() -> None:
    folder, servers, clicks, hours, late = Path(sys.argv[1]), *sys.argv[2:]
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.remote("local[2]")
    for name, value in components.session_settings(folder / "warehouse").items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    topics, found = Topics(servers), {"session": type(spark).__module__}

    def of(topic, **given):
        return pst.from_kafka(spark, servers, topic, schema=SCHEMA, **given)

    def start(name, result, sinks):
        result.start(checkpoint=str(folder / name), **sinks).await_termination()

    merged, appended = (f"delta.`{folder / name}`" for name in ("merged", "appended"))
    queries = {
        "topics": (
            count_by_hour(of(clicks)).with_firing(),
            {"main": pst.KafkaSink(servers, hours, ["user"]), "late": pst.KafkaSink(servers, late)},
        ),
        "tables": (
            count_by_hour(of(clicks)).changelog(),
            {"main": pst.MergeSink(merged, ["user"]), "late": pst.TableSink(appended)},
        ),
    }
    found["guarantees"] = {tag: sink.guarantee(spark) for tag, sink in queries["tables"][1].items()}
    for rows in ROUNDS:
        topics.write(clicks, [{"value": {"user": user, "at": at}} for user, at in rows])
        for name, query in queries.items():
            start(name, *query)
    for name, query in queries.items():
        forget_last_commit(folder / name)
        if failed_after_the_commit(functools.partial(start, name, *query)):
            found.setdefault("failed_once", []).append(name)
    of_tables = {
        "merged": "SELECT user, unix_seconds(window_start), n FROM",
        "appended": "SELECT user, at FROM",
    }
    for name, select in of_tables.items():
        rows = spark.sql(f"{select} delta.`{folder / name}`").collect()
        history = spark.sql(f"DESCRIBE HISTORY delta.`{folder / name}`").collect()
        found[name] = {
            "rows": sorted(map(list, rows)),
            "operations": [row.operation for row in history[::-1]],
            "transactions": [version for _, version in transactions(folder / name)],
        }
    topics.write(clicks, [{"value": b"?"}])
    try:
        start("malformed", count_by_hour(of(clicks)), {"main": pst.ParquetSink(str(folder / "out"))})
    except MalformedRecordError as error:
        found["malformed"] = str(error)
    (folder / "found.json").write_text(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main()
