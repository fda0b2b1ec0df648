"""The age of the state of all key groups: finding state that is old or gone as a whole, which no seal of a value can tell.

All key groups write their state in the same micro-batches. So :func:`check_that_groups_agree` compares their metrics, and
:class:`StateAge` also compares these with the last committed micro-batch: that finds groups which were exchanged, and all groups
put back together. Three cases are not found. If the clock wakes groups one by one, a group may be as old as the last micro-batch
with rows. If a run had micro-batches without rows, all groups together may be as old as the first of these. If Spark's own writer
went on after a run, so may they be as old as the end of that run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from panestream.engine.storage.sealed_state import RESTORE_ADVICE
from panestream.errors import StateDamagedError


def check_that_groups_agree(groups: Sequence[Mapping[str, Any]]) -> None:
    """Raise StateDamagedError if metrics (as JSON) show that a key group's state is older than another's: restored or lost.

    >>> check_that_groups_agree([{"key_group": 0, "state_of": 14}, {"key_group": 1, "state_of": 14}])
    """
    newest = max(groups, key=lambda group: group["state_of"], default=None)
    for group in groups:
        if newest is not None and group["state_of"] < newest["state_of"]:
            raise damaged_as_a_whole(group, f"that of key group {newest['key_group']} is of micro-batch {newest['state_of']}")


def damaged_as_a_whole(group: Mapping[str, Any], expected: str, unless: str = "") -> StateDamagedError:
    """Return the error about a key group whose whole state is not what was last written.

    Args:
        group: its metrics.
        expected: what the state should be.
        unless: when the state is right all the same, as the end of the text.
    """
    what = f"is that of micro-batch {group['state_of']}" if group["state_of"] >= 0 else "is gone"
    return StateDamagedError(
        f"the state of key group {group['key_group']} is damaged: all of it {what}, where {expected}; {RESTORE_ADVICE}{unless}",
        group=group["key_group"],
    )


_UNLESS = (
    ". But the state is right if start() was killed here and .main.writeStream then ended with micro-batches without rows: in "
    "that case take a savepoint of the checkpoint, and start(savepoint=...) on a new one"
)


@dataclass(slots=True)
class StateAge:
    """The minimum micro-batch that the state must have reached.

    Attributes:
        after: the last micro-batch that was committed.
        state_of: the state of each key group is then that of this micro-batch, or of a later one. None if that is unknown.
        is_woken: whether the clock wakes key groups one by one. Then some write their state later than others.
        is_told: whether Spark tells tasks the number of their micro-batch. In ``foreachBatch`` through Connect it does not, nor
            with ``PYSPARK_PIN_THREAD=false``: key groups count the micro-batches that have rows.
        is_comparable: whether the state names micro-batches as Spark numbers them. If not, key groups are compared with each
            other only.
        is_last_known: whether it is known that panestream's own run committed ``after``. If not, Spark's own writer may have.

    >>> age = StateAge(after=4, state_of=4)
    >>> age.check([{"key_group": 0, "state_of": 4}, {"key_group": 1, "state_of": 4}], 5)
    >>> age.check([{"key_group": 0, "state_of": 3}, {"key_group": 1, "state_of": 3}], 5)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    panestream.errors.StateDamagedError: the state of key group 0 is damaged: all of it is that of micro-batch 3, where...
    """

    after: int = -1
    state_of: int | None = None
    is_woken: bool = False
    is_told: bool = True
    is_comparable: bool = True
    is_last_known: bool = True

    def check(self, groups: Sequence[Mapping[str, Any]], batch_id: int) -> None:
        """Raise StateDamagedError if the metrics (as JSON) show a state too old, or newer than the micro-batch before."""
        if not self.is_woken:
            check_that_groups_agree(groups)
        if not (self.is_told and self.is_comparable):
            return
        # A group that has rows and is woken appears twice. A savepoint is restored by the first micro-batch itself.
        newest = batch_id if self.is_woken else max(batch_id - 1, 0)
        known = self.state_of if batch_id == self.after + 1 else None
        for group in groups:
            if known is not None and group["state_of"] < known:
                since = f"that of micro-batch {known}" if self.after == known else f"that of micro-batch {known} or a later one"
                raise damaged_as_a_whole(group, f"{since} is expected", "" if self.is_last_known else _UNLESS)
            if group["state_of"] > newest:
                raise damaged_as_a_whole(group, f"micro-batch {batch_id} comes only now")

    def advance(self, groups: Sequence[Mapping[str, Any]], batch_id: int) -> bool:
        """Record a finished micro-batch, and return whether all key groups have written their state."""
        has_written = any(not (self.is_woken and group["woken"]) for group in groups)
        if has_written:
            self.state_of, self.is_comparable = batch_id, self.is_told
        elif batch_id != self.after + 1:
            self.state_of = None
        self.after, self.is_last_known = batch_id, True
        return has_written
