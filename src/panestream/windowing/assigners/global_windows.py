"""Global windows: everything of a key in one window, for triggers to cut up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from panestream.errors import InvalidWindowError
from panestream.windowing.assigners.base import WindowAssigner
from panestream.windowing.evictors import CountEvictor, Evictor
from panestream.windowing.triggers.base import Trigger
from panestream.windowing.triggers.count import CountTrigger, is_count
from panestream.windowing.triggers.never import EndOfStreamTrigger, NeverTrigger
from panestream.windowing.triggers.purging import PurgingTrigger
from panestream.windowing.windows import GlobalWindow

_EVERYTHING = (GlobalWindow(),)
_NEVER = NeverTrigger()


@dataclass(frozen=True, slots=True, repr=False)
class GlobalWindows(WindowAssigner):
    """One window that never ends. Flink: ``GlobalWindows``.

    It is not event time: nothing is late, the allowed lateness has no effect, and state lives for ever unless a trigger
    purges it. Without a trigger of the user's own it never fires.

    >>> GlobalWindows.create(), GlobalWindows.create_with_end_of_stream_trigger()
    (GlobalWindows.create(), GlobalWindows.create_with_end_of_stream_trigger())
    """

    default_trigger: Trigger = _NEVER

    @classmethod
    def create(cls) -> GlobalWindows:
        """The window that never fires by itself."""
        return cls()

    @classmethod
    def create_with_end_of_stream_trigger(cls) -> GlobalWindows:
        """The window that fires when the (bounded) input has ended."""
        return cls(EndOfStreamTrigger())

    @property
    def is_event_time(self) -> bool:
        return False

    def get_default_trigger(self) -> Trigger:
        return self.default_trigger

    def assign_windows(self, element: Any, timestamp: int, processing_time: int) -> tuple[GlobalWindow, ...]:
        return _EVERYTHING

    def __repr__(self) -> str:
        if self.default_trigger == _NEVER:
            return "GlobalWindows.create()"
        if self.default_trigger == EndOfStreamTrigger():
            return "GlobalWindows.create_with_end_of_stream_trigger()"
        return f"GlobalWindows({self.default_trigger!r})"


@dataclass(frozen=True, slots=True, repr=False)
class CountWindows:
    """Windows of ``size`` elements, or every ``slide`` elements the last ``size``. Flink: ``countWindow(size[, slide])``.

    An incomplete rest is never emitted, and watermarks do not matter. 0 is taken for 1, as in Flink.

    Attributes:
        size: the number of elements in a window.
        slide: after how many elements a window fires, or None for ``size``. The first firings have fewer than ``size``.

    Raises:
        InvalidWindowError: ``size`` or ``slide`` is negative or not an integer.

    >>> CountWindows(100).parts
    (GlobalWindows.create(), PurgingTrigger.of(CountTrigger.of(100)), None)
    >>> CountWindows(100, slide=10).parts
    (GlobalWindows.create(), CountTrigger.of(10), CountEvictor.of(100))
    """

    size: int
    slide: int | None = None

    def __post_init__(self) -> None:
        for name, value in (("size", self.size), ("slide", self.slide)):
            if value is not None and not is_count(value):
                raise InvalidWindowError(f"the {name} of a count window is a number of elements, an integer >= 0, got {value!r}")

    @property
    def parts(self) -> tuple[GlobalWindows, Trigger, Evictor | None]:
        """The assigner, the trigger and the evictor, or None for one, of which count windows are made."""
        if self.slide is None:
            return GlobalWindows.create(), PurgingTrigger.of(CountTrigger.of(self.size)), None
        return GlobalWindows.create(), CountTrigger.of(self.slide), CountEvictor.of(self.size)

    def __repr__(self) -> str:
        return f"CountWindows(size={self.size}{'' if self.slide is None else f', slide={self.slide}'})"
