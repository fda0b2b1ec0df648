"""The contestants of each feature have the same rows, and a wrong one is found."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.features import run
from benchmarks.features.contest import CORES, Turn, table
from panestream.spark.session import PARTITIONS, session_settings

pytestmark = pytest.mark.full


def test_ratio_is_of_one_round_and_shown_as_median_and_range():
    contest = replace(run.CONTESTS["fill"], title="a query", wanted={"native": 5.0})
    turns = {"panestream": [Turn(1, 1), Turn(2, 1), Turn(1, 1)], "native": [Turn(3, 2), Turn(4, 2), Turn(5, 2)]}
    assert table(contest, 1_000, turns) == [
        "| a query | panestream | 1,000 | 1.00 (1.00 to 2.00) |  |  |  |",
        "|  | native | 1,000 | 4.00 (3.00 to 5.00) | 3.00 (2.00 to 5.00) | 2.00 (2.00 to 2.00) | 5 |",
    ]


@pytest.fixture
def _two_partitions(spark):
    """Give Spark's own operators the partitions of the benchmark. With 200, a join of two streams takes a quarter of an hour."""
    with session_settings(spark, {PARTITIONS: str(CORES)}):
        yield


@pytest.mark.spark
@pytest.mark.usefixtures("_two_partitions")
@pytest.mark.parametrize("name", run.CONTESTS)
def test_all_contestants_have_the_same_rows(spark, name):
    _, turns = run.contest.run(run.CONTESTS[name], spark, 0.002, rounds=0)
    assert len(turns) >= 2


@pytest.mark.spark
@pytest.mark.usefixtures("_two_partitions")
def test_contestant_with_other_rows_is_refused(spark):
    contest = run.CONTESTS["fill"]
    rival = {**contest.contestants, "wrong": lambda _, source, folder: (source / "rows").rename(folder / "out")}
    with pytest.raises(SystemExit, match="do not have the same rows"):
        run.contest.run(replace(contest, contestants=rival), spark, 0.002, rounds=0)
