"""Scenarios for which Flink's answer is a bug, with the answer that we expect instead.

An entry holds only if the scenario expects the answer that Flink gave. A changed scenario is compared as written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class _Answer(NamedTuple):
    """The values that one window emits in one step, in Flink and in panestream."""

    step: int
    window: tuple[str, int, int]
    flinks: list[Any]
    ours: list[Any]


_BEFORE_1970 = (
    "before 1970 Flink skips the first firing of a continuous trigger; panestream fires at every multiple of the interval"
)
_BUGS: dict[str, tuple[str, list[_Answer]]] = {
    "quirk-dynamic-session-equal-window-loses-data": (
        "an element whose window equals a merged session makes Flink lose the session's contents",
        [_Answer(3, ("a", 0, 10), [[3]], [[1, 2, 3]])],
    ),
    "quirk-session-merge-count-evictor": (
        "after joining two sessions Flink orders their contents by a hash set; panestream by the sessions' starts",
        [_Answer(3, ("a", 0, 30), [[1, 5]], [[3, 5]])],
    ),
    "continuous-negative-ts": (_BEFORE_1970, [_Answer(2, ("a", -100, 0), [], [[1]])]),
    "triggers-random-c1-005": (_BEFORE_1970, [_Answer(2, ("c", -6, 4), [-11.0], [-11.0, -11.0])]),
    "triggers-random-c1-025": (
        _BEFORE_1970,
        [_Answer(14, ("a", -60, -50), [[14, 9]], [[14, 9], [14, 9]]), _Answer(30, ("a", -40, -30), [], [[23, 24]])],
    ),
    "triggers-random-c1-029": (
        _BEFORE_1970,
        [_Answer(1, ("k4", -1, 4), [], [1.0]), _Answer(3, ("k2", -1, 4), [2.0], [2.0, 2.0])],
    ),
}


def sane_answer(name: str, expected: Mapping[str, Any]) -> tuple[Mapping[str, Any], str | None]:
    """Return the expected answer of a scenario, and the reason if it differs from Flink's, or None.

    Args:
        name: the name of the scenario.
        expected: the expectation in the scenario.
    """
    if name not in _BUGS:
        return expected, None
    why, answers = _BUGS[name]
    steps = [list(step) for step in expected["steps"]]
    for step, (key, start, end), flinks, ours in answers:
        window = {"key": key, "start": start, "end": end}
        its = [row for row in steps[step] if row == {**window, "value": row["value"]}] if step < len(steps) else None
        if its is None or [row["value"] for row in its] != flinks:
            return expected, None
        steps[step] = [row for row in steps[step] if row not in its] + [{**window, "value": value} for value in ours]
    return {**expected, "steps": steps}, why
