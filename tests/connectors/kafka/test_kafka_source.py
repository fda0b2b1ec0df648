"""Rows from a real Kafka: columns of a record, malformed records, and a watermark for each partition."""

from __future__ import annotations

import doctest
import time
from datetime import datetime, timezone

import pytest

import panestream as pst
from panestream import agg
from panestream.errors import InvalidPlanError, MalformedRecordError

pytestmark = [pytest.mark.connectors, pytest.mark.kafka]

SCHEMA = "user STRING, at BIGINT"
STRICT = pst.WatermarkStrategy.for_monotonous_timestamps()
HOUR = 3600


def events(topic_records):
    """Make records of (partition, user, seconds)."""
    return [{"key": user, "partition": partition, "value": {"user": user, "at": at}} for partition, user, at in topic_records]


def count_by_hour(clicks, strategy=STRICT):
    """Count events by user and hour, with outputs for late and invalid rows."""
    timed = clicks.assign_timestamps("at", strategy, unit="seconds").side_output_invalid("invalid")
    hours = timed.key_by("user").window(pst.TumblingEventTimeWindows.of("1 hour")).side_output_late_data("late")
    return hours.options(key_groups=2).aggregate(agg.count().alias("n"), agg.min("at").alias("first"))


def run(result, checkpoint, **sinks):
    """Run until the input ends. An output without a sink is collected in memory."""
    others = {tag: pst.MemorySink() for tag in result.plan.tags}
    query = result.start(checkpoint=str(checkpoint), **{**others, **sinks})
    query.await_termination()
    return query


def test_kafka_records_become_columns(spark, topics, broker):
    topic = topics.make(2)
    at = int(datetime(2024, 1, 1, tzinfo=timezone.utc).timestamp() * 1000)
    written = {"key": "ann", "partition": 1, "value": {"user": "ann", "at": 7}, "timestamp": at, "headers": [("trace", b"abc")]}
    topics.write(topic, [written])
    clicks = pst.from_kafka(
        spark, broker.servers, topic, schema=SCHEMA, headers=True, columns={"double": "at * 2", "more": "double + 1"}, batch=True
    )
    (row,) = clicks.df.collect()
    assert (row.user, row.at, row.double, row.more, row.kafka_key) == ("ann", 7, 14, 15, "ann")
    assert (row.kafka_topic, row.kafka_partition, row.kafka_offset, row.kafka_source) == (topic, 1, 0, f"{topic}-1")
    assert row.kafka_timestamp.timestamp() * 1000 == at
    assert row.kafka_timestamp_type == "create"
    assert [(one.key, bytes(one.value)) for one in row.kafka_headers] == [("trace", b"abc")]
    logged = topics.make(1, **{"message.timestamp.type": "LogAppendTime"})
    topics.write(logged, [{"key": b'{"id": 3}', "value": b"hello", "timestamp": at}])
    words = pst.from_kafka(
        spark,
        broker.servers,
        [logged],
        value_format="string",
        key_format="json",
        key_schema="id INT",
        where="kafka_offset < 5",
        batch=True,
    )
    (row,) = words.df.collect()
    assert (row.kafka_value, row.kafka_key.id, row.kafka_timestamp_type) == ("hello", 3, "log_append")
    assert row.kafka_timestamp.timestamp() * 1000 > at


@pytest.mark.parametrize("documented", [pst.from_kafka, pst.datastream.KafkaStream], ids=lambda value: value.__name__)
def test_example_of_the_docstring_runs_with_kafka(spark, broker, documented):
    names = {"pst": pst, "agg": pst.agg, "spark": spark, "servers": broker.servers}
    (example,) = doctest.DocTestFinder(recurse=False).find(documented, globs=names)
    assert example.examples
    assert doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(example).failed == 0


BAD = [b"{", b"", None, b'{"user": "ann", "at": "x"}', b"[]", b"7", b"\xff"]


def test_malformed_record_goes_to_the_invalid_output_with_its_bytes(spark, topics, broker, tmp_path):
    topic = topics.make(1)
    good = events([(0, "ann", 10), (0, "ann", 20)])
    topics.write(topic, [*good, *({"key": "k", "value": one} for one in BAD), *events([(0, "bob", 2 * HOUR)])])
    clicks = pst.from_kafka(spark, broker.servers, topic, schema=SCHEMA, malformed="side_output")
    main, invalid = pst.MemorySink(), pst.MemorySink()
    query = run(count_by_hour(clicks), tmp_path / "checkpoint", main=main, invalid=invalid)
    assert [(row.user, row.n) for row in main.rows] == [("ann", 2)]
    invalid = sorted(invalid.rows, key=lambda row: row.kafka_offset)
    assert [row.kafka_offset for row in invalid] == [2, 3, 4, 5, 6, 7, 8]
    assert [row.kafka_malformed.value for row in invalid] == BAD
    assert all(row.at is None and row.user is None and row.kafka_timestamp is None for row in invalid)
    assert invalid[2].kafka_malformed.reason == "value is null"
    assert invalid[0].kafka_malformed.reason == f"value is not JSON of {SCHEMA}: '{{'"
    assert query.recent_progress[0].invalid_rows == len(BAD)


def test_malformed_record_fails_the_query_and_is_named(spark, topics, broker, tmp_path):
    topic = topics.make(1)
    topics.write(topic, [*events([(0, "ann", 10)]), {"value": b'{"user": "ann", "at": "x"}'}])
    clicks = pst.from_kafka(spark, broker.servers, topic, schema=SCHEMA)
    with pytest.raises(MalformedRecordError, match=rf"record at offset 1 of {topic}-0: its value is not JSON of .*at\W+x"):
        run(count_by_hour(clicks), tmp_path / "checkpoint", main=pst.MemorySink())
    # This also holds if the query only uses the topic's own timestamps.
    everything = pst.from_kafka(spark, broker.servers, topic, schema=SCHEMA, batch=True)
    timed = everything.assign_timestamps("kafka_timestamp", STRICT)
    with pytest.raises(MalformedRecordError, match="offset 1"):
        timed.window_all(pst.TumblingEventTimeWindows.of("1 hour")).aggregate(agg.count()).run(main=pst.MemorySink())
    text = pst.from_kafka(spark, broker.servers, topic, value_format="string", batch=True)
    assert text.df.where("kafka_value IS NOT NULL").count() == 2


def test_malformed_records_need_an_invalid_output(spark, broker):
    clicks = pst.from_kafka(spark, broker.servers, "clicks", schema=SCHEMA, malformed="side_output")
    with pytest.raises(InvalidPlanError, match="side_output_invalid"):
        clicks.key_by("user")
    with pytest.raises(InvalidPlanError, match="side_output_invalid"):
        clicks.window_all(pst.TumblingProcessingTimeWindows.of("1 second"))


def test_lagging_partition_holds_the_watermark_back(spark, topics, broker, tmp_path):
    """One partition is an hour late, and none of its rows is late for its windows. All windows fire once it has caught up."""
    topic, other = topics.make(2), topics.make(1)
    clicks = pst.from_kafka(spark, broker.servers, [topic, other], schema=SCHEMA)
    result, sinks = count_by_hour(clicks), {"main": pst.MemorySink(), "late": pst.MemorySink()}
    topics.write(topic, events([(0, "ann", 2 * HOUR), (1, "bob", 10)]))
    topics.write(other, events([(0, "cid", 3 * HOUR)]))
    run(result, tmp_path / "checkpoint", **sinks)
    # Partition 0 of the other topic has its own watermark.
    topics.write(topic, events([(1, "bob", 20), (0, "ann", 2 * HOUR + 1)]))
    topics.write(other, events([(0, "cid", 3 * HOUR + 1)]))
    run(result, tmp_path / "checkpoint", **sinks)
    assert not sinks["main"].rows
    topics.write(topic, events([(1, "bob", 5 * HOUR), (0, "ann", 5 * HOUR)]))
    run(result, tmp_path / "checkpoint", **sinks)
    assert sorted((row.user, row.n, row.first) for row in sinks["main"].rows) == [("ann", 2, 2 * HOUR), ("bob", 2, 10)]
    assert not sinks["late"].rows


@pytest.mark.parametrize("pieces", [1, 6])
def test_rows_arrive_in_the_order_of_their_offsets(spark, topics, broker, tmp_path, pieces):
    """This also holds if several tasks read a partition. The watermark belongs to the partition, not to a task."""
    topic = topics.make(1)
    topics.write(topic, events([*((0, "ann", 60) for _ in range(59)), (0, "ann", 10)]))
    clicks = pst.from_kafka(spark, broker.servers, topic, schema=SCHEMA, options={"minPartitions": str(pieces)})
    timed = clicks.assign_timestamps("at", STRICT, unit="seconds")
    counts = timed.key_by("user").count_window(60)
    main = pst.MemorySink()
    query = run(counts.aggregate(agg.collect_list("kafka_offset").alias("offsets")), tmp_path / "checkpoint", main=main)
    # A list has the order of event time, and for equal times the order of arrival.
    assert [row.offsets for row in main.rows] == [[59, *range(59)]]
    assert query.recent_progress[0].watermark == 60_000_000 - 1


@pytest.mark.parametrize("partitions", [None, 2])
def test_partition_without_records_holds_the_watermark_only_if_declared(spark, topics, broker, tmp_path, partitions):
    """Flink sees all splits and waits for each. Spark does not report partitions before their first record."""
    topic, sinks = topics.make(2), {"main": pst.MemorySink(), "late": pst.MemorySink()}
    result = count_by_hour(pst.from_kafka(spark, broker.servers, topic, schema=SCHEMA, partitions=partitions))
    for rows in ([(0, "ann", 10), (0, "ann", 2 * HOUR)], [(1, "bob", 20), (0, "ann", 2 * HOUR)], [(1, "bob", 2 * HOUR)]):
        topics.write(topic, events(rows))
        run(result, tmp_path / "checkpoint", **sinks)
    fired, late = sorted((row.user, row.n) for row in sinks["main"].rows), [row.user for row in sinks["late"].rows]
    assert (fired, late) == (([("ann", 1)], ["bob"]) if partitions is None else ([("ann", 1), ("bob", 1)], []))


def test_rows_removed_by_where_do_not_move_the_watermark(spark, topics, broker, tmp_path):
    """Flink behaves the same with ``filter`` before the watermark strategy.

    A partition without remaining rows counts as silent.
    """
    topic, main = topics.make(2), pst.MemorySink()
    result = count_by_hour(pst.from_kafka(spark, broker.servers, topic, schema=SCHEMA, where="user <> 'bot'"))
    for rows in (
        [(0, "ann", 10), (1, "bob", 20)],
        # In partition 1 only the bot has newer times, and its rows are removed. So this partition keeps the hour open.
        [(0, "ann", 2 * HOUR), (1, "bot", 2 * HOUR)],
    ):
        topics.write(topic, events(rows))
        query = run(result, tmp_path / "checkpoint", main=main)
    (progress,) = query.recent_progress
    assert (main.rows, progress.rows, progress.watermark) == ([], 1, 20_000_000 - 1)
    topics.write(topic, events([(1, "bob", 2 * HOUR)]))
    run(result, tmp_path / "checkpoint", main=main)
    assert sorted((row.user, row.n) for row in main.rows) == [("ann", 1), ("bob", 1)]


def test_watermark_follows_partitions_that_stop_resume_and_are_added(spark, topics, broker, tmp_path):
    topic, sinks = topics.make(2), {tag: pst.MemorySink() for tag in ("main", "late", "invalid")}
    clicks = pst.from_kafka(spark, broker.servers, topic, schema=SCHEMA, idle_after="2 seconds")
    query = count_by_hour(clicks).start(checkpoint=str(tmp_path / "checkpoint"), trigger="10 milliseconds", **sinks)

    def feed(*rows):
        topics.write(topic, events(rows))
        query.query.processAllAvailable()
        fired = {}
        for row in sinks["main"].rows:
            fired.setdefault(row.window_start.hour, []).append((row.user, row.n))
        return {hour: sorted(counts) for hour, counts in fired.items()}

    try:
        assert not feed((0, "ann", 10), (1, "bob", 20))
        # The partition falls silent. It becomes idle after some micro-batches, not at once.
        fired, silent = feed((0, "ann", 2 * HOUR)), 1
        assert not fired
        deadline = time.monotonic() + 120
        while not fired and time.monotonic() < deadline:
            fired, silent = feed((0, "ann", 2 * HOUR + silent)), silent + 1
        assert fired == {0: [("ann", 1), ("bob", 1)]}
        assert silent >= 3
        # It resumes with rows that are late by now. From then on it counts again.
        feed((1, "bob", 30))
        assert [row.at for row in sinks["late"].rows] == [30]
        feed((1, "bob", 3 * HOUR))
        fired = feed((0, "ann", 5 * HOUR), (1, "bob", 3 * HOUR))
        assert fired[2] == [("ann", silent)]
        assert 3 not in fired
        # A new partition: its rows older than the watermark are late, but from then on it holds the watermark back.
        topics.grow(topic, 3)
        feed((2, "cid", 40))
        assert [row.at for row in sinks["late"].rows] == [30, 40]
        assert 3 not in feed((2, "cid", 41), (0, "ann", 5 * HOUR), (1, "bob", 5 * HOUR))
        fired = feed((2, "cid", 6 * HOUR), (0, "ann", 6 * HOUR), (1, "bob", 6 * HOUR))
        assert (fired[3], fired[5]) == ([("bob", 2)], [("ann", 2), ("bob", 1)])
        broker.kill()
        broker.start()
        fired = feed(*((place, "dan", 9 * HOUR) for place in range(3)))
        assert fired[6] == [("ann", 1), ("bob", 1), ("cid", 1)]
        assert [row.at for row in sinks["late"].rows] == [30, 40, 41]
    finally:
        query.stop()


def test_wrong_kafka_source_is_refused_before_the_query_runs(spark, broker):
    def read(**given):
        return pst.from_kafka(spark, **{"servers": broker.servers, "topics": "clicks", "schema": SCHEMA, **given})

    for given, said in (
        ({"servers": "nowhere"}, "servers must be 'host:port'"),
        ({"topics": []}, "topics must be names"),
        ({"topics": "a,b"}, "a topic has a name of"),
        ({"schema": None}, "value_format 'json' needs a schema"),
        ({"schema": "user NONSENSE"}, "is not Spark DDL"),
        ({"schema": "kafka_offset BIGINT"}, "cannot be called 'kafka_offset'"),
        ({"value_format": "protobuf"}, "value_format is one of"),
        ({"key_schema": "a INT"}, "key_format 'string' does not support a schema"),
        ({"malformed": "drop"}, "malformed is 'fail' or 'side_output'"),
        ({"records_per_batch": 0}, "records_per_batch must be a positive number"),
        ({"options": {"maxOffsetsPerTrigger": "5"}}, "has its own argument"),
        ({"starting": "yesterday"}, "starting is 'earliest'"),
        ({"options": {"kafka.key.deserializer": "x"}}, "Spark's Kafka source refuses"),
        ({"where": "nothing > 5"}, "where 'nothing > 5'"),
        ({"partitions": 0}, "partitions is how many a topic has, a positive number; got 0 of 'clicks'"),
        ({"partitions": {"clicks": 2, "click": 2}}, "partitions names the topic 'click', which is not read"),
        ({"topics": "clicks.*", "partitions": 2}, "not to a pattern"),
    ):
        with pytest.raises(InvalidPlanError, match=said):
            read(**given)
