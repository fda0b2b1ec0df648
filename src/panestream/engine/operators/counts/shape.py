"""What count windows fire: when, and over how many of the last rows of a key."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd


@dataclass(frozen=True, slots=True)
class CountShape:
    """At every ``slide``-th row of a key, its last ``size`` rows (None: all that ever came).

    The rows of a key are counted from its last firing. Panes of :attr:`pane` rows are what firings and the windows' beginnings
    have in common: a window is a whole number of them, and a row is aggregated once, however many windows overlap.

    >>> CountShape(100, 100).pane, CountShape(100, 15).pane, CountShape(None, 10).pane
    (100, 5, 10)
    """

    size: int | None
    slide: int

    @property
    def pane(self) -> int:
        """The rows of a pane."""
        return self.slide if self.size is None else gcd(self.size, self.slide)

    @property
    def panes_per_slide(self) -> int:
        return self.slide // self.pane

    @property
    def panes_per_window(self) -> int | None:
        return None if self.size is None else self.size // self.pane

    @property
    def first_kept(self) -> int:
        """The first pane that a later window has, counted from the last firing. What is older may be dropped, or become one."""
        return -1 if self.size is None else (self.slide - self.size) // self.pane

    def __str__(self) -> str:
        of = "all rows so far" if self.size is None else f"the last {self.size}"
        if self.size == self.slide:
            return f"every {self.size} rows of a key, each in one window"
        return f"at every {self.slide} rows of a key, {of}"
