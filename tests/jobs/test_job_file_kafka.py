"""Job files that read and write Kafka: the resulting jobs, and the errors for mistakes. tests/connectors runs such jobs."""

from __future__ import annotations

from pathlib import Path

import pytest

import panestream as pst
from panestream.errors import JobError
from panestream.jobs.loading import load_job
from panestream.jobs.streams import KafkaSource

EXAMPLE = (Path(__file__).resolve().parents[2] / "examples" / "hot_items_kafka.toml").read_text("utf-8")


@pytest.fixture
def load(tmp_path):
    def load(*changes):
        text = EXAMPLE
        for old, new in changes:
            assert old in text
            text = text.replace(old, new, 1)
        (tmp_path / "job.toml").write_text(text)
        return load_job(tmp_path / "job.toml").job

    return load


def test_job_file_can_read_and_write_kafka(load):
    job = load()
    assert job.source.kafka == KafkaSource(servers="localhost:9092", topics=("clicks",), records_per_batch=100_000)
    sinks = job.sinks.recipes(job.key)
    assert sinks["main"] == pst.KafkaSink("localhost:9092", "hot-items", ["item_id"], compacted=True)
    late = (
        "[trigger]",
        '[sinks.late]\nformat = "kafka"\nservers = "a:1,b:2"\ntopic = "late"\noptions = {"kafka.acks" = "all"}\n[trigger]',
    )
    assert str(load(late).sinks.late) == "topic late"
    # Late rows keep the columns that they were read with, which may not include the job's key.
    assert load(late).sinks.recipes(job.key)["late"] == pst.KafkaSink("a:1,b:2", "late", [], options={"kafka.acks": "all"})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ([('format = "kafka"', 'format = "rate"')], "source.kafka: is for format 'kafka', not for 'rate'"),
        ([("[source.kafka]", "[source.kafka_topics]")], "source.kafka_topics: unknown key"),
        ([('servers = "localhost:9092"\n', "")], "source.kafka: 'servers' is missing"),
        ([('schema = "user_id', 'path = "clicks"\nschema = "user_id')], "source.path: is for files"),
        (
            [('topics = ["clicks"]', 'topics = ["clicks"]\nvalue_format = "string"')],
            "'schema' is for values in JSON, not for value_format 'string'",
        ),
        ([('topics = ["clicks"]', 'topics = ["clicks"]\nkey_format = "json"')], "source.kafka: 'key_schema' is missing"),
        (
            [('topics = ["clicks"]', 'topics = ["clicks"]\nkey_schema = "a INT"')],
            "source.kafka.key_schema: is for key_format 'json', not for 'string'",
        ),
        (
            [('topics = ["clicks"]', 'topics = ["clicks-.*"]\npartitions = 4')],
            "source.kafka.partitions: is for named topics, not for a pattern",
        ),
        ([('topics = ["clicks"]', 'topics = ["clicks"]\npartitions = 0')], "source.kafka.partitions"),
        ([('servers = "localhost:9092"\ntopic = "hot-items"', 'topic = "hot-items"')], "sinks.main: 'servers' is missing"),
        ([('topic = "hot-items"\n', "")], "sinks.main: 'topic' is missing: format 'kafka' needs it"),
        (
            [('topic = "hot-items"', 'topic = "hot-items"\npath = "out"')],
            "sinks.main.path: is for formats 'parquet', 'json', 'csv' and 'orc', not for 'kafka'",
        ),
        (
            [('format = "json"', 'format = "json"\nservers = "a:1"')],
            "sinks.invalid.servers: is for format 'kafka', not for 'json'",
        ),
        (
            [("[trigger]", '[sinks.late]\nformat = "kafka"\nservers = "localhost:9092"\ntopic = "hot-items"\n[trigger]')],
            "sinks.late: writes to the same place as sinks.main",
        ),
        ([('servers = "localhost:9092"', 'servers = "localhost"')], "source.kafka.servers: servers must be 'host:port'"),
        ([('topics = ["clicks"]', 'topics = ["clicks", "a b"]')], "source.kafka.topics: a topic has a name of letters"),
        (
            [('servers = "localhost:9092"\ntopic = "hot-items"', 'servers = "localhost"\ntopic = "hot items"')],
            "sinks.main.servers: servers must be 'host:port'",
        ),
        ([('topic = "hot-items"', 'topic = "hot items"')], "sinks.main.topic: a topic has a name of letters"),
        (
            [("[trigger]", '[sinks.late]\nformat = "kafka"\nservers = "h:1"\ntopic = "late"\ncompacted = true\n[trigger]')],
            "sinks.late.compacted: needs 'keys'",
        ),
    ],
)
def test_mistake_in_a_kafka_job_is_reported(load, changes, said):
    with pytest.raises(JobError) as raised:
        load(*changes)
    assert said in str(raised.value)


def test_kafka_source_needs_servers_and_topics(load):
    start = EXAMPLE.index("[source.kafka]")
    with pytest.raises(JobError, match=r"\[source\.kafka\] is missing: it says the servers and topics"):
        load((EXAMPLE[start : EXAMPLE.index("[event_time]")], ""))
