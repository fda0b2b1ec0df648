"""Global windows, which contain all rows of a key and leave firings to triggers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from panestream.errors import InvalidWindowError
from panestream.windowing.assigners.base import WindowAssigner
from panestream.windowing.evictors import CountEvictor, Evictor
from panestream.windowing.triggers.base import PurgingTrigger, Trigger
from panestream.windowing.triggers.count import CountTrigger, is_count
from panestream.windowing.triggers.time import EndOfStreamTrigger, NeverTrigger
from panestream.windowing.windows import GlobalWindow

_EVERYTHING = (GlobalWindow(),)
_NEVER = NeverTrigger()


@dataclass(frozen=True, slots=True, repr=False)
class GlobalWindows(WindowAssigner):
    """One window that never ends, and only fires with a trigger from the user. Flink: ``GlobalWindows``.

    No row is late, the allowed lateness does not matter, and state is kept forever unless a trigger purges it.

    >>> GlobalWindows.create(), GlobalWindows.create_with_end_of_stream_trigger()
    (GlobalWindows.create(), GlobalWindows.create_with_end_of_stream_trigger())
    """

    default_trigger: Trigger = _NEVER

    @classmethod
    def create(cls) -> GlobalWindows:
        """Return the window that never fires by default."""
        return cls()

    @classmethod
    def create_with_end_of_stream_trigger(cls) -> GlobalWindows:
        """Return the window that fires when the (bounded) input has ended."""
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
    """Windows of ``size`` elements, or the last ``size`` every ``slide`` elements. Flink: ``countWindow(size[, slide])``.

    An incomplete remainder is never emitted, and watermarks do not matter. With ``slide`` the first firings have fewer elements.
    0 means 1, as in Flink. Raises InvalidWindowError if a number is negative or not an integer.

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
        """The assigner, the trigger and the evictor (or None) that implement count windows."""
        if self.slide is None:
            return GlobalWindows.create(), PurgingTrigger.of(CountTrigger.of(self.size)), None
        return GlobalWindows.create(), CountTrigger.of(self.slide), CountEvictor.of(self.size)

    def __repr__(self) -> str:
        return f"CountWindows(size={self.size}{'' if self.slide is None else f', slide={self.slide}'})"
