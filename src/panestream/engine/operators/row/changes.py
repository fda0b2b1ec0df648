"""The changelog of the row operator: the last result of each open window, and the rows that a micro-batch changes.

A session that grows or merges is another window. It keeps the results of the shorter sessions that it has grown out of until it
fires: then they are deleted. Windows of one key never overlap while they are open, so these are exactly its own earlier results.
Results of closed sessions stay, even if a later session covers them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from panestream.engine.operators.row.contents import Bounds, WindowState
from panestream.engine.plan import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE

EMITTED = "panestream emitted"
"""The name of a window's emitted results in the state of its trigger."""


class EmittedResult(NamedTuple):
    """A result as it was last emitted: bounds, firing number, kind of firing, value, and whether it is sure to be the last."""

    start: int | None
    end: int | None
    number: int
    firing: str
    value: Any
    is_last: bool = False

    @property
    def bounds(self) -> Bounds:
        return None if self.start is None or self.end is None else (self.start, self.end)


@dataclass(slots=True)
class Change:
    """The results of a key and window before and after a micro-batch, None if there was none or it was deleted."""

    before: EmittedResult | None = None
    after: EmittedResult | None = None


class Changes:
    """The changes of one micro-batch, by key and window: each window changes at most once."""

    def __init__(self) -> None:
        self._changes: dict[tuple[Any, Bounds], Change] = {}

    def replace(self, window_state: WindowState, firing: str, value: Any, *, is_last: bool) -> None:
        """Let a result of a window replace its earlier one, and those of the shorter sessions that it has grown out of."""
        key = window_state.owner.key
        for row in window_state.trigger_values.get(EMITTED, ()):
            former = EmittedResult(*row)
            self._changes.setdefault((key, former.bounds), Change(former)).after = None
        change = self._changes.setdefault((key, window_state.bounds), Change())
        number = 0 if change.before is None else change.before.number + 1
        change.after = EmittedResult(window_state.start, window_state.end, number, firing, value, is_last)
        window_state.trigger_values[EMITTED] = [tuple(change.after[:-1])]
        window_state.firings = number + 1

    @staticmethod
    def take_over(merged: WindowState, old: Sequence[WindowState]) -> None:
        """Let a merged window keep the emitted results of its parts."""
        emitted = [row for window_state in old for row in window_state.trigger_values.get(EMITTED, ())]
        if emitted:
            merged.trigger_values[EMITTED] = emitted

    def rows(self) -> Iterator[tuple[Any, EmittedResult, str]]:
        """Yield key, result and operation: first deleted rows, then the others, each after the row that it replaces."""
        for (key, _), change in self._changes.items():
            if change.after is None and change.before is not None:
                yield key, change.before._replace(is_last=True), DELETE
        for (key, _), change in self._changes.items():
            if change.after is not None:
                if change.before is not None:
                    yield key, change.before, UPDATE_BEFORE
                yield key, change.after, INSERT if change.before is None else UPDATE_AFTER
