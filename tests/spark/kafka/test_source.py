"""Topics of a Kafka source: wrong options are refused before Spark gets them."""

from __future__ import annotations

import pyspark
import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException

from panestream.errors import InvalidPlanError
from panestream.spark.kafka.source import Topics, asked, no_kafka


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
        ({"options": {"startingOffsets": "latest"}}, "the option 'startingOffsets' has its own argument"),
    ],
)
def test_wrong_topics_are_refused(given, said):
    with pytest.raises(InvalidPlanError, match=said):
        Topics(**{"servers": "host:9092", "topics": ["clicks"], **given})


def test_valid_topics_are_accepted():
    assert not Topics("host:9092,other:9092", ["clicks"], records_per_batch=1).pattern
    assert Topics("host:9092", "click.*", starting='{"clicks": {"0": 5}}').pattern
    assert not Topics("host:9092", "clicks", starting="latest", options={"kafka.group.id": "q"}).pattern


def test_expected_partitions_follow_from_declared_numbers():
    topics = Topics("host:9092", ["clicks", "views"])
    assert topics.expected(None) == ()
    assert topics.expected(2) == ("clicks-0", "clicks-1", "views-0", "views-1")
    assert topics.expected({"views": 1}) == ("views-0",)
    assert Topics("host:9092", "click.*").expected({"clicks": 1}) == ("clicks-0",)
    for wrong in (0, True, "2", {"clicks": 0}, {"click": 1}):
        with pytest.raises(InvalidPlanError, match="partitions"):
            topics.expected(wrong)
    with pytest.raises(InvalidPlanError, match="not to a pattern"):
        Topics("host:9092", "click.*").expected(2)


class Reader:
    """Record the requested options."""

    def __init__(self, way):
        self.way, self.columns = way, []

    def format(self, kind):
        self.kind = kind
        return self

    def options(self, **given):
        self.given = given
        return self

    def load(self):
        return self


class Session:
    @property
    def read(self):
        return Reader("batch")

    @property
    def readStream(self):  # noqa: N802 - Spark's name
        return Reader("stream")


SERVERS = {"kafka.bootstrap.servers": "host:9092"}


@pytest.mark.parametrize(
    ("topics", "batch", "given"),
    [
        (Topics("host:9092", "clicks"), False, {"startingOffsets": "earliest", "subscribe": "clicks"}),
        (Topics("host:9092", ["a", "b"], starting="latest"), True, {"startingOffsets": "latest", "subscribe": "a,b"}),
        (
            Topics("host:9092", "cl.*", records_per_batch=7, headers=True, options={"kafka.group.id": "q"}),
            False,
            {
                "startingOffsets": "earliest",
                "subscribePattern": "cl.*",
                "kafka.group.id": "q",
                "maxOffsetsPerTrigger": "7",
                "includeHeaders": "true",
            },
        ),
        (Topics("host:9092", "a", records_per_batch=7), True, {"startingOffsets": "earliest", "subscribe": "a"}),
    ],
)
def test_spark_source_gets_the_options_of_the_topics(topics, batch, given):
    reader = topics.frame(Session(), batch=batch)
    assert (reader.kind, reader.way, reader.given) == ("kafka", "batch" if batch else "stream", {**SERVERS, **given})


@pytest.mark.parametrize(
    ("error", "ours", "said"),
    [
        (AnalysisException("Failed to find data source: kafka."), InvalidPlanError, "this Spark lacks the Kafka source"),
        (AnalysisException("[DATA_SOURCE_NOT_FOUND] kafka"), InvalidPlanError, "this Spark lacks the Kafka source"),
        (ValueError("see the deployment section of"), InvalidPlanError, "this Spark lacks the Kafka source"),
        (AnalysisException("no such\noption"), InvalidPlanError, "^Spark's Kafka source refuses: no such$"),
        (IllegalArgumentException(" offsets "), InvalidPlanError, "^Spark's Kafka source refuses: offsets$"),
        (ValueError("of ours"), ValueError, "^of ours$"),
    ],
)
def test_errors_of_the_spark_source_become_short_errors(error, ours, said):
    def ask():
        raise error

    with pytest.raises(ours, match=said):
        asked(ask)


def test_missing_kafka_source_error_names_the_package_of_this_spark():
    assert f"'org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}'" in no_kafka()
