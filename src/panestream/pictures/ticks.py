"""Ticks of a time axis at times that people like."""

from __future__ import annotations

from panestream.pages.drawing import clock
from panestream.windowing.time import MAX_TIMESTAMP, MIN_TIMESTAMP

_S, _DAY = 1_000_000, 86_400_000_000
_NICE = (1, 2, 5)
_STEPS = (
    *(nice * 10**power for power in range(6) for nice in _NICE),
    *(_S * each for each in (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200)),
    *(_DAY * each for each in (1, 2, 7, 14, 28, 91, 182, 364, 3640, 36_400)),
)


def ticks(first: int, last: int, most: int, *, in_microseconds: bool) -> tuple[list[int], list[str], str]:
    """Where ticks are, what stands at them, and what stands at the axis because all of them share it.

    >>> ticks(0, 90_000_000, 4, in_microseconds=True)
    ([0, 30000000, 60000000, 90000000], ['00:00:00', '00:00:30', '00:01:00', '00:01:30'], '')
    >>> ticks(0, 23, 5, in_microseconds=False)
    ([0, 5, 10, 15, 20], ['0', '5', '10', '15', '20'], '')
    """
    length = last - first
    if not in_microseconds or not MIN_TIMESTAMP < first < last < MAX_TIMESTAMP:
        step = next(nice * 10**power for power in range(20) for nice in _NICE if length <= most * nice * 10**power)
        times = list(range(-(-first // step) * step, last + 1, step))
        return times, list(map(str, times)), ""
    step = next((each for each in _STEPS if length <= most * each), _STEPS[-1])
    times = list(range(-(-first // step) * step, last + 1, step))
    exact = min(step, _S) if step % (60 * _S) else step  # to the second, where a step is no whole minutes
    # Examples count from the epoch on: its day is none that says anything.
    from_the_epoch = abs(first) < _DAY and abs(last) < _DAY
    one_day = from_the_epoch or first // _DAY == (last - 1) // _DAY
    texts = [clock(time, exact, day=not one_day) for time in times]
    day = clock(first, _DAY) if one_day and not from_the_epoch and step < _DAY else ""
    return times, texts, day


__all__ = ["ticks"]
