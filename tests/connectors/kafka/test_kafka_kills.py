"""Topics lose and repeat no record after ``kill -9`` of the job, at any moment, and of the broker."""

from __future__ import annotations

import random
import threading

import pytest

from tests.connectors.kills import SEED, compare

pytestmark = [pytest.mark.connectors, pytest.mark.kafka]

TARGETS = "tests.connectors.kafka.kafka_targets"


@pytest.fixture
def broker_that_dies(broker, tmp_path, monkeypatch):
    """Kill the broker a random time after every second kill of the job, and restart it. Yields a list with an entry per kill."""
    monkeypatch.setenv("PANESTREAM_TEST_KAFKA", broker.servers)
    over, numbers, deaths, log = threading.Event(), random.Random(SEED), [], tmp_path / "killed" / "kills.log"

    def kill():
        while not over.wait(0.2):
            if log.exists() and len(log.read_text().splitlines()) > 2 * len(deaths):
                over.wait(numbers.uniform(0, 12))
                broker.kill()
                broker.start()
                deaths.append(True)

    thread = threading.Thread(target=kill)
    thread.start()
    yield deaths
    over.set()
    thread.join()


@pytest.mark.filterwarnings("ignore::panestream.errors.PanestreamWarning")
def test_killed_jobs_and_broker_leave_undisturbed_topics(spark, tmp_path, broker_that_dies):
    from tests.connectors.kafka import kafka_targets

    compare(spark, tmp_path, {f"{TARGETS}:LOG": ["main"], f"{TARGETS}:TABLE": ["main"]})
    # The kills had an effect: a reader must skip some records.
    log = kafka_targets.records(tmp_path / "killed", "log")
    assert len(log) > len(kafka_targets.once(tmp_path / "killed", "log"))
    assert broker_that_dies
