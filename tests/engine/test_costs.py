"""Limits for the costs of a micro-batch, which are counted instead of timed.

A limit is the count at the time of writing plus some slack, because pyarrow versions write different bytes and Python versions
make different calls. One more state call per micro-batch, or one more Python call per row or key, exceeds it. If you make
something cheaper, lower its limit. If you must make it dearer, give the reason in the commit.

All values are in the store, as those of large states are. ``test_small_values.py`` counts the calls for small ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import median

import numpy as np
import pytest

from panestream.engine.plan import WindowQuery
from panestream.windowing.assigners import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from panestream.windowing.assigners.global_windows import CountWindows
from tests.engine.costs import MEASURED, QUERIES, SECOND, Cost, Query, costs, python_calls, run_wide_query

pytestmark = pytest.mark.usefixtures("values_apart")

COLUMNAR = [name for name, query in QUERIES.items() if query.runs_on != "row operator"]
ROW_BY_ROW = [name for name in QUERIES if name not in COLUMNAR]


@dataclass(frozen=True)
class Limit:
    """The highest costs that the micro-batches of a query may have.

    Attributes:
        calls: state calls of ten micro-batches with 10 or 1,000 keys.
        calls_of_many: the same with many keys. Pages hold some thousands of keys each.
        written, exchanged: bytes per key, if many keys have rows (see ``for_rows``).
        read: bytes read per byte kept.
        python: Python calls of a micro-batch of 1,000 rows.
        for_rows: whether ``written`` is per row, because rows themselves are kept.
        exchanged_rows: whether ``exchanged`` is per row, because rows cross the shuffle unreduced.
        of_a_row: Python calls of the row operator per row.
    """

    calls: int
    calls_of_many: int
    written: float
    exchanged: float
    read: float
    python: int
    for_rows: bool = False
    exchanged_rows: bool = True
    of_a_row: float = 0.0


LIMITS = {
    "panes, sliding 60 s / 1 s": Limit(197, 182, 28.4, 12.5, 0.6, 4_900, exchanged_rows=False),
    "panes, tumbling 10 s": Limit(70, 70, 4.9, 4.5, 0.5, 2_250, exchanged_rows=False),
    "sessions that end": Limit(60, 100, 12.8, 7.7, 1.0, 3_900),
    "sessions that go on": Limit(60, 60, 12.9, 7.7, 1.0, 3_700),
    "counts of 100": Limit(60, 60, 4.4, 4.1, 1.0, 2_600),
    "accumulating, 10 s / 2 s": Limit(110, 110, 14.1, 10.1, 1.0, 3_150, for_rows=True),
    "interval join, outer": Limit(100, 100, 7.1, 14.1, 1.0, 3_000, for_rows=True),
    "look-backs of 4 s": Limit(120, 120, 14.2, 6.1, 1.0, 3_950, for_rows=True),
    "rolling, 4 s / 1 s and ever": Limit(169, 169, 34.5, 12.5, 1.0, 6_400, exchanged_rows=False),
    "predicates": Limit(60, 160, 8.3, 6.2, 1.0, 3_650, for_rows=True),
    "rows, 10 s / 5 s": Limit(80, 80, 44.5, 10.4, 1.0, 9_000, of_a_row=5.0),
    "rows, a trigger that counts": Limit(80, 80, 54.8, 10.4, 1.0, 48_900, of_a_row=44.8),
}
SLACK = 1.15
"""A factor for other versions of Python and pyarrow."""
OF_A_CALL = 300
"""The Python calls that belong to one state call: decoding, searching and encoding a page."""


def few(name: str) -> tuple[Cost, ...]:
    """Return the costs for 1,000 rows of 10 keys."""
    return costs(name, 1_000, 10)


def many_rows(name: str) -> tuple[Cost, ...]:
    """Return the costs for 10 keys with enough rows to show the work per row."""
    return costs(name, MANY_ROWS[name in COLUMNAR], 10)


def many_keys(name: str) -> tuple[Cost, ...]:
    """Return the costs for enough keys to show the work per key. The row operator gets fewer, as it keeps the windows of each
    key separately.
    """
    return costs(name, *sizes(name))


def sizes(name: str) -> tuple[int, int]:
    """Return the rows and keys of :func:`many_keys`. One query has several pages of keys."""
    if name == "sessions that end":
        return 100_000, 10_000
    return (40_000, 4_000) if name in COLUMNAR else (3_000, 300)


MANY_ROWS = {True: 20_000, False: 3_000}
"""Rows of :func:`many_rows`, by whether the query is columnar."""


def total(of: Callable[[Cost], int], costs_: tuple[Cost, ...]) -> int:
    """Return the sum over all micro-batches."""
    return sum(map(of, costs_))


def calls(costs_: tuple[Cost, ...]) -> int:
    """Return the number of state calls over all micro-batches."""
    return total(lambda cost: cost.state_calls, costs_)


@pytest.mark.full
@pytest.mark.parametrize("name", QUERIES)
def test_measured_queries_keep_state_exchange_rows_and_fire(name: str) -> None:
    costs_ = many_keys(name)
    assert len(costs_) == MEASURED
    assert (total(lambda cost: cost.fired, costs_) > 0) == (name != "sessions that go on")
    assert all(cost.kept and cost.exchanged for cost in costs_)


@pytest.mark.parametrize("name", QUERIES)
def test_number_of_state_calls_does_not_grow_with_rows(name: str) -> None:
    # Allow less than one more call per micro-batch.
    slack = MEASURED // 2
    for costs_ in (few(name), costs(name, 1_000, min(1_000, sizes(name)[1])), many_rows(name)):
        assert calls(costs_) <= LIMITS[name].calls + slack, [cost.calls for cost in costs_]
    assert calls(many_keys(name)) <= LIMITS[name].calls_of_many + slack, [cost.calls for cost in many_keys(name)]


@pytest.mark.parametrize("name", QUERIES)
def test_meta_record_and_witness_are_read_and_written_once(name: str) -> None:
    for cost in (*few(name), *many_keys(name)):
        assert (cost.calls["get", "meta"], cost.calls["put", "meta"]) == (2, 2)


@pytest.mark.parametrize("name", QUERIES)
def test_bytes_written_to_state_stay_within_the_limit(name: str) -> None:
    limit, (rows, keys) = LIMITS[name], sizes(name)
    units = rows if limit.for_rows else keys
    written = total(lambda cost: cost.written, many_keys(name)) / MEASURED
    assert written <= units * limit.written * SLACK
    if not limit.for_rows:
        # More rows of the same keys have the same partials.
        with_few_rows = total(lambda cost: cost.written, few(name))
        assert total(lambda cost: cost.written, many_rows(name)) <= with_few_rows * SLACK


@pytest.mark.parametrize("name", QUERIES)
def test_bytes_read_from_state_stay_within_the_limit(name: str) -> None:
    # A micro-batch reads what the previous one kept, and always the meta record.
    for costs_ in (few(name), many_rows(name), many_keys(name)):
        read, stored = total(lambda cost: cost.read, costs_[1:]), total(lambda cost: cost.kept, costs_[:-1])
        assert read <= (stored * LIMITS[name].read + 2_500 * len(costs_)) * SLACK


@pytest.mark.parametrize("name", QUERIES)
def test_bytes_that_cross_the_shuffle_stay_within_the_limit(name: str) -> None:
    limit, (rows, keys) = LIMITS[name], sizes(name)
    exchanged = total(lambda cost: cost.exchanged, many_keys(name)) / MEASURED
    assert exchanged <= (rows if limit.exchanged_rows else keys) * limit.exchanged * SLACK
    if not limit.exchanged_rows:
        assert total(lambda cost: cost.exchanged, many_rows(name)) <= total(lambda cost: cost.exchanged, few(name)) * SLACK


@pytest.mark.parametrize("name", COLUMNAR)
def test_columnar_operators_make_no_python_call_per_row(name: str) -> None:
    for small, large in zip(few(name), many_rows(name), strict=True):
        # One more call per 95 of the 19,000 additional rows would be noticed. More rows may need more pages and more output
        # payloads.
        more = large.bodies - small.bodies + max(0, large.state_calls - small.state_calls)
        assert large.python <= small.python + 200 + OF_A_CALL * more


@pytest.mark.parametrize("name", COLUMNAR)
def test_columnar_operators_make_no_python_call_per_key(name: str) -> None:
    for small, large in zip(few(name), many_keys(name), strict=True):
        # With thousands of more keys, only the number of pages may grow.
        pages = max(0, large.state_calls - small.state_calls)
        assert large.python <= small.python + OF_A_CALL * (pages + 2)


@pytest.mark.parametrize("name", QUERIES)
def test_small_micro_batch_makes_few_python_calls(name: str) -> None:
    """The costs of a micro-batch with few rows."""
    assert median(cost.python for cost in few(name)) <= LIMITS[name].python * SLACK


@pytest.mark.parametrize("name", ROW_BY_ROW)
def test_python_calls_of_the_row_operator_per_row_stay_within_the_limit(name: str) -> None:
    more = total(lambda cost: cost.python, many_rows(name)) - total(lambda cost: cost.python, few(name))
    assert more / MEASURED / (MANY_ROWS[False] - 1_000) <= LIMITS[name].of_a_row + 0.6


WIDE = {
    "tumbling": WindowQuery(TumblingEventTimeWindows(10 * SECOND)),
    "sliding": WindowQuery(SlidingEventTimeWindows(4 * SECOND, SECOND)),
    "sessions": WindowQuery(EventTimeSessionWindows(SECOND)),
    "counts": WindowQuery(*CountWindows(3).parts),
    "rows": WindowQuery(EventTimeSessionWindows(SECOND), every_firing=True),
}
"""Windows for each operator that runs declared aggregates."""
GROWING: dict[str, Callable[[WindowQuery, int], None]] = {
    "keys": lambda windows, number: run_wide_query(windows, keys=number),
    "sums": lambda windows, number: run_wide_query(windows, sums=number),
    "sums and reports": lambda windows, number: run_wide_query(windows, sums=number, reports=True),
}
"""Parts that a query may have many of."""


@pytest.mark.parametrize("windows", WIDE)
@pytest.mark.parametrize("many", GROWING)
def test_python_calls_grow_in_proportion_to_keys_and_aggregates(many: str, windows: str) -> None:
    GROWING[many](WIDE[windows], 2)  # fill the caches
    few, twice, four_times = (python_calls(partial(GROWING[many], WIDE[windows], number))[0] for number in (20, 40, 80))
    # If costs grow in proportion, the second step costs twice the first. If each part is compared with all others, it costs four
    # times as much.
    assert four_times - twice <= 2.3 * (twice - few)


def test_python_calls_counts_python_and_c_functions() -> None:
    def work(rows: int) -> int:
        return sum(abs(value) for value in range(rows))

    small, large = python_calls(lambda: work(100))[0], python_calls(lambda: work(1_100))[0]
    assert large - small >= 1_000  # one call of abs per row; resumed generators may count too
    array = np.arange(1_000)
    assert python_calls(array.sum)[0] == python_calls(array[:10].sum)[0] < 10


def test_every_query_and_operator_has_a_limit() -> None:
    assert LIMITS.keys() == QUERIES.keys()
    assert {Query.plan(query).operator.name for query in QUERIES.values()} == {
        "aligned panes", "sessions", "counts", "accumulating panes", "look-backs", "predicates", "rolling values",
        "row operator", "interval join",
    }  # fmt: skip
