"""A session with Delta, Iceberg and Kafka, real ones, where they can be had for the Spark at hand."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.connectors import components

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from scripts.kafka_broker import Broker
    from tests.connectors.kafka.kafka_topics import Topics

# A client that is not ours, for the tests' own look at topics: in the environment of the connectors only.
_CLIENTS = ["kafka/kafka_topics.py", "kafka/kafka_targets.py", "through_connect.py"]
collect_ignore = [] if importlib.util.find_spec("confluent_kafka") else _CLIENTS


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests of this folder carry the marker ``connectors``; one of ``delta``, ``iceberg`` and ``kafka`` says what each needs."""
    there = components.packages()
    for item in items:
        if item.path.is_relative_to(__file__.removesuffix("/conftest.py")):
            item.add_marker("connectors")
            for name in ("delta", "iceberg", "kafka"):
                if item.get_closest_marker(name) and name not in there:
                    item.add_marker(pytest.mark.skip(reason=f"no {name} was released for Spark {components.LINE}"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local session of two cores with every component that there is for this Spark."""
    from panestream.spark.session import build_session

    if not components.packages():
        pytest.skip(f"neither Delta, Iceberg nor Kafka was released for Spark {components.LINE}")
    settings = components.session_settings(tmp_path_factory.mktemp("warehouse"))
    try:
        session = build_session("panestream connectors", settings, master="local[2]")
    except Exception as error:
        if "spark.jars.packages" in str(error) or "unresolved dependency" in str(error) or "JAVA_GATEWAY_EXITED" in str(error):
            pytest.skip(f"Maven Central cannot be reached: {error}")
        raise
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A real broker of one node. A test that kills it starts it again."""
    from scripts.kafka_broker import Broker, NoBrokerError

    try:
        one = Broker(tmp_path_factory.mktemp("kafka"))
        one.start()
    except NoBrokerError as error:
        pytest.skip(str(error))
    yield one
    one.stop()


@pytest.fixture(scope="session")
def topics(broker: Broker) -> Topics:
    """A client of the broker's that is not ours."""
    pytest.importorskip("confluent_kafka")
    from tests.connectors.kafka.kafka_topics import Topics

    return Topics(broker.servers)
