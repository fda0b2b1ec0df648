"""A savepoint of one version of Spark, classic or through Connect, starts on another version with other key groups.

``PANESTREAM_PYTHONS`` names the Pythons (see test_carried_on.py).
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.processes import ANY_PORT, ran
from tests.versions.carried import ROWS, queries

pytestmark = pytest.mark.spark

PYTHONS = dict(each.split("=", 1) for each in os.environ.get("PANESTREAM_PYTHONS", "").split())
NAMES = [name for name in queries() if name != "clock"]
for_connect = [name for name in ("pandas", "grpc", "grpc_status", "zstandard") if importlib.util.find_spec(name) is None]


def run(python: str, folder: Path, first: int, last: int, groups: int, *more: str) -> dict:
    script = Path(__file__).with_name("saved.py")
    environment = ANY_PORT if "remote" in more else {}
    return json.loads(
        ran(script, folder, first, last, groups, ",".join(NAMES), *more, python=python, **environment).splitlines()[-1]
    )


def read_outputs(folder: Path, name: str) -> dict[str, list[str]]:
    """Return the rows of a query's outputs over all runs, without the numbers of micro-batches."""
    rows: dict[str, list[str]] = {}
    for tag in sorted(folder.glob(f"out-*/{name}/*")):
        read = [{each: value for each, value in row.items() if each != "batch_id"} for row in pq.read_table(tag).to_pylist()]
        rows.setdefault(tag.name, []).extend(json.dumps(row, default=str, sort_keys=True) for row in read)
    return {tag: sorted(each) for tag, each in rows.items()}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    run(PYTHONS[max(PYTHONS)] if PYTHONS else sys.executable, folder, 0, len(ROWS) - 1, 2)
    return folder


def check(folder: Path, whole: Path) -> None:
    for name in NAMES:
        expected = read_outputs(whole, name)
        assert expected["main"], name
        assert read_outputs(folder, name) == expected, name


@pytest.mark.parametrize(("one", "other"), [("4.0", "4.3"), ("4.3", "4.0")])
def test_savepoint_starts_on_another_version_of_spark(one, other, request, tmp_path):
    missing = [version for version in (one, other) if version not in PYTHONS]
    if missing:
        pytest.skip(f"there is no environment of Spark {' or '.join(missing)} here: make test-matrix makes them")
    said = run(PYTHONS[one], tmp_path, 0, 1, 2)
    assert all(versions["spark"].startswith(one) for versions in said["taken"].values())
    assert sorted(said["taken"]) == sorted(NAMES)
    assert run(PYTHONS[other], tmp_path, 2, len(ROWS) - 1, 3)["spark"].startswith(other)
    check(tmp_path, request.getfixturevalue("undisturbed"))


@pytest.mark.skipif(not PYTHONS, reason="takes minutes: make test-matrix runs it; tests/spark/test_elsewhere.py has one operator")
@pytest.mark.skipif(bool(for_connect), reason=f"Spark Connect's client needs {for_connect}")
def test_savepoint_of_a_classic_session_starts_through_spark_connect(undisturbed, tmp_path):
    run(sys.executable, tmp_path, 0, 1, 2, "remote")
    run(sys.executable, tmp_path, 2, len(ROWS) - 1, 3, "remote")
    check(tmp_path, undisturbed)
