"""Aligned windows, at fixed places of time for all keys: tumbling, sliding and cumulating."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

from panestream.errors import InvalidWindowError
from panestream.windowing.assigners.base import OneTimeAssigner, call_of
from panestream.windowing.time import Duration, check_micros, format_duration, to_micros
from panestream.windowing.windows import TimeWindow

_MULTIPLIER, _MASK = 0x9E3779B97F4A7C15, 2**64 - 1


class WindowStagger(Enum):
    """How the windows of a key group are shifted against the clock. Flink: ``WindowStagger``.

    ``ALIGNED`` (the default) fires all groups together. ``RANDOM`` spreads them evenly over the size, by the number of the group,
    so that a rerun gives the same windows. ``NATURAL`` begins the first window with the group's first element, by the clock. The
    state keeps the shift from a group's first element on, so a restart does not change the windows. (Flink draws it again.)

    Examples:
        >>> TumblingEventTimeWindows.of("1 hour", stagger=WindowStagger.NATURAL)
        TumblingEventTimeWindows.of('1 hour', stagger=WindowStagger.NATURAL)
    """

    ALIGNED = "aligned"
    RANDOM = "random"
    NATURAL = "natural"

    def get_stagger_offset(self, processing_time: int, size: int, key_group: int) -> int:
        """Return the shift in ``[0, size)``, from the processing time of the group's first element. Times are in microseconds.

        >>> WindowStagger.NATURAL.get_stagger_offset(processing_time=1234, size=100, key_group=0)
        34
        """
        if self is WindowStagger.NATURAL:
            return processing_time % size
        if self is WindowStagger.RANDOM:
            mixed = (key_group + 1) * _MULTIPLIER & _MASK
            mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & _MASK
            return (mixed ^ mixed >> 27) * size >> 64
        return 0

    def __repr__(self) -> str:
        return f"WindowStagger.{self.name}"


TumblingT = TypeVar("TumblingT", bound="_Tumbling")


@dataclass(frozen=True, slots=True, repr=False)
class _Tumbling(OneTimeAssigner):
    size: int
    offset: int = 0
    stagger: WindowStagger = WindowStagger.ALIGNED

    def __post_init__(self) -> None:
        check_micros(f"{type(self).__name__}.of('1 hour')", self.size, self.offset)
        if self.size <= 0:
            raise InvalidWindowError(f"the size of a tumbling window must be positive, got {format_duration(self.size)!r}")
        if abs(self.offset) >= self.size:
            raise InvalidWindowError(
                f"the offset of a tumbling window must be smaller than its size: "
                f"offset {format_duration(self.offset)!r}, size {format_duration(self.size)!r}"
            )
        if not isinstance(self.stagger, WindowStagger):
            raise InvalidWindowError(
                f"the stagger of a tumbling window must be a WindowStagger such as WindowStagger.RANDOM, got {self.stagger!r}"
            )

    @classmethod
    def of(  # noqa: PYI019 - typing.Self came with 3.11
        cls: type[TumblingT], size: Duration, offset: Duration = "0 seconds", stagger: WindowStagger = WindowStagger.ALIGNED
    ) -> TumblingT:
        """Return windows of ``size``, aligned to the epoch (UTC) plus ``offset`` (< ``size``), shifted by ``stagger``."""
        return cls(to_micros(size, "size"), to_micros(offset, "offset"), stagger)

    def staggered(self: TumblingT, shift: int) -> TumblingT:  # noqa: PYI019
        """Return the windows of one key group, shifted by the result of :meth:`WindowStagger.get_stagger_offset`."""
        return type(self)(self.size, (self.offset + shift) % self.size)

    def _windows_at(self, time: int, element: Any) -> tuple[TimeWindow, ...]:
        start = time - (time - self.offset) % self.size
        return (TimeWindow(start, start + self.size),)

    def __repr__(self) -> str:
        stagger = f", stagger={self.stagger!r}" if self.stagger is not WindowStagger.ALIGNED else ""
        return call_of(self, self.size, offset=self.offset, more=stagger)


@dataclass(frozen=True, slots=True, repr=False)
class TumblingEventTimeWindows(_Tumbling):
    """Windows ``[n*size + offset, (n+1)*size + offset)`` of event time. Flink: ``TumblingEventTimeWindows``.

    The constructor takes microseconds; :meth:`of` takes durations.

    >>> TumblingEventTimeWindows.of("1 day", offset="-8 hours")  # days of UTC+8
    TumblingEventTimeWindows.of('1 day', offset='-8 hours')
    """

    is_event_time = True


@dataclass(frozen=True, slots=True, repr=False)
class TumblingProcessingTimeWindows(_Tumbling):
    """Windows ``[n*size + offset, (n+1)*size + offset)`` of processing time. Flink: ``TumblingProcessingTimeWindows``.

    No row is late. A window fires once the clock has reached its end; the end of a bounded input does not fire it.

    >>> TumblingProcessingTimeWindows.of("10 seconds", stagger=WindowStagger.RANDOM)
    TumblingProcessingTimeWindows.of('10 seconds', stagger=WindowStagger.RANDOM)
    """

    is_event_time = False


SlidingT = TypeVar("SlidingT", bound="_Sliding")


@dataclass(frozen=True, slots=True, repr=False)
class _Sliding(OneTimeAssigner):
    size: int
    slide: int
    offset: int = 0

    def __post_init__(self) -> None:
        check_micros(f"{type(self).__name__}.of('1 hour', '5 minutes')", self.size, self.slide, self.offset)
        if self.size <= 0 or self.slide <= 0:
            raise InvalidWindowError(
                f"size and slide of a sliding window must be positive, got size {format_duration(self.size)!r}, "
                f"slide {format_duration(self.slide)!r}"
            )
        if abs(self.offset) >= self.slide:
            raise InvalidWindowError(
                f"the offset of a sliding window must be smaller than its slide: "
                f"offset {format_duration(self.offset)!r}, slide {format_duration(self.slide)!r}"
            )

    @classmethod
    def of(  # noqa: PYI019 - typing.Self came with 3.11
        cls: type[SlidingT], size: Duration, slide: Duration, offset: Duration = "0 seconds"
    ) -> SlidingT:
        """Return windows of positive ``size``, one every ``slide``, aligned to the epoch (UTC) plus ``offset`` (< ``slide``)."""
        return cls(to_micros(size, "size"), to_micros(slide, "slide"), to_micros(offset, "offset"))

    def _windows_at(self, time: int, element: Any) -> tuple[TimeWindow, ...]:
        last = time - (time - self.offset) % self.slide
        # Newest start first, as in Flink. The order is visible when one element fires several windows at once.
        return tuple(TimeWindow(start, start + self.size) for start in range(last, time - self.size, -self.slide))

    def __repr__(self) -> str:
        return call_of(self, self.size, self.slide, offset=self.offset)


@dataclass(frozen=True, slots=True, repr=False)
class SlidingEventTimeWindows(_Sliding):
    """Windows ``[n*slide + offset, n*slide + offset + size)`` of event time. Flink: ``SlidingEventTimeWindows``.

    If ``slide > size``, rows in the gaps are in no window. The constructor takes microseconds; :meth:`of` takes durations.

    >>> SlidingEventTimeWindows.of("1 hour", "5 minutes")
    SlidingEventTimeWindows.of('1 hour', '5 minutes')
    """

    is_event_time = True


@dataclass(frozen=True, slots=True, repr=False)
class SlidingProcessingTimeWindows(_Sliding):
    """Windows ``[n*slide + offset, n*slide + offset + size)`` of processing time. Flink: ``SlidingProcessingTimeWindows``.

    >>> SlidingProcessingTimeWindows.of("10 seconds", "5 seconds")
    SlidingProcessingTimeWindows.of('10 seconds', '5 seconds')
    """

    is_event_time = False


CumulatingT = TypeVar("CumulatingT", bound="_Cumulating")


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
        cls: type[CumulatingT], max_size: Duration, step: Duration, offset: Duration = "0 seconds"
    ) -> CumulatingT:
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
