"""A failing state store: its own error is raised, and repeating the micro-batch gives the same output as without the failure."""

from __future__ import annotations

import pytest

from panestream.engine.storage.state import MemoryState
from panestream.errors import PlanMismatchError
from tests.costs import thinned
from tests.engine.storage.test_damage import PLANS, run_of, small_pages, step

pytestmark = pytest.mark.usefixtures("values_apart")

MOST_CALLS = 12
__all__ = ["small_pages"]


class StoreError(Exception):
    """An error of the store, like Spark's own."""


class FailingAt(MemoryState):
    """A store whose n-th call fails, before or after its effect."""

    def __init__(self, values, fails_at: int, done: bool) -> None:
        super().__init__(values)
        self.left, self.done = fails_at, done

    def _call(self, method, *arguments):
        self.left -= 1
        if self.left == 0 and not self.done:
            raise StoreError("no answer")
        returned = method(*arguments)
        if self.left == 0:
            raise StoreError("no answer")
        return returned

    def get(self, space, key):
        return self._call(super().get, space, key)

    def put(self, space, key, value):
        return self._call(super().put, space, key, value)

    def remove(self, space, key):
        return self._call(super().remove, space, key)


@pytest.mark.parametrize("name", PLANS)
def test_store_error_is_raised_and_the_micro_batch_can_be_repeated(name):
    run, failed = run_of(name, 0), 0
    for place, at in enumerate((0, 6, len(run.batches) - 2)):
        before = run.state_after[at - 1] if at else {}
        for fails_at in thinned(range(1 + place, MOST_CALLS), 3):
            store = FailingAt(dict(before), fails_at, done=bool(fails_at % 2))
            try:
                step(run.plan, store, run.batches[at], 0)
            except StoreError:  # any other exception fails the test
                failed += 1
            else:
                break
            state = MemoryState(dict(before))
            assert step(run.plan, state, run.batches[at], 0) == run.outputs[at]
            assert state.values == run.state_after[at]
    assert failed >= 4


@pytest.mark.parametrize("name", PLANS)
def test_state_of_every_other_operator_is_refused(name):
    """Even if this operator cannot read the form of its meta record."""
    plan = PLANS[name]()
    for other in PLANS:
        run = run_of(other, 0)
        if run.plan.identity() != plan.identity():
            with pytest.raises(PlanMismatchError, match="belongs to another plan"):
                plan.operator.for_group(plan, MemoryState(dict(run.state_after[4])), 0)
