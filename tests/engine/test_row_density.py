"""The estimate of rows per key and pane: its error for samples of many densities, and the samples that do not show it."""

from __future__ import annotations

import numpy as np
import pytest

from panestream.spark.row_density import SAMPLE_ROWS, only_reads_files, rows_per_pane

SECOND = 1_000_000


def sample(keys: int, rows_per_second: int, *, disorder: int = 0, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    times = np.arange(SAMPLE_ROWS) * SECOND // rows_per_second + rng.integers(0, disorder + 1, SAMPLE_ROWS)
    return rng.integers(0, keys, SAMPLE_ROWS), times


@pytest.mark.parametrize("disorder", [0, SECOND])
@pytest.mark.parametrize(
    ("keys", "rows_per_second", "pane"),
    [(1_000, 500, 10), (10_000, 10_000, 10), (100_000, 1_157, 60), (50, 100, 300), (200, 40, 5)],
)
def test_estimate_is_near_the_number_of_rows(keys: int, rows_per_second: int, pane: int, disorder: int) -> None:
    found = rows_per_pane(*sample(keys, rows_per_second, disorder=disorder), pane * SECOND)
    expected = max(1.0, rows_per_second * pane / keys)
    assert found is not None
    assert expected / 1.6 < found < expected * 1.6


def test_estimate_of_keys_that_hardly_repeat_is_not_smaller_than_one_row() -> None:
    assert rows_per_pane(*sample(10**9, 5_000), 10 * SECOND) == 1.0


def test_keys_that_hardly_repeat_may_have_many_rows_in_a_long_pane() -> None:
    keys, times = sample(10**9, 5_000)
    found = rows_per_pane(keys, times, 365 * 86_400 * SECOND)
    assert found is not None
    assert found > 20


def test_rows_out_of_the_order_of_time_show_nothing() -> None:
    keys, times = sample(1_000, 500)
    rng = np.random.default_rng(3)
    assert rows_per_pane(keys, rng.permutation(times), 10 * SECOND) is None
    assert rows_per_pane(keys, np.zeros_like(times), 10 * SECOND) is None
    # A second of disorder hides the order of 25 milliseconds.
    assert rows_per_pane(*sample(10_000, 400_000, disorder=SECOND), 10 * SECOND) is None


def test_newest_rows_first_is_an_order_too() -> None:
    keys, times = sample(1_000, 500)
    found = rows_per_pane(keys, times[::-1], 10 * SECOND)
    assert found is not None
    assert 4 < found < 6


@pytest.mark.parametrize(
    ("nodes", "reads"),
    [
        ("*(1) ColumnarToRow\n+- FileScan parquet [a#1] Batched: true, Location: InMemoryFileIndex [file:/a Join b]", True),
        ("*(1) Project [a#1]\n+- BatchScan orders [a#1] orders (branch=null)", True),
        ("*(1) Filter isnotnull(a#1)\n+- FileScan parquet [a#1]", False),
        ("AdaptiveSparkPlan isFinalPlan=false\n+- Exchange hashpartitioning(a#1, 4)\n   +- FileScan parquet [a#1]", False),
        ("*(2) Project [a#1]\n+- BatchEvalPython [f(a#1)#2]\n   +- FileScan parquet [a#1]", False),
        ("Union\n:- FileScan parquet [a#1]\n+- FileScan parquet [a#1]", False),
        ("LocalTableScan [a#1]", False),
        ("*(1) Project [text with a\nline of its own]\n+- FileScan parquet [a#1]", False),
        ("", False),
    ],
)
def test_only_plans_that_read_files_and_nothing_else_are_cheap(nodes: str, reads: bool) -> None:
    assert only_reads_files(f"== Physical Plan ==\n{nodes}\n") is reads
