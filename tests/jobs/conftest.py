"""Shared fixtures of the tests of job files."""

from __future__ import annotations

import importlib.util

import pytest
from typer.testing import CliRunner

from panestream.errors import JobError
from panestream.jobs import cli, loading
from panestream.jobs.json_schema import job_schema
from panestream.jobs.runner import SessionRunner, close_listeners, open_listeners
from tests.listening import Ends


@pytest.fixture(scope="session")
def validator():
    """Return a validator that judges a job file as editors do."""
    return pytest.importorskip("jsonschema").Draft7Validator(job_schema())


@pytest.fixture(autouse=True)
def _editors_mark_nothing_that_is_right(request, monkeypatch):
    """Check that the schema for editors accepts every job file that the library accepts in a test."""
    if importlib.util.find_spec("jsonschema") is None:
        return
    validator, made = request.getfixturevalue("validator"), loading.LoadedJob

    def judged(job, document, *others):
        faults = [f"{document.path}: {fault.json_path}: {fault.message}" for fault in validator.iter_errors(document.data)]
        assert not faults, "\n".join(faults)
        return made(job, document, *others)

    monkeypatch.setattr(loading, "LoadedJob", judged)


@pytest.fixture
def loaded_of(tmp_path):
    """Write a job file and load it."""

    def load(text, name="job.toml", **overrides):
        (tmp_path / name).write_text(text)
        return loading.load_job(tmp_path / name, loading.Overrides(**overrides))

    return load


@pytest.fixture
def job_of(loaded_of):
    """Return the job of a job file."""
    return lambda text, name="job.toml", **overrides: loaded_of(text, name, **overrides).job


@pytest.fixture
def complaint(loaded_of, tmp_path):
    """Return the errors of a job file, without its folder."""

    def load(text, name="job.toml", **overrides):
        with pytest.raises(JobError) as error:
            loaded_of(text, name, **overrides)
        return str(error.value).replace(f"{tmp_path}/", "")

    return load


@pytest.fixture
def panestream(spark, monkeypatch):
    """Run a command in the shared session."""

    class SharedSession(SessionRunner):
        def __init__(self, loaded):
            super().__init__(loaded, spark, open_listeners(loaded))
            self.ends = Ends()
            self.query = None

        def __enter__(self):
            return self

        def start(self, on_progress):
            spark.streams.addListener(self.ends)
            self.query = super().start(on_progress)
            return self.query

        def __exit__(self, *exception):
            if self.query is not None and not self.query.is_active:
                self.ends.wait()
            # A batch starts no query and adds no listener.
            for listener in (*self.listeners, *([] if self.query is None else [self.ends])):
                spark.streams.removeListener(listener)
            close_listeners(self.listeners)

    monkeypatch.setattr(cli, "make_runner", SharedSession)
    monkeypatch.setenv("COLUMNS", "300")

    def invoke(*arguments, app=cli.app):
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return invoke
