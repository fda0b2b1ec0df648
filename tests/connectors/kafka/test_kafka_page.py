"""The blocks of docs/how-to/kafka.md and its job file run against a real broker."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import panestream as pst
from panestream import agg
from panestream.jobs.loading import load_job
from panestream.jobs.runner import build
from tests.connectors import components

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "how-to" / "kafka.md").read_text("utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
PARTS = re.findall(r"```python fragment\n(.*?)```", PAGE, re.DOTALL)
TOPICS = {"clicks": 2, "hot-items": 4, "late-clicks": 1, "hot-table": 1}

pytestmark = [
    pytest.mark.connectors,
    pytest.mark.kafka,
    pytest.mark.filterwarnings("ignore::panestream.errors.PanestreamWarning"),
]


def click(user, item, at, partition):
    return {"partition": partition, "value": {"user": user, "item": item, "at": f"2024-01-01T{at}Z"}}


@pytest.fixture
def named(topics):
    """Replace the page's topic names by names for this test alone."""
    return {name: topics.make(partitions, name) for name, partitions in TOPICS.items()}


def test_blocks_of_the_kafka_page_run(spark, topics, broker, named, tmp_path, monkeypatch):
    topics.write(
        named["clicks"], [click("ann", 7, "00:10:00", 0), click("bob", 7, "00:20:00", 1), {"partition": 0, "value": b"?"}]
    )
    topics.write(named["clicks"], [click("cid", 8, "02:00:00", place) for place in (0, 1)])
    monkeypatch.chdir(tmp_path)
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    known = {"spark": spark}
    blocks = [block for block in BLOCKS if "from_avro" not in block]
    assert len(blocks) == 5
    try:
        for block in blocks:
            code = block.replace("localhost:9092", broker.servers)
            code = re.sub(r'"checkpoint', f'"{tmp_path}/checkpoint', code).replace(
                '"invalid", "json"', f'"{tmp_path}/invalid", "json"'
            )
            for name, topic in named.items():
                code = code.replace(f'"{name}"', f'"{topic}"')
            exec(code, known)
    finally:
        spark.conf.unset("spark.sql.shuffle.partitions")
    hour_0 = {
        "item": 7,
        "window_start": "2024-01-01T00:00:00.000000Z",
        "views": 2,
        "users": 2,
        "firing": "on_time",
        "firing_number": 0,
    }
    assert [{name: value for name, value in json.loads(one).items() if name in hour_0} for one in known["taken"]] == [hour_0]
    assert [(row.item, row.views, row.firing_number) for row in known["hot"].collect()] == [(7, 2, 0)]
    (record,) = topics.read(named["hot-table"])
    assert (json.loads(record.key)["item"], record.json["views"], "op" in record.json) == (7, 2, False)
    assert spark.read.json(f"{tmp_path}/invalid").count() == 1


def test_sample_clicks_and_session_of_the_kafka_page_work(spark, topics, broker, tmp_path):
    writing, session = PARTS
    topic = topics.make(2)
    exec(writing.replace("localhost:9092", broker.servers).replace('"clicks"', f'"{topic}"'), {"spark": spark})
    assert sorted(record.json["user"] for record in topics.read(topic)) == ["ann", "bob", "cid"]
    named = re.search(r'"spark.jars.packages": "([^"]*)"', session)[1].split(",")
    if components.LINE == "4.1":
        assert set(named) <= set(components.packages().values())
    given = components.session_settings(tmp_path)
    said = dict(re.findall(r'"(spark\.sql\.[\w.]+)": "([^"]*)"', session))
    assert all(value in given[name] for name, value in said.items()), (said, given)


def avro(user, item, at):
    """Encode a record as Avro. A string has its length before it, and numbers are zigzag with seven bits a byte."""

    def long(number):
        number = number << 1 if number >= 0 else (-number << 1) - 1
        rest = []
        while number > 0x7F:
            rest.append(number & 0x7F | 0x80)
            number >>= 7
        return bytes([*rest, number])

    return long(len(user)) + user.encode() + long(item) + long(at * 1_000_000)


@pytest.mark.skipif("avro" not in components.packages(), reason="no spark-avro for this Spark")
def test_avro_records_of_a_schema_registry_are_decoded(spark, topics, broker, tmp_path):
    topic, registry = topics.make(1), b"\x00\x00\x00\x00\x07"
    records = [
        registry + avro("ann", 7, 10),
        registry + avro("bob", 7, 20),
        registry + b"?",
        None,
        registry + avro("cid", 8, 7200),
    ]
    topics.write(topic, [{"value": one} for one in records])
    (block,) = (block for block in BLOCKS if "from_avro" in block)
    known = {"spark": spark, "pst": pst}
    exec(block.replace("localhost:9092", broker.servers).replace('"avro-clicks"', f'"{topic}"'), known)
    timed = known["avro_clicks"].assign_timestamps("at", pst.WatermarkStrategy.for_monotonous_timestamps())
    hours = (
        timed.side_output_invalid("invalid")
        .key_by("item")
        .window(pst.TumblingEventTimeWindows.of("1 hour"))
        .options(key_groups=1)
    )
    main, invalid = pst.MemorySink(), pst.MemorySink()
    result = hours.aggregate(agg.collect_list("user").alias("users"))
    result.start(checkpoint=str(tmp_path / "checkpoint"), main=main, invalid=invalid).await_termination()
    assert [(row.item, row.users) for row in main.rows] == [(7, ["ann", "bob"])]
    wrong = sorted((row.kafka_offset, row.kafka_value) for row in invalid.rows if row.kafka_value is not None)
    assert [(offset, bytes(value)) for offset, value in wrong] == [(2, registry + b"?")]
    assert sorted(row.kafka_offset for row in invalid.rows) == [2, 3]


def test_job_file_of_the_kafka_page_runs(spark, topics, broker, named, tmp_path):
    text = (ROOT / "examples" / "hot_items_kafka.toml").read_text("utf-8").replace("localhost:9092", broker.servers)
    text = text.replace('"clicks"', f'"{named["clicks"]}"').replace('"hot-items"', f'"{named["hot-items"]}"')
    (tmp_path / "job.toml").write_text(text)
    views = [
        {"partition": 0, "value": {"user_id": user, "item_id": 1, "behavior": "pv", "timestamp": 60 + user}} for user in range(3)
    ]
    others = [{"value": {"behavior": "buy", "timestamp": 70}}, {"value": b"?"}]
    close = [{"partition": place, "value": {"item_id": 2, "behavior": "pv", "timestamp": 600}} for place in (0, 1)]
    topics.write(named["clicks"], [*views, *others, *close])
    loaded = load_job(tmp_path / "job.toml")
    sinks = loaded.job.sinks.recipes(loaded.job.key)
    build(loaded, spark).start(checkpoint=loaded.job.checkpoint, **sinks).await_termination()
    found = [(one.json["item_id"], one.json["window_end"], one.json["views"]) for one in topics.read(named["hot-items"])]
    assert sorted(found) == [(1, "1970-01-01T00:05:00.000000Z", 3)]
    assert spark.read.json(str(loaded.job.sinks.invalid.path)).count() == 1
