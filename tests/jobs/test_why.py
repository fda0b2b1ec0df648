"""``panestream why`` on a checkpoint: its output and its refusals."""

import datetime as dt
import json
from contextlib import contextmanager

import pytest
from typer.testing import CliRunner

import panestream as pst
from panestream import agg
from panestream.jobs import cli, state_commands
from panestream.testing import MicroBatches

START = dt.datetime(2026, 1, 1, 10, tzinfo=dt.timezone.utc)


@pytest.fixture(scope="module")
def checkpoint(spark, tmp_path_factory):
    """Make a checkpoint of rows of two users in two shops, one a minute until 10:19, with a watermark of 10:14."""
    folder = tmp_path_factory.mktemp("why")
    orders = MicroBatches(spark, folder / "orders", "user string, shop string, price bigint, ts timestamp")
    orders.add([("ann" if n % 2 else "bob", "north", n, START + dt.timedelta(minutes=n)) for n in range(20)])
    strategy = pst.WatermarkStrategy.for_bounded_out_of_orderness("5 minutes")
    stream = pst.stream(orders.stream()).assign_timestamps("ts", strategy).key_by("user", "shop")
    windows = stream.window(pst.TumblingEventTimeWindows.of("10 minutes")).side_output_late_data("late").options(key_groups=1)
    result = windows.aggregate(agg.sum("price").alias("total"))
    sinks = {"main": pst.ParquetSink(str(folder / "out")), "late": pst.MemorySink()}
    result.start(checkpoint=str(folder / "checkpoint"), **sinks).await_termination()
    return folder / "checkpoint"


def invoked(*arguments, status=0):
    done = CliRunner().invoke(cli.app, ["why", *map(str, arguments)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == status, done.output
    return done.stdout if status == 0 else done.stderr


@pytest.fixture
def ask(spark, monkeypatch):
    """Run the command in the shared session."""

    @contextmanager
    def shared(name, settings):
        yield spark

    monkeypatch.setattr(state_commands, "make_session", shared)
    monkeypatch.setenv("COLUMNS", "200")
    return invoked


KEY = ("--key", "user=ann", "--key", "shop=north")


@pytest.mark.spark
def test_why_explains_a_late_row_as_text_and_json(ask, checkpoint):
    told = ask(checkpoint, *KEY, "--time", "2026-01-01T10:08Z")
    assert "A row of key ('ann', 'north') with event time 2026-01-01 10:08:00, by the checkpoint" in told
    assert "[2026-01-01 10:00:00, 2026-01-01 10:10:00) is closed since the watermark came to 2026-01-01 10:09:59.999999." in told
    assert "Late rows go to the output 'late': look for it there." in told
    found = json.loads(ask(checkpoint, *KEY, "--time", "2026-01-01T10:08", "--json"))
    assert (found["late_now"], found["late_rows_go_to"], found["watermark"]) == (True, "late", "2026-01-01T10:13:59.999999Z")
    assert found["missing_lateness"] == pytest.approx(240.000001)
    assert [each["open"] for each in found["windows"]] == [False]


@pytest.mark.spark
def test_why_explains_an_open_window(ask, checkpoint):
    found = json.loads(ask(checkpoint, "--window", "2026-01-01T10:10", "--json"))
    (window,) = found["windows"]
    assert {tuple(each["key"]): each["results"] for each in window["state"]} == {
        ("ann", "north"): {"total": 75},
        ("bob", "north"): {"total": 70},
    }
    assert "It fires when the watermark comes to 2026-01-01 10:19:59.999999." in found["text"]


@pytest.mark.spark
def test_why_refuses_a_partial_key_or_a_missing_checkpoint(ask, checkpoint, tmp_path):
    assert "--key shop=VALUE is missing" in ask(checkpoint, "--key", "user=ann", "--time", "2026-01-01", status=2)
    assert "does not name a key column" in ask(checkpoint, "--key", "ann", "--time", "2026-01-01", status=2)
    assert "it does not exist" in ask(tmp_path / "none", "--time", "2026-01-01", status=2)


def test_arguments_of_why_are_checked_before_spark_starts():
    assert "one of both" in invoked("anywhere", status=2)
    assert "one of both" in invoked("anywhere", "--time", "2026-01-01", "--window", "2026-01-01", status=2)
    assert "--time 'noon' is not a time such as 2026-01-31T10:00" in invoked("anywhere", "--time", "noon", status=2)
