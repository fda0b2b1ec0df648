"""The number of pages follows the size of the state. Results do not change, and only pages that are touched or due are read or
written.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import pytest

from panestream.engine.operators.row import pages as index
from panestream.engine.operators.row.codec import stable_hash
from panestream.engine.operators.row.contents import NEVER, KeepRows, ReduceRows, RowPlan
from panestream.engine.operators.row.pages import ColumnReader, Entry, PageIndex
from panestream.engine.operators.row.window_operator import RowOperator
from panestream.engine.plan import WindowQuery
from panestream.engine.storage.sealed_state import CountingState
from panestream.engine.storage.state import MemoryState
from panestream.windowing.assigners import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from panestream.windowing.evictors import TimeEvictor
from panestream.windowing.functions import ProcessWindowFunction
from panestream.windowing.state import ValueStateDescriptor


class EmitAll(ProcessWindowFunction):
    """Emits the elements and how often the key was seen."""

    def process(self, key, context, elements):
        times_seen = context.global_state().get_state(ValueStateDescriptor("seen"))
        times_seen.update((times_seen.value() or 0) + 1)
        yield times_seen.value(), list(elements)


PLANS = {
    "accumulators": RowPlan(WindowQuery(TumblingEventTimeWindows(40)), ReduceRows(lambda a, b: a + b)),
    "elements": RowPlan(WindowQuery(TumblingEventTimeWindows(40)), KeepRows(EmitAll())),
    "sessions": RowPlan(WindowQuery(EventTimeSessionWindows(7)), KeepRows(EmitAll())),
    "shared elements, evicted": RowPlan(
        WindowQuery(SlidingEventTimeWindows(40, 10), evictor=TimeEvictor(15)), KeepRows(EmitAll())
    ),
}


@pytest.fixture(autouse=True)
def _few_keys_a_page(monkeypatch):
    monkeypatch.setattr(index, "FEWEST_KEYS", 1)


def batches(keys, turns):
    """Yield rows of a growing number of keys, and a watermark that closes older windows."""
    for turn in range(turns):
        count = keys * (turn + 1) // turns
        rows = [(f"key{n * 7919 % count}", turn * 10 + n % 10, (turn, n)) for n in range(count)]
        yield rows, turn * 10 - 15


def run(plan, turns=12, keys=150):
    """Return the results and the numbers of pages. Each batch has a new operator."""
    state, fired, sizes = MemoryState(), [], []
    for rows, watermark in [*batches(keys, turns), ([], 10_000)]:
        operator = RowOperator(plan, state)
        fired.append(sorted(operator.process(rows, new_watermark=watermark).fired, key=repr))
        operator.commit()
        sizes.append(pages_of(state))
        check_pages(state)
    return fired, sizes, state


@cache
def run_without_growth(name):
    """Return the results and the numbers of pages of a plan whose pages are large enough."""
    fired, sizes, _ = run(PLANS[name])
    return fired, sizes


def pages_of(state):
    return ColumnReader(state.get("meta", 0)).header["pages"]


def check_pages(state):
    """Check that each key is in the one page that its hash selects, and that each chunk belongs to one page."""
    index_ = PageIndex(1)
    reader = ColumnReader(state.get("meta", 0))
    index_.read(reader, reader.header["pages"])
    assert {number for space, number in state.values if space == "pages"} == set(index_.entries)
    assert all(entry.size == len(state.get("pages", number)) for number, entry in index_.entries.items())


@pytest.mark.parametrize("plan", PLANS)
def test_growing_number_of_pages_does_not_change_results(plan, monkeypatch):
    fixed, sizes = run_without_growth(plan)
    assert set(sizes) == {PLANS[plan].pages}
    monkeypatch.setattr(index, "PAGE_BYTES", 100)
    grown, sizes, state = run(PLANS[plan])
    assert grown == fixed
    assert sizes[-2] >= 64
    left = {space for space, _ in state.values}
    assert left <= {"meta", "pages"}, "the pages that are left hold the states of keys"
    assert all(b % a == 0 for a, b in pairwise(sizes[:-1]))


@pytest.mark.parametrize("pages", [1, *(pytest.param(pages, marks=pytest.mark.full) for pages in (3, 100))])
def test_any_initial_number_of_pages_gives_the_same_results(pages, monkeypatch):
    fixed, _ = run_without_growth("elements")
    monkeypatch.setattr(index, "PAGE_BYTES", 200)
    plan = RowPlan(WindowQuery(TumblingEventTimeWindows(40)), KeepRows(EmitAll()), pages=pages)
    results, sizes, _ = run(plan)
    assert results == fixed
    assert all(size % pages == 0 for size in sizes)


def test_initial_number_of_pages_may_change_on_restart():
    plans = [RowPlan(WindowQuery(TumblingEventTimeWindows(40)), ReduceRows(lambda a, b: a + b), pages=pages) for pages in (4, 7)]
    state, fired = MemoryState(), []
    for turn, (rows, watermark) in enumerate([*batches(60, 6), ([], 10_000)]):
        operator = RowOperator(plans[turn % 2], state)
        fired.append(sorted(operator.process(rows, new_watermark=watermark).fired, key=repr))
        operator.commit()
        assert pages_of(state) == (4 if turn < 6 else 4 if turn % 2 == 0 else 7)
    expected, _, _ = run(PLANS["accumulators"], turns=6, keys=60)
    assert fired == expected


def test_page_is_split_only_when_it_is_next_written(monkeypatch):
    plan = RowPlan(WindowQuery(TumblingEventTimeWindows(100)), ReduceRows(lambda a, b: a + b), pages=2)
    memory = MemoryState()
    batch(plan, memory, [(f"key{n}", 5, n) for n in range(100)])
    size = max(len(memory.get("pages", number)) for number in (0, 1))
    monkeypatch.setattr(index, "PAGE_BYTES", size * 2 // 3)
    batch(plan, memory, [], watermark=10)
    assert (pages_of(memory), {n for space, n in memory.values if space == "pages"}) == (4, {0, 1})

    odd = next(f"key{n}" for n in range(100) if stable_hash(f"key{n}") % 2)
    calls = batch(plan, memory, [(odd, 6, 1)])
    assert (calls.gets, calls.puts, calls.removes) == (2, 3, 0), "the meta record, page 1, which becomes 1 and 3"
    assert {n for space, n in memory.values if space == "pages"} == {0, 1, 3}

    calls = batch(plan, memory, [(odd, 7, 1)])
    assert (calls.gets, calls.puts) == (2, 2), "now its page alone, and the meta record, which knows when it was written"

    calls = batch(plan, memory, [], watermark=50)
    assert (calls.gets, calls.puts) == (1, 1), "nothing is due: page 0 stays as it is, for all that it is large"
    fired = RowOperator(plan, memory).process([], new_watermark=99).fired
    assert sorted(value for _, _, value, _ in fired) == sorted(n + 2 * (f"key{n}" == odd) for n in range(100))


def batch(plan, memory, rows, watermark=None):
    counting = CountingState(memory)
    operator = RowOperator(plan, counting)
    operator.process(rows, new_watermark=watermark)
    operator.commit()
    return counting


def test_elements_of_a_split_page_are_rewritten_once(monkeypatch):
    plan = RowPlan(WindowQuery(TumblingEventTimeWindows(1000)), KeepRows(EmitAll()), pages=1)
    memory = MemoryState()
    rows = [(f"key{n % 40}", 5, "x" * 200 + str(n)) for n in range(400)]
    whole = batch(plan, memory, rows).bytes_written
    monkeypatch.setattr(index, "PAGE_BYTES", 300)
    monkeypatch.setattr(index, "FEWEST_KEYS", 5)
    batch(plan, memory, [("key0", 5, "y")])
    calls = batch(plan, memory, [("key0", 5, "y")])
    assert whole < calls.bytes_written < 1.5 * whole
    assert calls.removes == 2, "the two old chunks"
    calls = batch(plan, memory, [("key0", 5, "y")])
    assert calls.bytes_written < whole / 10


def test_large_pages_of_few_keys_are_not_split(monkeypatch):
    plan, memory = RowPlan(WindowQuery(TumblingEventTimeWindows(1000)), ReduceRows(lambda a, b: a + b), pages=1), MemoryState()
    monkeypatch.setattr(index, "FEWEST_KEYS", 10)
    for _ in range(5):
        batch(plan, memory, [(f"key{n}", 5, "x" * 5000) for n in range(79)])
    assert pages_of(memory) == 4


def test_number_of_pages_shrinks_when_the_state_is_empty(monkeypatch):
    monkeypatch.setattr(index, "PAGE_BYTES", 50)
    _, sizes, state = run(PLANS["accumulators"])
    assert (sizes[-2] > 16, sizes[-1]) == (True, PLANS["accumulators"].pages)
    assert list(state.values) == [("meta", 0)]


def test_operator_can_be_reused_while_its_pages_are_split(monkeypatch):
    fixed, _ = run_without_growth("elements")
    monkeypatch.setattr(index, "PAGE_BYTES", 100)
    state, fired = MemoryState(), []
    operator = RowOperator(PLANS["elements"], state)
    for rows, watermark in [*batches(150, 12), ([], 10_000)]:
        fired.append(sorted(operator.process(rows, new_watermark=watermark).fired, key=repr))
        operator.commit()
    assert fired == fixed


def test_each_hash_belongs_to_one_page():
    pages = PageIndex(2)
    for turn in range(6):
        for hashed in range(turn, 200, 5):
            number, modulus = pages.claim(hashed)
            assert hashed % modulus == number
            pages.put(number, Entry(modulus, NEVER, NEVER, 10, 1))
        if turn % 2:
            pages.remove(min(pages.entries))
        pages.modulus *= 2
    for hashed in range(200):
        homes = [number for number, entry in pages.entries.items() if hashed % entry.modulus == number]
        assert len(homes) <= 1
        assert not homes or pages.claim(hashed)[0] == homes[0]
