"""Outputs as records of a real Kafka, and the rules by which a reader sees each record once."""

from __future__ import annotations

from collections import Counter
from datetime import datetime

import pyspark
import pytest

import panestream as pst
from panestream import agg
from panestream.errors import PanestreamWarning, SinkError
from panestream.spark.sinks.base import QueryRunInfo

pytestmark = [
    pytest.mark.connectors,
    pytest.mark.kafka,
    pytest.mark.filterwarnings("ignore::panestream.errors.PanestreamWarning"),
]

HOURS = pst.TumblingEventTimeWindows.of("1 hour")


@pytest.fixture(autouse=True)
def few_partitions(spark):
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    yield
    spark.conf.unset("spark.sql.shuffle.partitions")


def deduplicated_records(records):
    """Return the records that a reader accepts who follows the rule, partition by partition."""
    once = pst.sinks.KafkaDeduplicator()
    for record in records:
        # The deduplicator restarts after every record, from its saved state.
        once = pst.sinks.KafkaDeduplicator.from_json(once.to_json())
        if once.takes(record.topic, record.partition, record.headers):
            yield record


def results(spark, rows, order="user STRING, window_start TIMESTAMP, window_end TIMESTAMP, n BIGINT"):
    return spark.createDataFrame(rows, order).coalesce(1)


def of_hour(user, hour, n, *more):
    return (user, datetime(2024, 1, 1, hour), datetime(2024, 1, 1, hour + 1), n, *more)


def open_sink(spark, broker, topic, output="main", query="q", **given):
    sink = pst.KafkaSink(broker.servers, topic, **{"keys": ["user"], **given})
    return sink.open(spark, QueryRunInfo(query=query, output=output))


def table(records):
    """Return the last record of each key, without deleted keys."""
    last = {record.key: record.json for record in records}
    return {key: value for key, value in last.items() if value is not None}


def test_repeated_micro_batch_writes_the_same_records(spark, topics, broker):
    topic = topics.make(3)
    rows = [of_hour("ann", 1, 1), of_hour("ann", 1, 2), of_hour("ann", 1, 2), of_hour("bob", 1, 5), of_hour("ann", 2, 7)]
    main = open_sink(spark, broker, topic)
    main.write(results(spark, rows), 0)
    main.write(results(spark, [of_hour("ann", 3, 9)]), 1)
    first = topics.read(topic)
    # The run was interrupted after the sink. The session now has another time zone, and rows arrive in more or fewer partitions.
    zone = spark.conf.get("spark.sql.session.timeZone")
    again = results(spark, [of_hour("ann", 3, 9)])
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        main.write(again, 1)
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    every = topics.read(topic)
    assert len(every) == 7
    assert [(one.partition, one.offset) for one in deduplicated_records(every)] == [(one.partition, one.offset) for one in first]
    doubled = [one for one in every if one.json["n"] == 9]
    assert len({(one.partition, one.key, one.value, tuple(one.headers)) for one in doubled}) == 1
    assert (
        doubled[0].key
        == b'{"user":"ann","window_start":"2024-01-01T03:00:00.000000Z","window_end":"2024-01-01T04:00:00.000000Z"}'
    )
    # All rows of one key and window are written in their order, and each has a different id.
    ann = [one.json["n"] for one in first if one.json["user"] == "ann" and one.json["window_start"].startswith("2024-01-01T01")]
    assert ann == [1, 2, 2]
    assert len({dict(one.headers)["panestream-id"] for one in first}) == 6
    assert {dict(one.headers)["panestream-writer"] for one in first} == {b"q/main"}


def test_record_id_depends_on_query_output_key_and_firing(spark, topics, broker):
    columns = "user STRING, window_start TIMESTAMP, window_end TIMESTAMP, n BIGINT, firing STRING, firing_number BIGINT, is_last BOOLEAN"
    topic = topics.make(1)

    def ids(rows, batch, schema=columns, **given):
        before = len(topics.read(topic))
        open_sink(spark, broker, topic, **given).write(results(spark, rows, schema), batch)
        return [dict(one.headers)["panestream-id"] for one in topics.read(topic)[before:]]

    first, second = of_hour("ann", 1, 1, "early", 0, False), of_hour("ann", 1, 2, "on_time", 1, False)
    one = ids([first, second], 4)
    # After a restored checkpoint, other micro-batches emit the same firings. Their records keep the same ids.
    assert one == [*ids([first], 5), *ids([second], 6)]
    others = [
        *ids([first], 4, query="r"),
        *ids([first], 4, output="late"),
        *ids([of_hour("bob", 1, 1, "early", 0, False)], 4),
        *ids([first[:4]], 4, "user STRING, window_start TIMESTAMP, window_end TIMESTAMP, n BIGINT"),
        *ids([first[:4]], 5, "user STRING, window_start TIMESTAMP, window_end TIMESTAMP, n BIGINT"),
    ]
    assert len({*one, *others}) == 2 + 5


def test_outputs_without_keys_or_windows_are_written_and_repeated(spark, topics, broker):
    """Equal rows become separate records, and a repeated run writes them to the same partitions.

    The key of the global window has nulls.
    """
    topic = topics.make(4)
    rows = [("ann", n % 3) for n in range(12)]
    late = open_sink(spark, broker, topic, output="late", keys=[])
    late.write(results(spark, rows, "user STRING, at INT"), 0)
    first = topics.read(topic)
    assert Counter(one.json["at"] for one in first) == {0: 4, 1: 4, 2: 4}
    assert len({one.partition for one in first}) > 1
    late.write(spark.createDataFrame(rows[::-1], "user STRING, at INT").repartition(3), 0)
    every = topics.read(topic)
    assert len(every) == 24
    assert sorted(one.value for one in deduplicated_records(every)) == sorted(one.value for one in first)
    everything = topics.make(2)
    open_sink(spark, broker, everything, keys=[]).write(
        results(spark, [(None, None, 3)], "window_start TIMESTAMP, window_end TIMESTAMP, n INT"), 0
    )
    (record,) = topics.read(everything)
    assert (record.key, record.json["n"]) == (b'{"window_start":null,"window_end":null}', 3)


def test_compacted_topic_holds_the_last_results(spark, topics, broker):
    topic = topics.make(2, **{"cleanup.policy": "compact"})
    schema = "user STRING, window_start TIMESTAMP, window_end TIMESTAMP, n BIGINT, op STRING"
    main = open_sink(spark, broker, topic, compacted=True)
    changes = [of_hour("ann", 1, 1, "insert"), of_hour("bob", 1, 1, "insert"), of_hour("cid", 1, 4, "insert")]
    main.write(results(spark, changes, schema), 0)
    changes = [
        *(of_hour("ann", 1, 1, "update_before"), of_hour("ann", 1, 2, "update_after")),
        *(of_hour("ann", 1, 2, "update_before"), of_hour("ann", 1, 3, "update_after"), of_hour("bob", 1, 1, "delete")),
    ]
    main.write(results(spark, changes, schema), 1)
    once = topics.read(topic)
    assert len(once) == 5
    assert {value["user"]: value["n"] for value in table(once).values()} == {"ann": 3, "cid": 4}
    assert all("op" not in value for value in table(once).values())
    main.write(results(spark, changes, schema), 1)
    again = topics.read(topic)
    assert len(again) == 7
    assert table(again) == table(once)
    assert len({dict(one.headers)["panestream-id"] for one in again}) == 5


def test_unwritable_topic_is_refused_at_start(spark, topics, broker):
    with pytest.raises(SinkError, match=r"topic nowhere: 127\.0\.0\.1.* does not have this topic"):
        open_sink(spark, broker, "nowhere")
    with pytest.raises(SinkError, match="does not have windows, so compacted=True needs keys"):
        open_sink(spark, broker, "nowhere", output="late", keys=[], compacted=True)
    with pytest.raises(SinkError, match="servers must be"):
        pst.KafkaSink("localhost", "hot")
    with pytest.raises(SinkError, match="has its own argument"):
        pst.KafkaSink(broker.servers, "hot", options={"topic": "cold"})
    with pytest.raises(SinkError, match="no key column 'usr'; did you mean 'user'"):
        pst.KafkaSink(broker.servers, "hot", ["usr"]).check_columns(["user", "n"])


def test_record_larger_than_the_producer_limit_is_an_error(spark, topics, broker):
    topic = topics.make(1, **{"max.message.bytes": "4194304"})
    large = spark.sql("SELECT 'ann' AS user, repeat('x', 2000000) AS text")
    with pytest.raises(SinkError, match=r"a record is larger .*'kafka\.max\.request\.size'"):
        open_sink(spark, broker, topic).write(large, 0)
    open_sink(spark, broker, topic, options={"kafka.max.request.size": "4194304"}).write(large, 1)
    (record,) = topics.read(topic)
    assert len(record.json["text"]) == 2_000_000


@pytest.mark.smoke
def test_query_from_topic_to_topic_is_read_once_after_restart(spark, topics, broker, tmp_path):
    """Main has early and late firings with numbers, and late rows have another topic.

    The query restarts and reports its guarantee.
    """
    from tests.connectors import through_connect

    source, main, late = topics.make(2), topics.make(3, "main"), topics.make(1, "late")
    clicks = pst.from_kafka(spark, broker.servers, source, schema="user STRING, at BIGINT")
    timed = clicks.assign_timestamps("at", pst.WatermarkStrategy.for_monotonous_timestamps(), unit="seconds")
    windows = timed.key_by("user").window(HOURS).allowed_lateness("1 hour").side_output_late_data("late")
    result = windows.options(key_groups=2).aggregate(agg.count().alias("n")).with_firing()

    def run(*rows):
        topics.write(source, [{"partition": at % 2, "value": {"user": user, "at": at}} for user, at in rows])
        sinks = {"main": pst.KafkaSink(broker.servers, main, ["user"]), "late": pst.KafkaSink(broker.servers, late)}
        with pytest.warns(PanestreamWarning, match="exactly once for a reader that takes each panestream-id once"):
            query = result.start(checkpoint=str(tmp_path / "checkpoint"), **sinks)
        query.await_termination()

    run(("ann", 10), ("bob", 11), ("ann", 3600), ("ann", 3601))
    run(("ann", 20), ("ann", 4 * 3600), ("ann", 4 * 3600 + 1))
    run(("ann", 21), ("ann", 8 * 3600), ("ann", 8 * 3600 + 1))
    before = topics.read(main)
    # As if it was killed between the sink's write and Spark's commit, records repeat, and a reader skips them.
    through_connect.forget_last_commit(tmp_path / "checkpoint")
    failed = through_connect.failed_after_the_commit(run)
    assert failed or pyspark.__version__ != "4.1.1"
    every = topics.read(main)
    assert len(every) > len(before)
    assert sorted(one.value for one in deduplicated_records(every)) == sorted(one.value for one in before)
    fired = [(one.json["user"], one.json["n"], one.json["firing"], one.json["firing_number"]) for one in before]
    hours = [
        ("ann", 1, "on_time", 0),
        ("ann", 2, "late", 1),
        ("ann", 2, "on_time", 0),
        ("ann", 2, "on_time", 0),
        ("bob", 1, "on_time", 0),
    ]
    assert sorted(fired) == hours
    assert [one.json["at"] for one in deduplicated_records(topics.read(late))] == [21]
