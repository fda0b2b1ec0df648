"""The shape of count windows: when they fire, and over how many rows."""

from __future__ import annotations

from dataclasses import dataclass

from panestream.engine.kernels.columns import Ints


@dataclass(frozen=True, slots=True)
class CountShape:
    """A firing at every ``slide``-th row of a key, over its last ``size`` rows (all rows if None).

    The rows of a key are numbered from its last firing. Pane bounds are the ends of windows, every ``slide`` rows, and their
    beginnings. A slide has one pane if it divides the size, and otherwise two of unequal length. A window is therefore a whole
    number of panes, and each row is aggregated once, however many windows overlap. ``size`` is at least ``slide``.

    >>> CountShape(100, 100).panes_per_window, CountShape(100, 7).panes_per_window
    (1, 29)
    """

    size: int | None
    slide: int

    @property
    def _beginning(self) -> int:
        """The number of rows of a slide before a window begins; 0 if it begins where another ends."""
        return 0 if self.size is None or self.size % self.slide == 0 else self.slide - self.size % self.slide

    @property
    def panes_per_slide(self) -> int:
        return 2 if self._beginning else 1

    @property
    def panes_per_window(self) -> int | None:
        """The number of panes of a window, or None for all panes."""
        if self.size is None:
            return None
        return self.size // self.slide * self.panes_per_slide + (1 if self._beginning else 0)

    @property
    def first_kept(self) -> int:
        """The first pane of the next window, counted from the last firing."""
        return -1 if self.panes_per_window is None else self.panes_per_slide - self.panes_per_window

    def panes_of(self, rows: Ints) -> Ints:
        """Return the panes of rows, given their numbers since the last firing."""
        slides = rows // self.slide
        if not self._beginning:
            return slides
        return slides * 2 + (rows - slides * self.slide >= self._beginning)

    def __str__(self) -> str:
        if self.size == self.slide:
            return f"every {self.size} rows of a key, each in one window"
        return f"at every {self.slide} rows of a key " + ("all rows so far" if self.size is None else f"the last {self.size}")
