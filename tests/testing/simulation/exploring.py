"""Runs the crashes, repetitions and savepoints of random schedules, and names the schedule that breaks a promise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from panestream.testing.simulation.explore import BrokenError, Explorer
from panestream.testing.simulation.own import UserSubject


def explore_schedules(subject_of: Callable[[int], UserSubject], schedules: int, seed: int) -> Counter[str]:
    """Return the number of runs of each kind. ``subject_of`` makes the subject with the schedule of a number."""
    runs: Counter[str] = Counter()
    for number in range(schedules):
        explorer = Explorer(subject_of(number), None)
        try:
            explorer.explore()
        except BrokenError as error:
            raise AssertionError(f"seed {seed}, schedule {number}: {error}") from error
        runs += explorer.runs
    return runs
