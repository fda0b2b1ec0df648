"""The simulator can fail: it reveals each planted fault with the right kind of disturbance, and shrinks the case."""

from __future__ import annotations

import pytest

from panestream.testing.simulation.explore import KINDS, first_broken
from panestream.testing.simulation.shrink import Case
from tests.testing.simulation.campaign.random_schedules import OPERATORS, schedule_of
from tests.testing.simulation.campaign.script import failure_of, script_of, shrunk_case
from tests.testing.simulation.campaign.subjects import ReferenceSubject
from tests.testing.simulation.faults import FAULTS, planted

pytestmark = pytest.mark.full

SCHEDULES = 40


def first_broken_schedule(fault):
    """Return the first broken schedule, among runs with only the disturbances that must reveal the fault."""
    kinds = [kind for kind in KINDS if kind in fault.kinds]
    for number in range(SCHEDULES):
        schedule, change = schedule_of(3, number, fault.operators)
        error = first_broken(ReferenceSubject.of(schedule), None if "savepoint" in fault.kinds else change, kinds)
        if error is not None:
            return Case(schedule, change, error)
    return None


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_planted_fault_is_revealed_and_shrunk(fault):
    with planted(fault):
        case = first_broken_schedule(fault)
        assert case is not None, f"{fault.name}: not found in {SCHEDULES} schedules"
        assert case.error.disturbance.kind in fault.kinds
        small = shrunk_case(case, tries=25)
        assert small.error.disturbance.kind == case.error.disturbance.kind
        rows = [sum(len(batch.rows) for batch in each.schedule.batches) for each in (case, small)]
        assert rows[1] <= min(rows[0], 6), small.schedule
        said = failure_of(small, "seed 3")
        assert str(small.error.disturbance) in said
        script = script_of(small)
        with pytest.raises(AssertionError):
            exec(compile(script, "the script", "exec"), {})


@pytest.mark.parametrize("operator", OPERATORS)
def test_same_schedules_pass_without_a_fault(operator):
    schedule, change = schedule_of(3, 0, (operator,))
    assert first_broken(ReferenceSubject.of(schedule), change, KINDS) is None
