"""The output and exit status of ``panestream savepoint``."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
from typer.testing import CliRunner

from panestream.jobs import cli, state_commands

pytestmark = pytest.mark.spark


@pytest.fixture
def run_command(spark, monkeypatch):
    monkeypatch.setattr(state_commands, "make_session", lambda name, settings: nullcontext(spark))
    return lambda *arguments: CliRunner().invoke(cli.app, ["savepoint", *map(str, arguments)])


def test_savepoint_command_prints_what_it_saved(spark, tmp_path, run_command):
    from tests.spark.savepoint.runs import ran
    from tests.spark.savepoint.test_start import ROWS, clicks_in, counted

    ran(counted(clicks_in(spark, tmp_path / "in", ROWS[:1]), 2), tmp_path / "checkpoint")
    done = run_command(tmp_path / "checkpoint", tmp_path / "saved")
    assert done.exit_code == 0, done.output
    lines = dict(line.split(maxsplit=1) for line in done.output.splitlines())
    assert lines["savepoint"] == str(tmp_path / "saved")
    assert lines["checkpoint"] == f"{tmp_path / 'checkpoint'}, after micro-batch 0"
    assert lines["rows"].startswith("panes ")
    again = run_command(tmp_path / "checkpoint", tmp_path / "saved")
    assert (again.exit_code, "holds a savepoint already" in again.output) == (cli.EXIT_ERROR, True)
    none = run_command(tmp_path / "saved", tmp_path / "other")
    assert (none.exit_code, "is a savepoint, not a checkpoint" in none.output) == (cli.EXIT_ERROR, True)
