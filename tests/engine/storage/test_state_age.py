"""The state of key groups is compared with the last committed micro-batch, if both use Spark's numbers."""

from __future__ import annotations

import pytest

from panestream.engine.storage.state_age import StateAge
from panestream.errors import StateDamagedError


def groups(*states_of):
    return [{"key_group": number, "state_of": state_of, "woken": False} for number, state_of in enumerate(states_of)]


@pytest.mark.parametrize(
    ("states_of", "damage"), [((3, 3), "that of micro-batch 3"), ((5, 5), "that of micro-batch 5"), ((4, 3), "that of")]
)
def test_state_older_or_newer_than_the_micro_batch_before_is_refused(states_of, damage):
    with pytest.raises(StateDamagedError, match=damage):
        StateAge(after=4, state_of=4).check(groups(*states_of), 5)


def test_counted_micro_batches_are_not_compared_with_the_numbers_of_spark():
    """Key groups count by themselves through Spark Connect. They are one ahead after a savepoint, and behind after
    micro-batches without rows.
    """
    age = StateAge(is_told=False)
    for batch_id, states_of in ((0, 0), (1, 1), (5, 2)):
        age.check(groups(states_of, states_of), batch_id)
        assert age.advance(groups(states_of, states_of), batch_id)
    with pytest.raises(StateDamagedError, match="key group 1"):
        age.check(groups(3, 2), 6)


def test_first_micro_batch_with_rows_after_counted_ones_makes_the_state_comparable():
    age = StateAge(after=7, is_comparable=False)
    age.check(groups(8, 8), 8)
    assert not age.advance([], 8)
    age.check(groups(2, 2), 9)
    assert age.advance(groups(2, 2), 9)
    age.check(groups(9, 9), 10)
    with pytest.raises(StateDamagedError, match="that of micro-batch 8, where that of micro-batch 9 is expected"):
        age.check(groups(8, 8), 10)


def test_error_says_when_the_state_is_right_if_a_killed_run_may_not_have_committed_last():
    """``.main.writeStream`` leaves no mark, and neither does a killed run, so they cannot be distinguished."""
    age = StateAge(after=4, state_of=4, is_last_known=False)
    with pytest.raises(
        StateDamagedError, match=r"or start on a new checkpoint\. But the state is right if .* [Tt]ake a savepoint"
    ):
        age.check(groups(3, 3), 5)
    age.check(groups(4, 4), 5)
    assert age.advance(groups(4, 4), 5)
    with pytest.raises(StateDamagedError, match=r"or start on a new checkpoint$"):
        age.check(groups(4, 4), 6)
