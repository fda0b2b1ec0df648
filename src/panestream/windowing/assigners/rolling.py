"""Rolling windows: the current value of each key over the last hour, day or ever."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from panestream.errors import InvalidPlanError, InvalidWindowError
from panestream.windowing.assigners.base import WindowAssigner
from panestream.windowing.time import Duration, check_micros, format_duration, to_micros
from panestream.windowing.windows import TimeWindow, Window

AS_OF = "as_of"
"""The result column with the instant from which a row holds, until the next row of its key."""
_LONGEST = 2**60
"""In microseconds, so that sums of times and lengths fit int64."""
_EXAMPLE = "RollingWindows.of({'1h': '1 hour', 'ever': None}, every='1 minute')"


@dataclass(frozen=True, slots=True, repr=False)
class RollingWindows(WindowAssigner):
    """The last hour, the last day and all time of a key, in one pass: values that rise and fall as rows enter and leave.

    At each multiple ``t`` of ``every``, a window of length ``l`` has the rows in ``[t - l, t)``; without a length it has all rows
    before ``t``. A key gets a result row only at steps that change its values. The row has the values of all windows, with the
    window's label after their names (``clicks_1h``), and the column ``as_of``, which is ``t``. When the last row of a key has
    left all windows, the key has the values of no rows; a changelog then deletes it. The constructor takes microseconds;
    :meth:`of` takes durations. Flink has sliding windows, which emit every key at every step.

    >>> RollingWindows.of({"1h": "1 hour", "ever": None}, every="1 minute")
    RollingWindows.of({'1h': '1 hour', 'ever': None}, every='1 minute')
    """

    windows: tuple[tuple[str, int | None], ...]
    every: int

    is_event_time = True
    columns_only: ClassVar[bool] = True

    def __post_init__(self) -> None:
        lengths = [length for _, length in self.windows if length is not None]
        check_micros(_EXAMPLE, self.every, *lengths)
        if not 0 < self.every < _LONGEST:
            raise InvalidWindowError(f"every of rolling windows must be positive, got {format_duration(self.every)!r}")
        if not self.windows:
            raise InvalidWindowError(f"rolling windows need at least one window: write {_EXAMPLE}")
        for label, length in self.windows:
            if not isinstance(label, str) or not label:
                raise InvalidWindowError(f"the label of a rolling window must be a text, got {label!r}: write {_EXAMPLE}")
            if length is None:
                continue
            if not 0 < length < _LONGEST:
                raise InvalidWindowError(
                    f"the rolling window {label!r} must be positive, and less than 35,000 years: got {format_duration(length)!r}"
                )
            if length % self.every:
                raise InvalidWindowError(
                    f"the rolling window {label!r} of {format_duration(length)!r} is not a multiple of every, "
                    f"{format_duration(self.every)!r}: rows enter and leave at multiples of it. Let it divide all lengths"
                )

    @classmethod
    def of(cls, windows: Mapping[str, Duration | None], *, every: Duration) -> RollingWindows:
        """Return windows by label. A length of None means all time. Lengths are multiples of ``every``, the step of time."""
        if not isinstance(windows, Mapping):
            raise InvalidWindowError(f"rolling windows want labels and lengths, got {windows!r}: write {_EXAMPLE}")
        lengths = {label: None if one is None else to_micros(one, f"the window {label!r}") for label, one in windows.items()}
        return cls(tuple(lengths.items()), to_micros(every, "every"))

    @property
    def longest(self) -> int:
        """The longest window with a length, or 0."""
        return max((length for _, length in self.windows if length is not None), default=0)

    @property
    def has_all_time(self) -> bool:
        """True if a window has all rows of a key."""
        return any(length is None for _, length in self.windows)

    def step_of(self, time: int) -> TimeWindow:
        """Return the step whose end brings a row of this time into the windows.

        >>> RollingWindows((("1h", 60),), 10).step_of(25)
        TimeWindow(start=20, end=30)
        """
        start = time // self.every * self.every
        return TimeWindow(start, start + self.every)

    def assign_windows(self, element: Any, timestamp: int, processing_time: int) -> tuple[Window, ...]:
        raise InvalidPlanError(f"{self!r}: rows enter and leave rolling windows as time moves; they run on columns only")

    def __repr__(self) -> str:
        shown = {label: None if length is None else format_duration(length) for label, length in self.windows}
        return f"RollingWindows.of({shown!r}, every={format_duration(self.every)!r})"
