"""What a reader takes that asks ``KafkaOnce``, of records as clients give them."""

import pytest

import panestream as pst
from panestream.errors import StateFormatError


def record(batch, id_, writer=b"q/main", more=()):
    return [*more, ("panestream-writer", writer), ("panestream-batch", batch), ("panestream-id", id_)]


def test_headers_of_others_need_not_be_text():
    once = pst.KafkaOnce()
    trace = [("trace", b"\xff\xfe\x00"), ("empty", None)]
    assert [once.takes("hot", 0, record(b"1", id_, more=trace)) for id_ in (b"a", b"a", b"b")] == [True, False, True]
    assert [once.takes("hot", 0, headers) for headers in (trace, trace, None, [])] == [True] * 4


def test_partitions_and_writers_are_apart_and_restarts_forget_nothing():
    once = pst.KafkaOnce()
    asked = [("hot", 0, b"q/main"), ("hot", 1, b"q/main"), ("cold", 0, b"q/main"), ("hot", 0, b"q/late")]
    assert all(once.takes(topic, part, record(b"3", b"a", writer)) for topic, part, writer in asked)
    once = pst.KafkaOnce.from_json(once.to_json())
    assert not any(once.takes(topic, part, record(b"3", b"a", writer)) for topic, part, writer in asked)
    assert not any(once.takes(topic, part, record(b"2", b"new", writer)) for topic, part, writer in asked)
    assert all(once.takes(topic, part, record(b"10", b"a", writer)) for topic, part, writer in asked)


@pytest.mark.parametrize("text", ["", "5", "[[1]]", "{}x"])
def test_what_it_did_not_write_is_refused(text):
    with pytest.raises(StateFormatError, match=r"nothing that KafkaOnce\.to_json gave"):
        pst.KafkaOnce.from_json(text)
