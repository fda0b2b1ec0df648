"""What the tests of job files share."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from panestream.jobs import cli
from panestream.jobs.runner import SessionRunner, close_listeners, open_listeners


@pytest.fixture
def panestream(spark, monkeypatch):
    """Runs a command on the session that all tests share."""

    class SharedSession(SessionRunner):
        def __init__(self, loaded):
            super().__init__(loaded, spark, open_listeners(loaded))

        def __enter__(self):
            return self

        def __exit__(self, *exception):
            close_listeners(self.listeners)
            for listener in self.listeners:
                spark.streams.removeListener(listener)

    monkeypatch.setattr(cli, "make_runner", SharedSession)
    monkeypatch.setenv("COLUMNS", "300")

    def invoke(*arguments):
        result = CliRunner().invoke(cli.app, [str(argument) for argument in arguments])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return invoke
