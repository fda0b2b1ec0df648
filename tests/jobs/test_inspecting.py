"""``panestream inspect`` on real checkpoints and savepoints: its output, refusals, and silent Spark."""

import datetime as dt
import json
import re
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

import panestream as pst
from panestream import agg
from panestream.jobs import cli, state_commands
from panestream.testing import MicroBatches
from tests.insight.schema import wrong

pytestmark = pytest.mark.spark
DOCS = Path(__file__).parents[2] / "docs"
START = dt.datetime(2026, 1, 1, 10, tzinfo=dt.timezone.utc)
SHOPS = ("north", "south")
USERS = ("ann", "bob", "<b>cleo</b>", None)


@pytest.fixture(scope="module")
def checkpoint(spark, tmp_path_factory):
    """Return the checkpoint of docs/how-to/inspecting.md: orders of four users in two shops, in windows of half an hour."""
    folder = tmp_path_factory.mktemp("inspected")
    orders = MicroBatches(spark, folder / "orders", "user string, shop string, price bigint, ts timestamp")
    rows = [(USERS[n % 4 if n % 3 else 0], SHOPS[n % 5 % 2], n, START + dt.timedelta(minutes=n)) for n in range(120)]
    orders.add(rows[:60])
    orders.add(rows[60:])
    result = (
        pst.stream(orders.stream())
        .assign_timestamps("ts", pst.WatermarkStrategy.for_bounded_out_of_orderness("20 minutes").per_partition("shop"))
        .key_by("user", "shop")
        .window(pst.TumblingEventTimeWindows.of("30 minutes"))
        .allowed_lateness("1 hour")
        .options(key_groups=3)
        .aggregate(agg.count().alias("orders"), agg.sum("price").alias("total"))
    )
    result.start(main=pst.ParquetSink(str(folder / "out")), checkpoint=str(folder / "checkpoint")).await_termination()
    return folder / "checkpoint"


@pytest.fixture
def inspect(spark, monkeypatch):
    """Run the command in the shared session."""
    given = []

    @contextmanager
    def shared(name, settings):
        given.append(settings)
        yield spark

    monkeypatch.setattr(state_commands, "make_session", shared)

    def run(*arguments, width=80, status=0):
        monkeypatch.setenv("COLUMNS", str(width))
        done = CliRunner().invoke(cli.app, ["inspect", *map(str, arguments)])
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        assert done.exit_code == status, done.output
        return done.stdout if status == 0 else done.stderr

    run.settings = given
    return run


def document(inspect, *arguments):
    return json.loads(inspect(*arguments, "--json"))


def steady(text):
    """Replace the parts that vary between runs: times, ages, and line breaks, so all whitespace becomes equal."""
    text = re.sub(r"planned \S+ \S+ UTC, [^,]*? ago", "planned THEN", " ".join(text.split()))
    return re.sub(r"\d+ \w+( \d+ \w+)? behind the clock", "AGO behind the clock", text)


def test_inspect_prints_json_and_writes_a_page_without_output_of_spark(checkpoint, tmp_path):
    page = tmp_path / "page.html"
    command = [sys.executable, "-m", "panestream.jobs", "inspect", str(checkpoint), "--json", "--html", str(page)]
    command += ["--conf", "spark.master=local[1]", "--conf", "spark.ui.enabled=false"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert wrong(found, json.loads((DOCS / "reference" / "inspecting.schema.json").read_text("utf-8"))) == []
    assert found["totals"]["windows"] == sum(each["windows"] for each in found["by_end"]["bins"]) > 0
    text = page.read_text("utf-8")
    assert text.count("<svg") == 6
    assert "<b>cleo" not in text
    assert "&lt;b&gt;cleo&lt;/b&gt;" in text


def test_documentation_shows_the_printed_output(checkpoint, inspect):
    page = (DOCS / "how-to" / "inspecting.md").read_text("utf-8")
    (example,) = re.findall(r"\n((?:    .*\n|\n)*?    /data/checkpoint\n(?:    .*\n|\n)*)", page)
    shown = re.sub(r"^    ", "", example, flags=re.MULTILINE).strip()
    printed = inspect(checkpoint, "--most", 4).replace(str(checkpoint), "/data/checkpoint").strip()
    printed = re.sub(r"\A\S+(\n\S+)*(?=\nmicro-batch)", "/data/checkpoint", printed)
    assert steady(printed) == steady(shown)


def test_inspect_filters_by_key_and_window(checkpoint, inspect):
    everything = document(inspect, checkpoint)["totals"]
    north = document(inspect, checkpoint, "--key", "shop=north")["totals"]
    south = document(inspect, checkpoint, "--key", "shop=south")["totals"]
    for name in ("windows", "rows", "keys"):
        assert north[name] + south[name] == everything[name]
    found = document(inspect, checkpoint, "--key", "user=ann", "--key", "shop=north", "--window", "2026-01-01T11:15Z")
    (window,) = found["listed"]["windows"]
    expected = [n for n in range(60, 90) if USERS[n % 4 if n % 3 else 0] == "ann" and SHOPS[n % 5 % 2] == "north"]
    assert window["key"] == {"user": "ann", "shop": "north"}
    assert (window["window_start"], window["window_end"]) == ("2026-01-01T11:00:00Z", "2026-01-01T11:30:00Z")
    assert window["results"] == {"orders": len(expected), "total": sum(expected)}
    assert found["totals"] == {**found["totals"], "windows": 1, "rows": len(expected)}
    nobody = document(inspect, checkpoint, "--key", r"user=\N", "--key", "shop=north")
    assert {row["key"]["user"] for row in nobody["listed"]["windows"]} == {None}
    text = inspect(checkpoint, "--key", "user=ann", "--window", "2026-01-01 11:15", width=140)
    assert re.search(rf"^user=ann shop=north +.* orders={len(expected)} total={sum(expected)}", text, re.MULTILINE)


def test_inspect_shows_sources_and_times(checkpoint, inspect):
    found = document(inspect, checkpoint)
    assert [source["name"] for source in found["sources"]] == ["south", "north"]
    assert found["time"]["newest"] == "2026-01-01T11:59:00Z"
    assert max(source["behind_newest"] for source in found["sources"]) == found["time"]["behind_newest"]
    assert found["batch_id"] == 1
    assert document(inspect, checkpoint, "--batch", 0)["time"]["newest"] == "2026-01-01T10:59:00Z"


def test_inspect_of_a_savepoint_equals_that_of_its_checkpoint(checkpoint, inspect, spark, tmp_path):
    saved = pst.savepoint(spark, str(checkpoint), str(tmp_path / "saved"))
    found, before = document(inspect, saved.path), document(inspect, checkpoint)
    same = ("batch_id", "plan", "sources", "by_end", "listed")
    without_clock = [[{**each, "behind_clock": 0} for each in summary["sources"]] for summary in (found, before)]
    assert without_clock[0] == without_clock[1]
    assert {name: found[name] for name in same if name != "sources"} == {name: before[name] for name in same if name != "sources"}
    assert {**found["totals"], "bytes": 0} == {**before["totals"], "bytes": 0}
    assert document(inspect, saved.path, "--key", "shop=north")["totals"]["windows"]
    assert "is a savepoint, which is of one micro-batch" in inspect(saved.path, "--batch", 0, status=2)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--key", "usr=ann"), "does not name a key column"),
        (("--key", "ann"), "the key columns are user, shop"),
        (("--key", "user=a", "--key", "user=b"), "given twice"),
        (("--window", "soon"), "'soon' is neither a time"),
        (("--batch", "7"), "has no micro-batch 7"),
        (("--conf", "spark.master"), "--conf takes NAME=VALUE"),
        (("--html", "/nowhere/page.html"), "there is no folder /nowhere"),
    ],
)
def test_wrong_arguments_of_inspect_are_refused(checkpoint, inspect, arguments, said):
    told = inspect(checkpoint, *arguments, status=2)
    assert told.startswith("error: ")
    assert said in told


def test_folder_without_a_checkpoint_is_refused(inspect, tmp_path):
    assert "is not a checkpoint" in inspect(tmp_path, status=2)


def test_inspect_passes_settings_to_spark(checkpoint, inspect):
    inspect(checkpoint, "--conf", "spark.jars.packages=a:b:1,c:d:2", "--conf", "a=b=c", "--remote", "sc://there", "--json")
    assert inspect.settings == [{"spark.jars.packages": "a:b:1,c:d:2", "a": "b=c", "spark.remote": "sc://there"}]


def test_notebook_shows_the_summary_but_repr_does_not_query_spark(checkpoint, spark):
    state = pst.state.read_checkpoint(spark, str(checkpoint))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(type(state), "_summary", lambda *_: pytest.fail("Spark was asked"))
        assert "micro-batch 1" in repr(state)
    shown = state._repr_html_()
    assert shown.count("<svg") == 6
    assert "&lt;b&gt;cleo" in shown
    summary = state.summary(["user=ann"])
    assert summary.keys == 2
    assert "user=ann shop=north" in summary._repr_html_()
