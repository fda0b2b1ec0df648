"""One query through Spark Connect, and on a cluster of a master and two workers without an installed panestream."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pyspark
import pytest

from tests.processes import ANY_PORT, ROOT, ran
from tests.spark.clusters import cluster
from tests.spark.said import check_refusals

pytestmark = pytest.mark.spark

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
EPOCH = int(START.timestamp())
SCRIPT = Path(__file__).with_name("elsewhere.py")


def write_input(folder: Path) -> list[tuple[str, int, int]]:
    """Write six files of rows, with two late rows and one without a time. Return the rows that windows accept."""
    folder.mkdir()
    schema = pa.schema([("user", pa.string()), ("ts", pa.timestamp("us", tz="UTC")), ("price", pa.int64())])
    taken = []
    for number in range(6):
        rows = [(f"user{second % 7}", second, second * 3) for second in range(number * 30, number * 30 + 30)]
        taken += rows
        extra = [("late", 1, 5), ("late", 3, 6)] if number == 4 else [("none", None, 7)] if number == 2 else []
        columns = list(
            zip(
                *[
                    (user, None if second is None else START + timedelta(seconds=second), price)
                    for user, second, price in rows + extra
                ],
                strict=True,
            )
        )
        file = folder / f"{number}.parquet"
        pq.write_table(
            pa.table([pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema), file
        )
        os.utime(file, (1_700_000_000 + number,) * 2)
    return taken


def windows(rows, until=None):
    found = {}
    for user, second, price in rows:
        for start in (second // 10 * 10, second // 10 * 10 - 10):
            if until is None or start + 20 <= until:
                found.setdefault((user, EPOCH + start), []).append((second, price))
    return sorted([user, start, len(them), sum(p for _, p in them), max(them)[1]] for (user, start), them in found.items())


def run(folder: Path, *arguments: str, **environment: str) -> dict:
    wrote = ran(SCRIPT, folder, *arguments, **{"PYTHONPATH": str(ROOT / "src"), **environment})
    # Spark logs the stack of an exception when it reads a path that does not exist (yet).
    for said in ("Assume no metadata directory", "PATH_NOT_FOUND"):
        assert said not in wrote, wrote[-6000:]
    return json.loads((folder / "found.json").read_text())


def streamed(folder: Path) -> list[list]:
    """Return the sorted windows that a stream wrote."""
    return sorted(
        [row["user"], int(row["window_start"].replace(tzinfo=timezone.utc).timestamp()), row["n"], row["total"], row["newest"]]
        for row in ds.dataset(folder, partitioning="hive").to_table().to_pylist()
    )


def check(folder: Path, found: dict, taken) -> None:
    assert streamed(folder / "main") == windows(taken, until=179 - 5)
    late = ds.dataset(folder / "late", partitioning="hive").to_table().to_pylist()
    assert sorted(row["price"] for row in late) == [5, 6]
    invalid = ds.dataset(folder / "invalid", partitioning="hive").to_table().to_pylist()
    assert [row["price"] for row in invalid] == [7]
    in_batch = [row for row in found["batch"] if row[0] != "late"]
    assert in_batch == windows(taken)
    assert (
        sum(row[2] for row in found["batch"] if row[0] == "late") == 4
    )  # a batch does not have late rows, and each of the two rows is in two windows


@pytest.mark.skipif(
    pyspark.__version__.startswith("4.0."), reason="Connect of 4.0 has no streams: tests/versions/test_connect.py"
)
def test_query_through_spark_connect_gives_the_expected_results(tmp_path):
    for needed in ("pandas", "grpc", "grpc_status", "zstandard"):
        if importlib.util.find_spec(needed) is None:
            pytest.skip(f"Spark Connect's client needs {needed}: install panestream[connect]")
    taken = write_input(tmp_path / "in")
    found = run(tmp_path, "remote", **ANY_PORT)
    assert "connect" in found["session"]
    assert found["groups"] == 4
    check(tmp_path, found, taken)
    assert streamed(tmp_path / "seamed") == windows(taken, until=179 - 5)  # history first, then the stream
    batch, groups, panes = found["saved"]  # and a savepoint of that
    assert (batch >= 5, groups, panes > 0) == (True, 4, True)
    assert found["live"][0].startswith("<running")
    assert re.match(
        r"<ended: micro-batch [5-9], [\d,]+ rows/s, watermark 2026-01-01 00:02:53\.999999 UTC, .* 0 late rows>$",
        found["live"][-1],
    )
    # Columns have the same names as without Connect, so a checkpoint is not tied to a kind of client.
    assert found["called"] == [[text, text] for text, _ in found["called"]]
    assert found["identity"]["key"] == "user (string)"
    assert found["identity"]["aggregates"].startswith("agg.count('1').alias('n'), agg.sum('(price * 1)').alias('total')")
    check_refusals(found["errors"])


def customized(folder: Path, code: str) -> str:
    """Make a folder for PYTHONPATH whose sitecustomize runs this code in every Python that starts."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(code)
    return str(folder)


BARE = """
import os, sys
from pathlib import Path
if os.environ.get("ON_A_WORKER_MACHINE"):
    sys.path[:] = [path for path in sys.path if not (Path(path) / "panestream").is_dir()]
    sys.meta_path[:] = [finder for finder in sys.meta_path if "editable" not in repr(finder).lower()]
"""


NO_PANDAS = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "pandas":
            raise ModuleNotFoundError("No module named 'pandas'", name=name)
sys.meta_path.insert(0, Absent())
"""


def test_panestream_is_shipped_to_workers_without_it(tmp_path):
    # Python on the workers cannot see the source tree or an installed panestream, so it must run the shipped code.
    site = customized(tmp_path / "site", BARE)
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{site}:$PYTHONPATH" exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    on_worker = {**os.environ, "PYTHONPATH": "", "ON_A_WORKER_MACHINE": "1"}
    bare = subprocess.run([str(python), "-c", "import panestream"], capture_output=True, cwd=tmp_path, env=on_worker, check=False)
    assert b"No module named 'panestream'" in bare.stderr, "the workers' Python must not find panestream by itself"
    taken = write_input(tmp_path / "in")
    with cluster(tmp_path, python) as (master, _):
        found = run(tmp_path, master, "ship", PYSPARK_PYTHON=str(python), SPARK_LOCAL_IP="127.0.0.1")
    assert found["executors"] == 2
    assert "4 key groups, one per state partition; 2 tasks take them in turns" in found["explained"]
    check(tmp_path, found, taken)


def test_query_runs_without_pandas(tmp_path):
    site = customized(tmp_path / "site", NO_PANDAS)
    taken = write_input(tmp_path / "in")
    found = run(tmp_path, "local[2]", PYTHONPATH=os.pathsep.join([site, str(ROOT / "src")]))
    check(tmp_path, found, taken)
