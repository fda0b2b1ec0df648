"""A session with real Delta, Iceberg and Kafka, as far as they exist for the installed Spark."""

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

# An independent Kafka client, with which tests check topics. Only the environment of the connectors has it.
_CLIENTS = ["kafka/kafka_topics.py", "kafka/kafka_targets.py", "through_connect.py"]
collect_ignore = [] if importlib.util.find_spec("confluent_kafka") else _CLIENTS


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests of this folder with ``connectors``.

    The markers ``delta``, ``iceberg`` and ``kafka`` name what each test needs.
    """
    there = components.packages()
    for item in items:
        if item.path.is_relative_to(__file__.removesuffix("/conftest.py")):
            item.add_marker("connectors")
            for name in ("delta", "iceberg", "kafka"):
                if item.get_closest_marker(name) and name not in there:
                    item.add_marker(pytest.mark.skip(reason=f"no {name} was released for Spark {components.LINE}"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local session of two cores with every component for this Spark."""
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
    """A real broker with one node. A test that kills it starts it again."""
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
    """A client of the broker, independent of Spark."""
    pytest.importorskip("confluent_kafka")
    from tests.connectors.kafka.kafka_topics import Topics

    return Topics(broker.servers)
