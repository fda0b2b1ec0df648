"""A state store that fails: its own error comes out, whoever asked it; and the micro-batch, run again, gives what it would have."""

from __future__ import annotations

import pytest

from panestream.engine.storage.state import MemoryState
from panestream.errors import PlanMismatchError
from tests.engine.storage.test_damage import PLANS, run_of, small_pages, step

MOST_CALLS = 12
__all__ = ["small_pages"]


class StoreError(Exception):
    """What a store raises, as Spark's raises errors of its own."""


class FailingAt(MemoryState):
    """A store whose n-th call fails, before or after it has done what it was asked to."""

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
def test_each_call_may_fail(name):
    run, failed = run_of(name, 0), 0
    for at in (0, 6, len(run.batches) - 2):
        before = run.rested[at - 1] if at else {}
        for fails_at in range(1, MOST_CALLS):
            store = FailingAt(dict(before), fails_at, done=bool(fails_at % 2))
            try:
                step(run.plan, store, run.batches[at], 0)
            except StoreError:  # no other: whatever else comes out fails the test
                failed += 1
            else:
                break
            state = MemoryState(dict(before))
            assert step(run.plan, state, run.batches[at], 0) == run.outputs[at]
            assert state.values == run.rested[at]
    assert failed > 10


@pytest.mark.parametrize("name", PLANS)
def test_the_state_of_any_other_operator_is_refused_as_that(name):
    """Also where its meta record has a form that this operator cannot read."""
    plan = PLANS[name]()
    for other in PLANS:
        run = run_of(other, 0)
        if run.plan.identity() != plan.identity():
            with pytest.raises(PlanMismatchError, match="belongs to another plan"):
                plan.operator.for_group(plan, MemoryState(dict(run.rested[4])), 0)
