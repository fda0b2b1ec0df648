"""Several kinds of windows over the same rows, distinguished by a label."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from panestream.errors import InvalidPlanError
from panestream.windowing.assigners.base import WindowAssigner
from panestream.windowing.time import format_duration
from panestream.windowing.windows import Window


def label_of(assigner: WindowAssigner) -> str:
    """Return the default label of windows: their size, and how often they begin or end.

    >>> from panestream.windowing.assigners import SlidingEventTimeWindows
    >>> label_of(SlidingEventTimeWindows.of("1 hour", "5 minutes"))
    '1 hour / 5 minutes'
    """
    size = getattr(assigner, "size", None)
    step = getattr(assigner, "slide", getattr(assigner, "step", None))
    if size is None:
        return repr(assigner)
    return format_duration(size) + (f" / {format_duration(step)}" if step is not None else "")


@dataclass(frozen=True, slots=True, repr=False)
class SeveralWindows(WindowAssigner):
    """Assigns each row to the windows of several assigners. Not in Flink, whose SQL needs a query for each.

    >>> from panestream.windowing.assigners import SlidingEventTimeWindows, TumblingEventTimeWindows
    >>> several = SeveralWindows.of({"hour": TumblingEventTimeWindows(60), "day": SlidingEventTimeWindows(1440, 60)})
    >>> several.labels
    ('hour', 'day')
    """

    labels: tuple[str, ...]
    assigners: tuple[WindowAssigner, ...]

    @classmethod
    def of(cls, windows: Mapping[str, WindowAssigner]) -> SeveralWindows:
        """Return windows by label, or raise InvalidPlanError for none, other objects, and mixed kinds of time."""
        for label, assigner in windows.items():
            if not isinstance(label, str) or not label or not isinstance(assigner, WindowAssigner):
                raise InvalidPlanError(
                    "windows wants labels and assigners, e.g. {'1h': TumblingEventTimeWindows.of('1 hour')}; "
                    f"got {label!r}: {assigner!r}"
                )
        if len({assigner.is_event_time for assigner in windows.values()}) != 1:
            raise InvalidPlanError(
                "several windows need at least one assigner, and all of event time or all of processing time; "
                f"got {list(windows.values())!r}"
            )
        return cls(tuple(windows), tuple(windows.values()))

    @property
    def is_event_time(self) -> bool:
        return self.assigners[0].is_event_time

    def assign_windows(self, element: Any, timestamp: int, processing_time: int) -> tuple[Window, ...]:
        return tuple(
            window for assigner in self.assigners for window in assigner.assign_windows(element, timestamp, processing_time)
        )

    def __repr__(self) -> str:
        return f"SeveralWindows.of({dict(zip(self.labels, self.assigners, strict=True))!r})"
