"""Cumulating windows, which begin together and end one step after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

from panestream.errors import InvalidWindowError
from panestream.windowing.assigners.base import OneTimeAssigner, call_of
from panestream.windowing.time import Duration, check_micros, format_duration, to_micros
from panestream.windowing.windows import TimeWindow

Self = TypeVar("Self", bound="_Cumulating")


@dataclass(frozen=True, slots=True, repr=False)
class _Cumulating(OneTimeAssigner):
    size: int
    step: int
    offset: int = 0

    def __post_init__(self) -> None:
        check_micros(f"{type(self).__name__}.of('1 day', '5 minutes')", self.size, self.step, self.offset)
        if self.size <= 0 or self.step <= 0 or self.size % self.step:
            raise InvalidWindowError(
                f"the largest size of a cumulating window must be a multiple of its step, both positive: "
                f"got size {format_duration(self.size)!r}, step {format_duration(self.step)!r}"
            )
        if abs(self.offset) >= self.size:
            raise InvalidWindowError(
                f"the offset of a cumulating window must be smaller than its largest size: "
                f"offset {format_duration(self.offset)!r}, size {format_duration(self.size)!r}"
            )

    @classmethod
    def of(  # noqa: PYI019 - typing.Self came with 3.11
        cls: type[Self], max_size: Duration, step: Duration, offset: Duration = "0 seconds"
    ) -> Self:
        """Return windows that begin every ``max_size``, aligned to the epoch (UTC) plus ``offset``, and end every ``step``.

        Raises InvalidWindowError unless ``max_size`` is a positive multiple of ``step`` and larger than ``abs(offset)``.
        """
        return cls(to_micros(max_size, "max_size"), to_micros(step, "step"), to_micros(offset, "offset"))

    def _windows_at(self, time: int, element: Any) -> tuple[TimeWindow, ...]:
        within = (time - self.offset) % self.size
        start = time - within
        first = start + (within // self.step + 1) * self.step
        return tuple(TimeWindow(start, end) for end in range(first, start + self.size + 1, self.step))

    def __repr__(self) -> str:
        return call_of(self, self.size, self.step, offset=self.offset)


@dataclass(frozen=True, slots=True, repr=False)
class CumulatingEventTimeWindows(_Cumulating):
    """Windows ``[start, start + step)``, ``[start, start + 2*step)``, … ``[start, start + max_size)`` of event time.

    An example is the day so far, every hour. The constructor takes microseconds; :meth:`of` takes durations. Flink: the window
    function ``CUMULATE`` of Flink SQL (its DataStream API has no such assigner).

    >>> CumulatingEventTimeWindows.of("1 day", "1 hour")
    CumulatingEventTimeWindows.of('1 day', '1 hour')
    >>> CumulatingEventTimeWindows(30, 10).assign_windows(None, 12, 0)
    (TimeWindow(start=0, end=20), TimeWindow(start=0, end=30))
    """

    is_event_time = True


@dataclass(frozen=True, slots=True, repr=False)
class CumulatingProcessingTimeWindows(_Cumulating):
    """Windows ``[start, start + step)``, ``[start, start + 2*step)``, … ``[start, start + max_size)`` of processing time.

    >>> CumulatingProcessingTimeWindows.of("1 hour", "10 seconds")
    CumulatingProcessingTimeWindows.of('1 hour', '10 seconds')
    """

    is_event_time = False
