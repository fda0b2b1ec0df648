"""Look-back windows: the time before each row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from panestream.errors import InvalidPlanError, InvalidWindowError
from panestream.windowing.assigners.base import SeveralWindows, WindowAssigner
from panestream.windowing.time import Duration, check_micros, format_duration, to_micros
from panestream.windowing.windows import Window

_LONGEST = 2**61
"""In microseconds. A time and both lengths together must fit int64."""


@dataclass(frozen=True, slots=True, repr=False)
class LookBackWindows(WindowAssigner):
    """The rows of a row's key in the time before it, and itself: ``[ts - size, ts + following]``, both inclusive.

    Rows with the same time are in each other's windows, as in SQL. Results have a row for each input row, when the watermark has
    passed it. The constructor takes microseconds; :meth:`of` takes durations.
    Flink: ``OVER (PARTITION BY … ORDER BY ts RANGE BETWEEN … PRECEDING AND CURRENT ROW)`` of its SQL.

    >>> LookBackWindows.of("1 hour")
    LookBackWindows.of('1 hour')
    >>> LookBackWindows.of("1 hour", following="5 minutes")
    LookBackWindows.of('1 hour', following='5 minutes')
    """

    size: int
    following: int = 0

    is_event_time = True
    columns_only: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_micros("LookBackWindows.of('1 hour')", self.size, self.following)
        for what, length in (("size", self.size), ("following", self.following)):
            if not 0 <= length < _LONGEST:
                raise InvalidWindowError(
                    f"{what} of a look-back must not be negative, and less than 70,000 years: got {format_duration(length)!r}"
                )

    @classmethod
    def of(cls, size: Duration, following: Duration = "0 seconds") -> LookBackWindows:
        """Return windows from ``size`` before to ``following`` after a row, both inclusive, >= 0. The latter delays results."""
        return cls(to_micros(size, "size"), to_micros(following, "following"))

    def assign_windows(self, element: Any, timestamp: int, processing_time: int) -> tuple[Window, ...]:
        raise InvalidPlanError(f"{self!r}: the look-backs of a row depend on later rows, so they run on columns only")

    def __repr__(self) -> str:
        following = f", following={format_duration(self.following)!r}" if self.following else ""
        return f"LookBackWindows.of({format_duration(self.size)!r}{following})"


def look_backs_of(assigner: WindowAssigner) -> Mapping[str, LookBackWindows] | None:
    """Return look-backs by label (empty for a single look-back), or None for other windows.

    >>> look_backs_of(LookBackWindows(60))
    {'': LookBackWindows.of('60 microseconds')}
    """
    if isinstance(assigner, LookBackWindows):
        return {"": assigner}
    if not isinstance(assigner, SeveralWindows):
        return None
    found = {
        label: one for label, one in zip(assigner.labels, assigner.assigners, strict=True) if isinstance(one, LookBackWindows)
    }
    if not found:
        return None
    if len(found) < len(assigner.labels):
        other = next(one for one in assigner.assigners if not isinstance(one, LookBackWindows))
        raise InvalidPlanError(
            f"look-backs give a result for each row, {other!r} gives one for each window: they do not go together in one query"
        )
    return found


def result_name(name: str, label: str) -> str:
    """Return the name of a result with the label of its look-back.

    >>> result_name("clicks", "1h"), result_name("clicks", "")
    ('clicks_1h', 'clicks')
    """
    return f"{name}_{label}" if label else name
