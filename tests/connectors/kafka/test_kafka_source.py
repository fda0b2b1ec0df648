"""Rows from a real Kafka: what is in the records, what cannot be read, and a watermark for each partition."""

from __future__ import annotations

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
    """Records of (partition, user, seconds)."""
    return [{"key": user, "partition": partition, "value": {"user": user, "at": at}} for partition, user, at in topic_records]


def counted(clicks, strategy=STRICT):
    """Events by user and hour; with the outputs for late and for invalid rows."""
    timed = clicks.assign_timestamps("at", strategy, unit="seconds").side_output_invalid("invalid")
    hours = timed.key_by("user").window(pst.TumblingEventTimeWindows.of("1 hour")).side_output_late_data("late")
    return hours.options(key_groups=2).aggregate(agg.count().alias("n"), agg.min("at").alias("first"))


def run(result, checkpoint, **sinks):
    """All that is there; an output without a sink is kept in memory."""
    others = {tag: pst.MemorySink() for tag in result.plan.tags}
    query = result.start(checkpoint=str(checkpoint), **{**others, **sinks})
    query.await_termination()
    return query


def test_records_are_columns(spark, topics, broker):
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


BAD = [b"{", b"", None, b'{"user": "ann", "at": "x"}', b"[]", b"7", b"\xff"]


def test_what_cannot_be_read_goes_to_the_invalid_output_with_its_bytes(spark, topics, broker, tmp_path):
    topic = topics.make(1)
    good = events([(0, "ann", 10), (0, "ann", 20)])
    topics.write(topic, [*good, *({"key": "k", "value": one} for one in BAD), *events([(0, "bob", 2 * HOUR)])])
    clicks = pst.from_kafka(spark, broker.servers, topic, schema=SCHEMA, malformed="side_output")
    main, invalid = pst.MemorySink(), pst.MemorySink()
    query = run(counted(clicks), tmp_path / "checkpoint", main=main, invalid=invalid)
    assert [(row.user, row.n) for row in main.rows] == [("ann", 2)]
    invalid = sorted(invalid.rows, key=lambda row: row.kafka_offset)
    assert [row.kafka_offset for row in invalid] == [2, 3, 4, 5, 6, 7, 8]
    assert [row.kafka_malformed.value for row in invalid] == BAD
    assert all(row.at is None and row.user is None and row.kafka_timestamp is None for row in invalid)
    assert invalid[2].kafka_malformed.reason == "value is null"
    assert invalid[0].kafka_malformed.reason == f"value is no JSON of {SCHEMA}: '{{'"
    assert query.recent_progress[0].invalid_rows == len(BAD)


def test_what_cannot_be_read_fails_and_is_named(spark, topics, broker, tmp_path):
    topic = topics.make(1)
    topics.write(topic, [*events([(0, "ann", 10)]), {"value": b'{"user": "ann", "at": "x"}'}])
    clicks = pst.from_kafka(spark, broker.servers, topic, schema=SCHEMA)
    with pytest.raises(MalformedRecordError, match=rf"record at offset 1 of {topic}-0: its value is no JSON of .*at\W+x"):
        run(counted(clicks), tmp_path / "checkpoint", main=pst.MemorySink())
    # Also where nothing that the record holds is asked for but its topic's clock.
    everything = pst.from_kafka(spark, broker.servers, topic, schema=SCHEMA, batch=True)
    timed = everything.assign_timestamps("kafka_timestamp", STRICT)
    with pytest.raises(MalformedRecordError, match="offset 1"):
        timed.window_all(pst.TumblingEventTimeWindows.of("1 hour")).aggregate(agg.count()).run(main=pst.MemorySink())
    text = pst.from_kafka(spark, broker.servers, topic, value_format="string", batch=True)
    assert text.df.where("kafka_value IS NOT NULL").count() == 2


def test_malformed_records_need_an_output(spark, broker):
    clicks = pst.from_kafka(spark, broker.servers, "clicks", schema=SCHEMA, malformed="side_output")
    with pytest.raises(InvalidPlanError, match="side_output_invalid"):
        clicks.key_by("user")
    with pytest.raises(InvalidPlanError, match="side_output_invalid"):
        clicks.window_all(pst.TumblingProcessingTimeWindows.of("1 second"))


def test_a_partition_that_lags_holds_the_watermark_back(spark, topics, broker, tmp_path):
    """One partition is an hour behind: nothing of it is late; once it has come up, all windows fire."""
    topic, other = topics.make(2), topics.make(1)
    clicks = pst.from_kafka(spark, broker.servers, [topic, other], schema=SCHEMA)
    result, sinks = counted(clicks), {"main": pst.MemorySink(), "late": pst.MemorySink()}
    topics.write(topic, events([(0, "ann", 2 * HOUR), (1, "bob", 10)]))
    topics.write(other, events([(0, "cid", 3 * HOUR)]))
    run(result, tmp_path / "checkpoint", **sinks)
    # The other topic's partition 0 is another partition than this one's.
    topics.write(topic, events([(1, "bob", 20), (0, "ann", 2 * HOUR + 1)]))
    topics.write(other, events([(0, "cid", 3 * HOUR + 1)]))
    run(result, tmp_path / "checkpoint", **sinks)
    assert not sinks["main"].rows
    topics.write(topic, events([(1, "bob", 5 * HOUR), (0, "ann", 5 * HOUR)]))
    run(result, tmp_path / "checkpoint", **sinks)
    assert sorted((row.user, row.n, row.first) for row in sinks["main"].rows) == [("ann", 2, 2 * HOUR), ("bob", 2, 10)]
    assert not sinks["late"].rows


@pytest.mark.parametrize("pieces", [1, 6])
def test_offsets_are_the_order_in_which_rows_arrive(spark, topics, broker, tmp_path, pieces):
    """Also where Spark reads a partition in several tasks; the watermark is that of the partition, not of a task."""
    topic = topics.make(1)
    topics.write(topic, events([*((0, "ann", 60) for _ in range(59)), (0, "ann", 10)]))
    clicks = pst.from_kafka(spark, broker.servers, topic, schema=SCHEMA, options={"minPartitions": str(pieces)})
    timed = clicks.assign_timestamps("at", STRICT, unit="seconds")
    counts = timed.key_by("user").count_window(60)
    main = pst.MemorySink()
    query = run(counts.aggregate(agg.collect_list("kafka_offset").alias("offsets")), tmp_path / "checkpoint", main=main)
    # A list is in the order of event time, and of arrival where that is equal.
    assert [row.offsets for row in main.rows] == [[59, *range(59)]]
    assert query.recent_progress[0].watermark == 60_000_000 - 1


@pytest.mark.parametrize("partitions", [None, 2])
def test_a_partition_without_records_holds_the_watermark_only_where_somebody_says_that_it_is_there(
    spark, topics, broker, tmp_path, partitions
):
    """Flink knows all splits, and waits for each. Nobody tells Spark's queries of partitions before their first record."""
    topic, sinks = topics.make(2), {"main": pst.MemorySink(), "late": pst.MemorySink()}
    result = counted(pst.from_kafka(spark, broker.servers, topic, schema=SCHEMA, partitions=partitions))
    for rows in ([(0, "ann", 10), (0, "ann", 2 * HOUR)], [(1, "bob", 20), (0, "ann", 2 * HOUR)], [(1, "bob", 2 * HOUR)]):
        topics.write(topic, events(rows))
        run(result, tmp_path / "checkpoint", **sinks)
    fired, late = sorted((row.user, row.n) for row in sinks["main"].rows), [row.user for row in sinks["late"].rows]
    assert (fired, late) == (([("ann", 1)], ["bob"]) if partitions is None else ([("ann", 1), ("bob", 1)], []))


def test_what_where_leaves_out_moves_no_watermark(spark, topics, broker, tmp_path):
    """As in Flink a ``filter`` before the watermark's strategy: a partition of which all is left out is as if it were silent."""
    topic, main = topics.make(2), pst.MemorySink()
    result = counted(pst.from_kafka(spark, broker.servers, topic, schema=SCHEMA, where="user <> 'bot'"))
    for rows in (
        [(0, "ann", 10), (1, "bob", 20)],
        # Nobody's clock but the bot's goes on in partition 1: it holds the hour open.
        [(0, "ann", 2 * HOUR), (1, "bot", 2 * HOUR)],
    ):
        topics.write(topic, events(rows))
        query = run(result, tmp_path / "checkpoint", main=main)
    (progress,) = query.recent_progress
    assert (main.rows, progress.rows, progress.watermark) == ([], 1, 20_000_000 - 1)
    topics.write(topic, events([(1, "bob", 2 * HOUR)]))
    run(result, tmp_path / "checkpoint", main=main)
    assert sorted((row.user, row.n) for row in main.rows) == [("ann", 1), ("bob", 1)]


def test_partitions_stop_and_come_back_and_grow_and_the_broker_dies(spark, topics, broker, tmp_path):
    topic, sinks = topics.make(2), {"main": pst.MemorySink(), "late": pst.MemorySink()}
    clicks = pst.from_kafka(spark, broker.servers, topic, schema=SCHEMA, idle_after="2 seconds")
    query = counted(clicks).start(checkpoint=str(tmp_path / "checkpoint"), trigger="10 milliseconds", **sinks)

    def feed(*rows):
        topics.write(topic, events(rows))
        query.query.processAllAvailable()
        fired = {}
        for row in sinks["main"].rows:
            fired.setdefault(row.window_start.hour, []).append((row.user, row.n))
        return {hour: sorted(counts) for hour, counts in fired.items()}

    try:
        assert not feed((0, "ann", 10), (1, "bob", 20))
        # It falls silent: no micro-batch makes it idle at once, some do.
        fired, silent = feed((0, "ann", 2 * HOUR)), 1
        assert not fired
        deadline = time.monotonic() + 120
        while not fired and time.monotonic() < deadline:
            fired, silent = feed((0, "ann", 2 * HOUR + silent)), silent + 1
        assert fired == {0: [("ann", 1), ("bob", 1)]}
        assert silent >= 3
        # Back with what is late by now; from then on it counts again.
        feed((1, "bob", 30))
        assert [row.at for row in sinks["late"].rows] == [30]
        feed((1, "bob", 3 * HOUR))
        fired = feed((0, "ann", 5 * HOUR), (1, "bob", 3 * HOUR))
        assert fired[2] == [("ann", silent)]
        assert 3 not in fired
        # A new partition: what is older than the watermark is late, but then it holds the others back.
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


def test_what_is_wrong_is_said_before_anything_runs(spark, broker):
    def read(**given):
        return pst.from_kafka(spark, **{"servers": broker.servers, "topics": "clicks", "schema": SCHEMA, **given})

    for given, said in (
        ({"servers": "nowhere"}, "servers must be 'host:port'"),
        ({"topics": []}, "topics must be names"),
        ({"topics": "a,b"}, "a topic has a name of"),
        ({"schema": None}, "value_format 'json' needs a schema"),
        ({"schema": "user NONSENSE"}, "is no Spark DDL"),
        ({"schema": "kafka_offset BIGINT"}, "cannot be called 'kafka_offset'"),
        ({"value_format": "protobuf"}, "value_format is one of"),
        ({"key_schema": "a INT"}, "key_format 'string' takes no schema"),
        ({"malformed": "drop"}, "malformed is 'fail' or 'side_output'"),
        ({"records_per_batch": 0}, "records_per_batch must be a positive number"),
        ({"options": {"maxOffsetsPerTrigger": "5"}}, "has an argument of its own"),
        ({"starting": "yesterday"}, "starting is 'earliest'"),
        ({"options": {"kafka.key.deserializer": "x"}}, "Spark's Kafka source refuses"),
        ({"where": "nothing > 5"}, "where 'nothing > 5'"),
        ({"partitions": 0}, "partitions is how many a topic has, a positive number; got 0 of 'clicks'"),
        ({"partitions": {"clicks": 2, "click": 2}}, "partitions names the topic 'click', which is not read"),
        ({"topics": "clicks.*", "partitions": 2}, "a pattern names none"),
    ):
        with pytest.raises(InvalidPlanError, match=said):
            read(**given)
