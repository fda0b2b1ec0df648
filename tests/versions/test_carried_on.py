"""A query continues a checkpoint of an earlier version of Spark, and its output equals an undisturbed run.

`make test-matrix` sets the environments: ``PANESTREAM_PYTHONS="4.0=/path/to/python 4.1=…"``.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.processes import ran
from tests.versions.carried import ROWS, USERS, queries

pytestmark = pytest.mark.spark

PYTHONS = dict(each.split("=", 1) for each in os.environ.get("PANESTREAM_PYTHONS", "").split())
# The micro-batches that each version runs.
WAYS = {
    "each to the next": [("4.0", 0, 0), ("4.1", 1, 1), ("4.2", 2, 2), ("4.3", 3, 3)],
    "from 4.1 to 4.3": [("4.1", 0, 1), ("4.3", 2, 3)],
}
BY_EVENT_TIME = [name for name in queries() if name != "clock"]


def run(version: str, folder: Path, first: int, last: int) -> None:
    """Run some micro-batches with a version of Spark, and check that it did."""
    script = Path(__file__).with_name("carried.py")
    said = json.loads(ran(script, folder, first, last, python=PYTHONS[version]).splitlines()[-1])
    assert said["spark"].startswith(version)
    # A query of processing time also has micro-batches without rows.
    assert all(number == last + 1 or (name == "clock" and number > last) for name, number in said["committed"].items()), said


def read_outputs(folder: Path, name: str) -> dict[str, list[str]]:
    """Return all rows of a query's outputs."""
    return {
        tag.name: sorted(json.dumps(row, default=str, sort_keys=True) for row in pq.read_table(tag).to_pylist())
        for tag in sorted((folder / "out" / name).iterdir())
    }


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    newest = max(PYTHONS)
    folder = tmp_path_factory.mktemp("undisturbed")
    run(newest, folder, 0, len(ROWS) - 1)
    return folder


@pytest.mark.parametrize("way", WAYS)
def test_query_continues_a_checkpoint_of_an_earlier_spark(way, request, tmp_path):
    missing = [version for version, _, _ in WAYS[way] if version not in PYTHONS]
    if missing:
        pytest.skip(f"there is no environment of Spark {' or '.join(missing)} here: make test-matrix makes them")
    for step in WAYS[way]:
        run(step[0], tmp_path, *step[1:])
    expected = request.getfixturevalue("undisturbed")
    for name in BY_EVENT_TIME:
        whole = read_outputs(expected, name)
        assert whole["main"], name
        assert read_outputs(tmp_path, name) == whole, name
    # The moments of processing-time firings vary, but some firing of each user has all rows.
    firings = pq.read_table(tmp_path / "out" / "clock" / "main").to_pylist()
    assert {user: max(row["n"] for row in firings if row["user"] == user) for user in USERS} == dict.fromkeys(USERS, 20)
