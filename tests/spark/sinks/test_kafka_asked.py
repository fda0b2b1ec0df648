"""A KafkaSink's questions to Spark, its refusals and its errors, without a broker and without Java."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import panestream as pst
from panestream.errors import FencedError, SinkError
from panestream.spark.kafka.source import no_kafka
from panestream.spark.sinks.base import QueryRunInfo
from panestream.spark.sinks.kafka import KafkaSink
from tests.spark.sinks.test_kafka_told import OPTIONS

SINK = KafkaSink("host:9092", "hot", ["user"], options=OPTIONS)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("host", "hot"), "a KafkaSink: servers must be 'host:port', several with commas, got 'host'"),
        (
            ("host:9092", "hot items"),
            "a KafkaSink: a topic has a name of letters, digits, '.', '_' and '-', got 'hot items'",
        ),
        (("host:9092", "hot", "user"), "a KafkaSink needs the names of the key columns as a list, got 'user': write ['user']"),
        (
            ("host:9092", "hot", [], False, {"Topic": "x"}),
            "the option 'Topic' has its own argument in KafkaSink. Use that argument",
        ),
        (
            ("host:9092", "hot", [], False, {"kafka.acks": "all", "kafka.bootstrap.servers": "x"}),
            "the option 'kafka.bootstrap.servers' has its own argument in KafkaSink. Use that argument",
        ),
    ],
)
def test_wrong_kafka_sink_is_refused(arguments, said):
    with pytest.raises(SinkError) as error:
        KafkaSink(*arguments)
    assert str(error.value) == said


def test_two_sinks_of_one_topic_have_one_place_for_any_spelling_of_servers():
    one, other = pst.KafkaSink("A:1,b:2", "hot"), pst.KafkaSink("B:2, a:1", "hot", ["user"], compacted=True)
    assert one.place(None) == other.place(None) == "topic hot of a:1,b:2"
    assert pst.KafkaSink("b:2", "cold").place(None) == "topic cold of b:2"


def test_keys_must_be_columns():
    assert SINK.check_columns(["user", "n"]) is None
    with pytest.raises(SinkError, match=r"^the rows for topic hot have no key column 'user'; did you mean 'usr'\?"):
        SINK.check_columns(["usr", "n"])


def test_guarantee_of_kafka_sink_depends_on_the_reader():
    again = "at least once: a repeated micro-batch sends its records again, with the same ids; exactly once for a "
    assert SINK.guarantee(None) == again + "reader that takes each panestream-id once (pst.sinks.KafkaDeduplicator)"
    compacted = pst.KafkaSink("host:9092", "hot", ["user"], compacted=True)
    assert compacted.guarantee(None) == "exactly once for a reader of the last record of each key (the topic as a table)"
    assert (SINK.keeps_last, compacted.keeps_last) == (False, True)


class Session:
    """A session with Kafka that raises on access to a topic."""

    def __init__(self, error=None):
        self.error, self.given = error, {}

    @property
    def read(self):
        return self

    def format(self, kind):
        assert kind == "kafka"
        return self

    def options(self, **options):
        self.given |= options
        return self

    def load(self):
        return self

    def select(self, *columns):
        assert columns == ("partition",)
        return self

    def isEmpty(self):  # noqa: N802 (Spark's name)
        if self.error is not None:
            raise self.error
        return True


def test_topic_is_checked_at_start_with_short_timeouts():
    session, run = Session(), QueryRunInfo("q", "late")
    opened = SINK.open(session, run)
    assert (opened.run, opened) == (run, SINK)
    assert session.given == {
        **OPTIONS,
        "kafka.default.api.timeout.ms": "20000",
        "kafka.request.timeout.ms": "10000",
        "fetchOffset.numRetries": "1",
        "kafka.bootstrap.servers": "host:9092",
        "subscribe": "hot",
    }


def test_records_of_two_batches_have_different_writers():
    runs = [SINK.open(Session(), QueryRunInfo()).run for _ in range(2)]
    assert [len(run.query) for run in runs] == [32, 32]
    assert runs[0].query != runs[1].query
    assert {run.output for run in runs} == {"main"}


@pytest.mark.parametrize(
    ("keys", "output", "taken"), [(["user"], "late", True), ([], "main", True), (["user"], "main", True), ([], "late", False)]
)
def test_compacted_topic_needs_keys_that_identify_the_last_record(keys, output, taken):
    sink = pst.KafkaSink("host:9092", "hot", keys, compacted=True)
    assert pst.KafkaSink("host:9092", "hot", keys).open(Session(), QueryRunInfo("q", output)).run.output == output
    if taken:
        assert sink.open(Session(), QueryRunInfo("q", output)).run == QueryRunInfo("q", output)
        return
    with pytest.raises(SinkError) as error:
        sink.open(Session(), QueryRunInfo("q", output))
    assert str(error.value) == "topic hot: the output 'late' does not have windows, so compacted=True needs keys=[...]"


ABSENT = "topic hot: host:9092 does not have this topic. Create it with the partitions that readers need"
SILENT = "topic hot: no broker answers at host:9092"
LARGE = (
    "topic hot: a record is larger than the producer or the topic allows. Give options={'kafka.max.request.size': 'BYTES'}, and "
    "the topic the same as max.message.bytes"
)
KNOWN = {
    "Failed to find data source: kafka. Please": no_kafka(),
    "[DATA_SOURCE_NOT_FOUND] Failed": no_kafka(),
    "org.apache...UnknownTopicOrPartitionException: ": ABSENT,
    "Topic hot not present in metadata after 60000 ms.": ABSENT,
    "UNKNOWN_TOPIC_OR_PARTITION": ABSENT,
    "This server does not host this topic-partition": ABSENT,
    "RecordTooLargeException: The message is": LARGE,
    "MESSAGE_TOO_LARGE": LARGE,
}


@pytest.mark.parametrize(("words", "said"), [*KNOWN.items(), ("TimeoutException: after 10 s", SILENT),
    ("Failed to create new KafkaAdminClient", SILENT), ("Failed to construct kafka consumer", SILENT), ("UnknownHost", SILENT)])  # fmt: skip
def test_error_of_a_topic_is_short(words, said):
    cause = RuntimeError(words)
    with pytest.raises(SinkError) as error:
        SINK.open(Session(cause), QueryRunInfo("q"))
    assert str(error.value) == said
    assert error.value.__cause__ is cause


def test_writer_without_permission_to_read_is_accepted():
    assert SINK.open(Session(RuntimeError("TopicAuthorizationException: hot")), QueryRunInfo("q")).run == QueryRunInfo("q")
    cause = RuntimeError("something else")
    with pytest.raises(RuntimeError) as error:
        SINK.open(Session(cause), QueryRunInfo("q"))
    assert error.value is cause


class Epoch:
    """The epoch of a run that is fenced at the n-th check."""

    def __init__(self, fenced_at):
        self.left = fenced_at

    def check(self, spark):
        assert spark == "the session"
        self.left -= 1
        if not self.left:
            raise FencedError("another copy was started")


class Written:
    """Records whose write succeeds or fails."""

    def __init__(self, error=None):
        self.error, self.told = error, []

    @property
    def write(self):
        return self

    def format(self, kind):
        self.told.append(kind)
        return self

    def options(self, **options):
        self.told.append(options)
        return self

    def option(self, name, value):
        self.told.append((name, value))
        return self

    def save(self):
        self.told.append("saved")
        if self.error is not None:
            raise self.error


def written(monkeypatch, records, epoch=None):
    rows = SimpleNamespace(sparkSession="the session")
    asked = []
    monkeypatch.setattr(KafkaSink, "records", lambda self, df, batch_id: asked.append((df, batch_id)) or records)
    sink = SINK.open(Session(), QueryRunInfo("q", epoch=epoch))
    sink.write(rows, 7)
    assert asked == [(rows, 7)]


def test_kafka_sink_writes_records_with_its_options(monkeypatch):
    records = Written()
    written(monkeypatch, records)
    assert records.told == ["kafka", OPTIONS, ("kafka.bootstrap.servers", "host:9092"), ("topic", "hot"), "saved"]


@pytest.mark.parametrize(("fenced_at", "saved"), [(1, False), (2, True)])
def test_fenced_run_stops_before_and_after_its_write(monkeypatch, fenced_at, saved):
    records = Written()
    with pytest.raises(FencedError):
        written(monkeypatch, records, Epoch(fenced_at))
    assert (records.told[-1:] == ["saved"]) is saved


@pytest.mark.parametrize(("words", "said"), KNOWN.items())
def test_error_of_a_write_is_short(monkeypatch, words, said):
    with pytest.raises(SinkError) as error:
        written(monkeypatch, Written(RuntimeError(words)))
    assert str(error.value) == said


def test_unknown_error_of_a_write_is_raised_unchanged(monkeypatch):
    cause = RuntimeError("TimeoutException: a broker is slow")
    with pytest.raises(RuntimeError) as error:
        written(monkeypatch, Written(cause))
    assert error.value is cause


def test_missing_topic_is_reported_before_a_missing_broker():
    with pytest.raises(SinkError, match="does not have this topic"):
        SINK.open(Session(RuntimeError("TimeoutException: Topic hot not present in metadata")), QueryRunInfo("q"))
