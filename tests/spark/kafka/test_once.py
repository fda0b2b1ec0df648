"""The records that a reader with ``KafkaDeduplicator`` accepts, for records in the forms of several clients."""

import pytest

import panestream as pst
from panestream.errors import StateFormatError


def record(batch, id_, writer=b"q/main", more=()):
    return [*more, ("panestream-writer", writer), ("panestream-batch", batch), ("panestream-id", id_)]


def test_deduplicator_accepts_foreign_headers_that_are_not_text():
    once = pst.sinks.KafkaDeduplicator()
    trace = [("trace", b"\xff\xfe\x00"), ("empty", None)]
    assert [once.takes("hot", 0, record(b"1", id_, more=trace)) for id_ in (b"a", b"a", b"b")] == [True, False, True]
    assert [once.takes("hot", 0, headers) for headers in (trace, trace, None, [])] == [True] * 4


def test_deduplicator_separates_partitions_and_writers_also_after_restart():
    once = pst.sinks.KafkaDeduplicator()
    asked = [("hot", 0, b"q/main"), ("hot", 1, b"q/main"), ("cold", 0, b"q/main"), ("hot", 0, b"q/late")]
    assert all(once.takes(topic, part, record(b"3", b"a", writer)) for topic, part, writer in asked)
    once = pst.sinks.KafkaDeduplicator.from_json(once.to_json())
    assert not any(once.takes(topic, part, record(b"3", b"a", writer)) for topic, part, writer in asked)
    assert not any(once.takes(topic, part, record(b"2", b"new", writer)) for topic, part, writer in asked)
    assert all(once.takes(topic, part, record(b"10", b"a", writer)) for topic, part, writer in asked)


@pytest.mark.parametrize("missing", ["panestream-writer", "panestream-batch", "panestream-id"])
def test_record_that_lacks_a_sink_header_is_always_accepted(missing):
    once, some = pst.sinks.KafkaDeduplicator(), [header for header in record(b"1", b"a") if header[0] != missing]
    assert [once.takes("hot", 0, some) for _ in range(2)] == [True, True]
    assert once.to_json() == "[]"


def test_deduplicator_stores_the_last_micro_batch_of_each_writer():
    """A batch query writes micro-batch -1."""
    once = pst.sinks.KafkaDeduplicator()
    taken = [once.takes("hot", 0, record(batch, id_)) for batch, id_ in ((b"-1", b"b"), (b"-1", b"a"), (b"-1", b"b"))]
    assert taken == [True, True, False]
    assert once.to_json() == '[["hot", 0, "q/main", -1, ["a", "b"]]]'
    assert once.takes("hot", 0, record("3", "c"))
    assert once.to_json() == '[["hot", 0, "q/main", 3, ["c"]]]'


@pytest.mark.parametrize("text", ["", "5", "[[1]]", "{}x"])
def test_deduplicator_refuses_state_that_it_did_not_write(text):
    with pytest.raises(StateFormatError, match=r"not from KafkaDeduplicator\.to_json"):
        pst.sinks.KafkaDeduplicator.from_json(text)
