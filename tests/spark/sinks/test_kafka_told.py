"""The repr of a KafkaSink, and its format of times, without a broker."""

import panestream as pst
from panestream.spark.kafka.source import Topics
from panestream.spark.sinks import kafka

SECRET = "kafka.sasl.jaas.config"
OPTIONS = {SECRET: 'PlainLoginModule required username="me" password="hunter2";'}


def test_options_of_kafka_sink_are_hidden_in_its_repr():
    for told in (pst.KafkaSink("host:9092", "hot", ["user"], options=OPTIONS), Topics("host:9092", "hot", options=OPTIONS)):
        assert dict(told.options) == OPTIONS
        assert "host:9092" in repr(told)
        assert "hunter2" not in f"{told!r} {told}"
    sink = pst.KafkaSink("host:9092", "hot", options=OPTIONS)
    assert "hunter2" not in sink.describe()


def test_kafka_sinks_with_other_options_are_not_equal():
    assert pst.KafkaSink("host:9092", "hot", options=OPTIONS) != pst.KafkaSink("host:9092", "hot")


def test_times_are_written_with_microseconds_whether_they_have_a_zone_or_not():
    """Spark writes ``timestamp_ntz`` with milliseconds. Two keys would become equal, and a compacted topic would lose one."""
    formats = {name: text for name, text in kafka._AS_JSON.items() if name.lower().startswith("timestamp")}
    assert set(formats) == {"timestampFormat", "timestampNTZFormat"}
    assert all("ss.SSSSSS" in text for text in formats.values())
