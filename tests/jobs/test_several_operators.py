"""Commands on the state of a query with several operators. Without Spark's JVM."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from panestream.jobs import cli, state_commands
from panestream.spark.savepoint.saved import Savepoint
from tests.spark.savepoint.test_manifest import MANIFEST, OF_FIRST


@pytest.fixture
def inspect(monkeypatch):
    def state_of(spark, path, batch_id, operator):
        shown = operator or "largest"
        return SimpleNamespace(operators=("counts", "largest"), summary=lambda **how: f"summary of {shown}")

    monkeypatch.setattr(state_commands, "make_session", lambda name, settings: nullcontext(None))
    monkeypatch.setattr(state_commands, "_state_of", state_of)
    monkeypatch.setattr(state_commands, "render_text", lambda summary, console: [summary])
    monkeypatch.setattr(state_commands, "render_json", lambda summary: {"summary": summary})

    def run(*arguments):
        done = CliRunner().invoke(cli.app, ["inspect", "checkpoint", *arguments])
        assert done.exit_code == 0, done.output
        return done.stdout

    return run


def test_inspect_prints_each_operator(inspect):
    assert inspect().split("\n") == [
        "operator  counts, of counts, largest",
        "summary of counts",
        "operator  largest, of counts, largest",
        "summary of largest",
        "",
    ]


def test_inspect_prints_one_operator_if_it_is_named_or_rows_are_filtered(inspect):
    assert inspect("--operator", "counts").split("\n")[:2] == ["operator  counts, of counts, largest", "summary of counts"]
    assert "summary of counts" not in inspect("--key", "item=a")


def test_inspect_writes_json_of_one_operator_with_the_names_of_all(inspect):
    assert json.loads(inspect("--json")) == {"summary": "summary of largest", "operators": ["counts", "largest"]}
    assert json.loads(inspect("--json", "--operator", "counts"))["summary"] == "summary of counts"


def test_savepoint_command_prints_each_operator():
    saved = Savepoint("saved", replace(MANIFEST, uid="last", operators=[OF_FIRST]), None, operators=("first", "last"))
    lines = list(state_commands._savepoint_lines(saved, "saved"))
    assert [title for title, _ in lines] == [
        *("savepoint", "checkpoint"),
        *("operator", "windows", "key", "key groups", "rows") * 2,
        "versions",
    ]
    assert [text for title, text in lines if title in ("operator", "key groups", "rows")] == [
        *("first", "1", "panes 7"),
        *("last", "2", "panes 3"),
    ]
    alone = Savepoint("saved", MANIFEST, None)
    assert "operator" not in dict(state_commands._savepoint_lines(alone, "saved"))
