"""Which topics are read, and how: what makes no sense is refused before Spark hears of it."""

from __future__ import annotations

import pytest

from panestream.errors import InvalidPlanError
from panestream.spark.kafka.source import Topics


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"servers": ""}, "servers must be 'host:port'"),
        ({"servers": "host"}, "servers must be 'host:port'"),
        ({"servers": None}, "servers must be 'host:port'"),
        ({"topics": []}, r"topics must be names of topics, got \[\]"),
        ({"topics": ["clicks", ""]}, "topics must be names of topics"),
        ({"topics": ["clicks", 5]}, "topics must be names of topics"),
        ({"topics": ""}, "topics must be names of topics, got ''"),
        ({"topics": ["cl ck"]}, "cl ck"),
        ({"records_per_batch": 0}, "records_per_batch must be a positive number, got 0"),
        ({"records_per_batch": "5"}, "records_per_batch must be a positive number, got '5'"),
        ({"starting": "now"}, "starting is 'earliest', 'latest' or offsets"),
        ({"options": {"startingOffsets": "latest"}}, "the option 'startingOffsets' has an argument of its own"),
    ],
)
def test_what_makes_no_sense_is_refused(given, said):
    with pytest.raises(InvalidPlanError, match=said):
        Topics(**{"servers": "host:9092", "topics": ["clicks"], **given})


def test_what_makes_sense_is_taken():
    assert not Topics("host:9092,other:9092", ["clicks"], records_per_batch=1).pattern
    assert Topics("host:9092", "click.*", starting='{"clicks": {"0": 5}}').pattern
    assert not Topics("host:9092", "clicks", starting="latest", options={"kafka.group.id": "q"}).pattern


def test_which_partitions_are_there_from_the_start():
    topics = Topics("host:9092", ["clicks", "views"])
    assert topics.expected(None) == ()
    assert topics.expected(2) == ("clicks-0", "clicks-1", "views-0", "views-1")
    assert topics.expected({"views": 1}) == ("views-0",)
    assert Topics("host:9092", "click.*").expected({"clicks": 1}) == ("clicks-0",)
    for wrong in (0, True, "2", {"clicks": 0}, {"click": 1}):
        with pytest.raises(InvalidPlanError, match="partitions"):
            topics.expected(wrong)
    with pytest.raises(InvalidPlanError, match="a pattern names none"):
        Topics("host:9092", "click.*").expected(2)
