"""The base class of triggers: the four results, and the requirements for user triggers."""

from __future__ import annotations

import pytest

from panestream.errors import InvalidPlanError, InvalidWindowError
from panestream.windowing.triggers import CountTrigger, NeverTrigger, TriggerResult
from panestream.windowing.triggers.base import check_inner
from panestream.windowing.windows import TimeWindow


def test_trigger_results_fire_purge_both_or_neither():
    assert [(each.is_fire(), each.is_purge()) for each in TriggerResult] == [
        (False, False),
        (True, False),
        (False, True),
        (True, True),
    ]


def test_mergeable_trigger_without_on_merge_is_refused():
    class Half(NeverTrigger):
        def can_merge(self):
            return True

    with pytest.raises(InvalidPlanError, match="on_merge"):
        Half().on_merge(TimeWindow(0, 1), None)


@pytest.mark.parametrize(("inner", "said"), [(CountTrigger, "not the class itself: CountTrigger"), (3, "got 3")])
def test_inner_trigger_must_be_a_trigger(inner, said):
    with pytest.raises(InvalidWindowError, match=said):
        check_inner(inner, "PurgingTrigger")
