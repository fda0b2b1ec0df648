"""The pictures of a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from panestream.pages.drawing import BAR, FAINT, LINE, MARK, both, clock, duration_ticks, ticks_up
from panestream.pages.words import number, size, span
from panestream.report.points import RunPoint

_SECOND = 1_000_000
_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, 86_400)
Pair = tuple[str, str] | None


def throughput(points: Sequence[RunPoint]) -> Pair:
    """Draw rows per second, with marks for late rows."""
    return both(partial(_draw_throughput, points=points), 2.3, "throughput") if points else None


def lag(points: Sequence[RunPoint]) -> Pair:
    """Draw how far the watermark is behind the newest event and, if comparable, how far that is behind the clock."""
    known = [point for point in points if point.watermark is not None and point.newest is not None]
    return both(partial(_draw_lag, points=known), 2.3, "lag") if known else None


def windows(points: Sequence[RunPoint]) -> Pair:
    """Draw firings and the number of open windows."""
    return both(partial(_draw_windows, points=points), 2.3, "windows") if points else None


def state(points: Sequence[RunPoint]) -> Pair:
    """Draw the size of the state."""
    return both(partial(_draw_state, points=points), 1.9, "state") if any(point.peak_bytes for point in points) else None


def skew(points: Sequence[RunPoint]) -> Pair:
    """Draw the largest key group as a multiple of the mean."""
    known = [point for point in points if point.skew and point.groups > 1]
    return both(partial(_draw_skew, points=known), 2.1, "skew") if known else None


def _draw_throughput(axes: Any, wide: bool, *, points: Sequence[RunPoint]) -> None:
    _stairs(axes, points, [point.rows_per_second for point in points], BAR, "rows a second")
    late = [point for point in points if point.late]
    if late:
        axes.plot(
            [_middle(point) / 1e6 for point in late],
            [point.rows_per_second for point in late],
            linestyle="", marker="o", ms=3.5, color=MARK, label="with late rows",
        )  # fmt: skip
    _frame(axes, points, wide, max(point.rows_per_second for point in points), lambda each: number(round(each)))
    axes.set_ylabel("rows a second")
    if late:
        _legend(axes, wide)


def _draw_lag(axes: Any, wide: bool, *, points: Sequence[RunPoint]) -> None:
    behind = [(point.newest or 0) - (point.watermark or 0) for point in points]
    clocked = [point.ended - (point.newest or 0) for point in points]
    _stairs(axes, points, [each / 1e6 for each in behind], MARK, "watermark behind the newest event")
    lines = behind
    # The clock means nothing for old or generated data.
    if max(clocked) < 2 * 86_400 * _SECOND and min(clocked) > -60 * _SECOND:
        _stairs(axes, points, [each / 1e6 for each in clocked], BAR, "newest event behind the clock")
        lines = [*behind, *clocked]
    _frame(axes, points, wide, max(lines) / 1e6, None)
    most = max(max(lines) / 1e6, 1)
    ticks = duration_ticks(most, 4)
    axes.set_yticks(ticks, [span(round(tick * 1e6)) for tick in ticks])
    _legend(axes, wide)


def _draw_windows(axes: Any, wide: bool, *, points: Sequence[RunPoint]) -> None:
    kinds = (("on time", BAR, "on_time"), ("early", FAINT, "early"), ("late", MARK, "late_firings"))
    base = [0.0] * len(points)
    left = [point.began / 1e6 for point in points]
    width = [max((point.ended - point.began) / 1e6, _width(points) / 300e6) for point in points]
    for label, colour, name in kinds:
        heights = [getattr(point, name) for point in points]
        if any(heights):
            axes.bar(left, heights, width=width, bottom=base, align="edge", color=colour, label=f"firings {label}")
            base = [below + height for below, height in zip(base, heights, strict=True)]
    _frame(axes, points, wide, max(*base, 1), lambda each: number(round(each)))
    axes.set_ylabel("firings")
    opened = [point.peak_open for point in points]
    if any(opened):
        right = axes.twinx()
        _stairs(right, points, [float(each) for each in opened], MARK, "open")
        ticks_up(right, max(opened), number, grid=False)
        right.set_ylabel("open windows", color=MARK)
        right.spines["right"].set_visible(False)
    if any(base):
        _legend(axes, wide)


def _draw_state(axes: Any, wide: bool, *, points: Sequence[RunPoint]) -> None:
    _stairs(axes, points, [float(point.peak_bytes) for point in points], BAR, "bytes")
    _frame(axes, points, wide, max(point.peak_bytes for point in points), lambda each: size(round(each)).replace(".0 ", " "))
    axes.set_ylabel("bytes of state")


def _draw_skew(axes: Any, wide: bool, *, points: Sequence[RunPoint]) -> None:
    most = 1.0
    for name, colour in (("rows", BAR), ("state", MARK), ("time", FAINT)):
        mine = [point for point in points if name in point.skew]
        if mine:
            values = [point.skew[name] for point in mine]
            # A line with one point would be invisible.
            marker = "o" if len(mine) == 1 else ""
            axes.plot([_middle(point) / 1e6 for point in mine], values, color=colour, lw=1.4, marker=marker, label=name)
            most = max(most, *values)
    axes.axhline(1, color=LINE, linewidth=1)
    _time_axis(axes, points, wide)
    axes.set_ylim(0, most * 1.15)
    axes.set_ylabel("largest ÷ mean")
    _legend(axes, wide)


def _middle(point: RunPoint) -> int:
    return (point.began + point.ended) // 2


def _width(points: Sequence[RunPoint]) -> int:
    return max(points[-1].ended - points[0].began, _SECOND)


def _stairs(axes: Any, points: Sequence[RunPoint], values: Sequence[float], colour: str, label: str) -> None:
    """Draw a line that is level during a micro-batch and until the next one."""
    edges = [point.began / 1e6 for point in points] + [points[-1].ended / 1e6]
    axes.step(edges, [*values, values[-1]], where="post", color=colour, lw=1.5, label=label)


def _frame(axes: Any, points: Sequence[RunPoint], wide: bool, most: float, told: Callable[[int], str] | None) -> None:
    if told is not None:
        ticks_up(axes, max(1, round(most)), told)
    else:
        axes.set_ylim(0, max(most, 1) * 1.15)
        axes.grid(axis="y", color=LINE, linewidth=0.6)
        axes.set_axisbelow(True)
    _time_axis(axes, points, wide)


def _time_axis(axes: Any, points: Sequence[RunPoint], wide: bool) -> None:
    first, last = points[0].began, points[0].began + _width(points)
    most = 8 if wide else 3
    length = (last - first) / _SECOND
    days = (86_400 * each * 10**power for power in range(6) for each in (1, 2, 5))
    step = next(each for each in (*_STEPS, *days) if length / each <= most) * _SECOND
    times = range(-(-first // step) * step, last + 1, step)
    one_day = first // (86_400 * _SECOND) == last // (86_400 * _SECOND)
    axes.set_xticks([time / 1e6 for time in times], [clock(time, step, day=not one_day) for time in times])
    axes.set_xlim(first / 1e6, last / 1e6)
    axes.set_xlabel(f"{clock(first, 86_400 * _SECOND)}, UTC" if one_day else "UTC")


def _legend(axes: Any, wide: bool) -> None:
    above: Any = {"loc": "lower right", "bbox_to_anchor": (1, 0.98), "borderaxespad": 0}
    axes.legend(**above, frameon=False, fontsize=8.5, ncols=3 if wide else 1, handlelength=1.2)


__all__ = ["lag", "skew", "state", "throughput", "windows"]
