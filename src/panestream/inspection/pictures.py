"""SVG pictures of a summary. They contain real text and take the colours of the page, so they fit light and dark pages.

They need matplotlib, which panestream[cli] installs. Pages without it lack pictures.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from panestream.inspection.bins import DAY, WIDTHS
from panestream.inspection.summary import Summary
from panestream.pages.drawing import BAR, MARK, both, clock, ticks_up
from panestream.pages.words import behind, number, printable, size, span, watermark_text

MOST_SOURCES = 12
MOST_GROUPS = 128


def windows_over_time(summary: Summary) -> tuple[str, str] | None:
    """Return the open windows by end with the time reached, wide and narrow. None without windows or without matplotlib."""
    return both(partial(_draw_windows, summary=summary), 2.6, "windows") if summary.ends.counts else None


def lateness(summary: Summary) -> tuple[str, str] | None:
    """Draw how far each source partition is behind the newest event."""
    shown = min(len(summary.sources), MOST_SOURCES)
    known = any(source.watermark is not None for source in summary.sources)
    return both(partial(_draw_lateness, summary=summary), 0.55 + 0.3 * shown, "lateness") if known else None


def skew(summary: Summary) -> tuple[str, str] | None:
    """Draw the bytes of each key group, the largest first, and their mean."""
    return both(partial(_draw_skew, summary=summary), 2.2, "skew") if any(group.bytes for group in summary.groups) else None


# -- windows over time -------------------------------------------------------------------------------------------------------


def _draw_windows(axes: Any, wide: bool, *, summary: Summary) -> None:
    ends = summary.ends
    places = sorted(ends.counts)
    first, last = places[0], places[-1] + 1
    axes.bar([place - first for place in places], [ends.counts[place][0] for place in places], width=0.9, align="edge", color=BAR)
    _draw_reached(axes, summary, first, last)
    ticks_up(axes, max(counts[0] for counts in ends.counts.values()), number)
    axes.set_xlim(-0.02 * (last - first), last - first)
    axes.set_ylabel("open windows")
    _time_ticks(axes, ends.width, first, last, 8 if wide else 3)


def _draw_reached(axes: Any, summary: Summary, first: int, last: int) -> None:
    """Draw the time reached as a line, or write it if it is outside the bars."""
    reached = summary.watermark if summary.clock is None else summary.clock
    if reached is None:
        return
    at = reached / summary.ends.width - first
    look = {"va": "bottom", "color": MARK, "fontsize": 9}
    if not -0.02 * (last - first) <= at <= last - first:
        when = f"{watermark_text(reached)}, {'before' if at < 0 else 'after'} all of these"
        axes.text(1, 1.01, f"time has come to {when}".replace("\n", " "), transform=axes.transAxes, ha="right", **look)
        return
    axes.axvline(at, color=MARK, linewidth=1.6)
    left = at < (last - first) / 2
    word = "time has come to here"
    axes.text(at, 1.01, word, transform=axes.get_xaxis_transform(), ha="left" if left else "right", **look)


def _time_ticks(axes: Any, width: int, first: int, last: int, most: int) -> None:
    """Set ticks at round times. (matplotlib's own dates end with the year 9999.)"""
    length = (last - first) * width
    step = next((each for each in WIDTHS if each >= width and length // each <= most), WIDTHS[-1])
    times = range(-(-first * width // step) * step, last * width + 1, step)
    one_day = first * width // DAY == (last * width - 1) // DAY
    axes.set_xticks([time / width - first for time in times], [clock(time, step, day=not one_day) for time in times])
    day = f"{clock(first * width, DAY)}, " if one_day else ""
    axes.set_xlabel(f"{day}end of the window, UTC; {span(width)} a bar")


# -- source partitions -------------------------------------------------------------------------------------------------------


def _draw_lateness(axes: Any, wide: bool, *, summary: Summary) -> None:
    shown = summary.sources[:MOST_SOURCES]
    far = [behind(summary.newest, source.watermark) for source in shown]
    lengths = [max(each or 0, 0) / 1e6 for each in far]
    places = range(len(shown))
    bars = axes.barh(places, lengths, height=0.62, color=BAR)
    for bar, source in zip(bars, shown, strict=True):
        bar.set_alpha(0.35 if source.idle else 1)
    longest = max(lengths, default=0) or 1
    for place, (source, each) in enumerate(zip(shown, far, strict=True)):
        told = "no rows yet" if each is None else span(each)
        axes.text(lengths[place] + longest * 0.01, place, f"{told}{', idle' if source.idle else ''}", va="center", fontsize=9)
    names = [printable(source.name, 24 if wide else 14) or "all rows" for source in shown]
    axes.set_yticks(list(places), names)
    axes.tick_params(axis="y", length=0)
    axes.invert_yaxis()
    axes.set_xlim(0, longest * (1.15 if wide else 1.45))
    axes.set_xticks([])
    axes.spines["bottom"].set_visible(False)
    axes.set_xlabel("behind the newest event")


# -- key groups --------------------------------------------------------------------------------------------------------------


def _draw_skew(axes: Any, wide: bool, *, summary: Summary) -> None:
    ranked = sorted(summary.groups, key=lambda group: (-group.bytes, group.group))[:MOST_GROUPS]
    heights = [group.bytes for group in ranked]
    mean = sum(group.bytes for group in summary.groups) / len(summary.groups)
    axes.bar(range(len(ranked)), heights, width=0.82, color=BAR)
    axes.axhline(mean, color=MARK, linewidth=1.4)
    largest = summary.skew("bytes") or 1
    word = f"mean {size(round(mean))}; the largest has {largest:.2f} times as much"
    axes.text(1, 1.01, word, transform=axes.transAxes, ha="right", va="bottom", color=MARK, fontsize=9)
    every = max(1, -(-len(ranked) // (24 if wide else 10)))
    axes.set_xticks(range(0, len(ranked), every), [str(group.group) for group in ranked[::every]])
    around = max(0, ((10 if wide else 5) - len(ranked)) / 2)
    axes.set_xlim(-0.6 - around, len(ranked) - 0.4 + around)
    axes.tick_params(axis="x", length=0)
    ticks_up(axes, max(heights), lambda count: size(count).replace(".0 ", " "))
    axes.set_xlabel("key group, the largest first")
    axes.set_ylabel("bytes")


__all__ = ["lateness", "skew", "windows_over_time"]
