"""What every trigger is: the four results, and what a trigger of one's own must say."""

from __future__ import annotations

import pytest

from panestream.errors import InvalidPlanError, InvalidWindowError
from panestream.windowing.triggers import CountTrigger, NeverTrigger, TriggerResult
from panestream.windowing.triggers.base import check_inner
from panestream.windowing.windows import TimeWindow


def test_results_of_triggers():
    assert [(one.is_fire(), one.is_purge()) for one in TriggerResult] == [
        (False, False),
        (True, False),
        (False, True),
        (True, True),
    ]


def test_a_trigger_that_can_merge_but_does_not_say_how():
    class Half(NeverTrigger):
        def can_merge(self):
            return True

    with pytest.raises(InvalidPlanError, match="on_merge"):
        Half().on_merge(TimeWindow(0, 1), None)


@pytest.mark.parametrize(("inner", "said"), [(CountTrigger, "not the class itself: CountTrigger"), (3, "got 3")])
def test_what_is_no_trigger_cannot_stand_inside_one(inner, said):
    with pytest.raises(InvalidWindowError, match=said):
        check_inner(inner, "PurgingTrigger")
