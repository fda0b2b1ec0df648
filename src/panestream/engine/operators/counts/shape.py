"""What count windows fire: when, and over how many of the last rows of a key."""

from __future__ import annotations

from dataclasses import dataclass

from panestream.engine.kernels.columns import Ints


@dataclass(frozen=True, slots=True)
class CountShape:
    """At every ``slide``-th row of a key, its last ``size`` rows (None: all that ever came).

    The rows of a key are numbered from its last firing on. Panes lie between the places where windows end, every ``slide`` rows,
    and those where they begin: one for each slide where the slide divides the size, else two of unequal length. So a window is a
    whole number of panes, and a row is aggregated once, however many windows overlap.

    Attributes:
        size, slide: see above; ``size >= slide``.

    >>> CountShape(100, 100).panes_per_window, CountShape(100, 7).panes_per_window
    (1, 29)
    """

    size: int | None
    slide: int

    @property
    def _beginning(self) -> int:
        """After how many rows of a slide a window begins; 0: where it ends."""
        return 0 if self.size is None or self.size % self.slide == 0 else self.slide - self.size % self.slide

    @property
    def panes_per_slide(self) -> int:
        """One or two."""
        return 2 if self._beginning else 1

    @property
    def panes_per_window(self) -> int | None:
        """How many panes a window is made of; None: all there are."""
        if self.size is None:
            return None
        return self.size // self.slide * self.panes_per_slide + (1 if self._beginning else 0)

    @property
    def first_kept(self) -> int:
        """The first pane that the next window has, counted from the last firing."""
        return -1 if self.panes_per_window is None else self.panes_per_slide - self.panes_per_window

    def panes_of(self, rows: Ints) -> Ints:
        """The panes of rows by their numbers since the last firing."""
        slides = rows // self.slide
        if not self._beginning:
            return slides
        return slides * 2 + (rows - slides * self.slide >= self._beginning)

    def __str__(self) -> str:
        if self.size == self.slide:
            return f"every {self.size} rows of a key, each in one window"
        return f"at every {self.slide} rows of a key " + ("all rows so far" if self.size is None else f"the last {self.size}")
