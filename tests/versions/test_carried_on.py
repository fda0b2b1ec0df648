"""A checkpoint that was begun on one version of Spark goes on on the next, and the answer is that of a query nobody disturbed.

`make test-matrix` says where the environments are: ``PANESTREAM_PYTHONS="4.0=/path/to/python 4.1=…"``.
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
# Which version takes which micro-batches.
WAYS = {
    "each to the next": [("4.0", 0, 0), ("4.1", 1, 1), ("4.2", 2, 2), ("4.3", 3, 3)],
    "from 4.1 to 4.3": [("4.1", 0, 1), ("4.3", 2, 3)],
}
BY_EVENT_TIME = [name for name in queries() if name != "clock"]


def run(version: str, folder: Path, first: int, last: int) -> None:
    """Lets a version of Spark take some micro-batches, and checks that it did."""
    script = Path(__file__).with_name("carried.py")
    said = json.loads(ran(script, folder, first, last, python=PYTHONS[version]).splitlines()[-1])
    assert said["spark"].startswith(version)
    # The clock goes on without rows, too.
    assert all(number == last + 1 or (name == "clock" and number > last) for name, number in said["committed"].items()), said


def found(folder: Path, name: str) -> dict[str, list[str]]:
    """All rows of a query's outputs."""
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
def test_a_checkpoint_goes_on_on_the_next_version(way, request, tmp_path):
    missing = [version for version, _, _ in WAYS[way] if version not in PYTHONS]
    if missing:
        pytest.skip(f"there is no environment of Spark {' or '.join(missing)} here: make test-matrix makes them")
    for step in WAYS[way]:
        run(step[0], tmp_path, *step[1:])
    expected = request.getfixturevalue("undisturbed")
    for name in BY_EVENT_TIME:
        whole = found(expected, name)
        assert whole["main"], name
        assert found(tmp_path, name) == whole, name
    # What the clock makes of it is when it fires; but some firing of each user has all the rows there ever were.
    firings = pq.read_table(tmp_path / "out" / "clock" / "main").to_pylist()
    assert {user: max(row["n"] for row in firings if row["user"] == user) for user in USERS} == dict.fromkeys(USERS, 20)
