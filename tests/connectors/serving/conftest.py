"""Servers of PostgreSQL and Redis, one of each for all tests of this folder."""

from __future__ import annotations

import pytest

from tests.connectors.serving.servers import PASSWORD, NoServerError, Postgres, Redis


def started(make):
    try:
        server = make()
        server.start()
    except NoServerError as error:
        pytest.skip(str(error))
    return server


@pytest.fixture(scope="session")
def postgres():
    pytest.importorskip("psycopg")
    server = started(Postgres)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def redis_server():
    pytest.importorskip("redis")
    server = started(Redis)
    yield server
    server.stop()


@pytest.fixture(autouse=True)
def password(monkeypatch):
    """Give the servers' password to sinks in the environment."""
    monkeypatch.setenv("SERVING_PASSWORD", PASSWORD)
