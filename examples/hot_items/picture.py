"""The picture of hot items: the views of the hottest items, window by window, and the event times of late rows."""

from __future__ import annotations

import copy
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

LINES = 8
"""The maximum number of items with a line. More colours are hard to distinguish."""

# Okabe and Ito's palette, which colour-blind people can distinguish. Grey replaces yellow, which is too pale on white.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C8C8C")
_STYLES = ("-", "-", "-", "-", "-", "-", "--", "--")
_LATE = "#B2182B"
_INK = "#262626"
_FAINT = "#6E6E6E"


@dataclass(frozen=True, slots=True)
class Ranked:
    """An item in the ranking of one window.

    Attributes:
        window_end: when the window ended, with a time zone.
        item: its id.
        count: the number of views.
    """

    window_end: datetime
    item: int
    count: int


def hot_items_picture(
    rows: Iterable[Ranked],
    late: Iterable[datetime],
    path: Path,
    *,
    title: str = "Hot items",
    window: str = "hour",
    utc_offset: float = 0,
    late_bin: timedelta = timedelta(minutes=10),
) -> Path:
    """Draw the ranking over time as a PNG.

    Each of the hottest items is a line over the ends of the windows, with gaps for windows without it in the ranking. Below, on
    the same axis, bars show the number of late rows by event time. The lines above lack these rows.

    Args:
        rows: the ranking of every window.
        late: the event times of the late rows, with a time zone.
        path: the file, in an existing folder.
        title: above the picture.
        window: the name of a window in the label, e.g. ``"hour"``.
        utc_offset: the clock of the time axis, in hours from UTC.
        late_bin: the width of a bar of late rows.

    Returns:
        ``path``.
    """
    # Use the object interface with the Agg canvas, because pyplot would look for a screen, and keep figures alive.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows, late = list(rows), list(late)
    zone = timezone(timedelta(hours=utc_offset))
    figure = Figure(figsize=(12, 6.8), dpi=150, facecolor="white")
    FigureCanvasAgg(figure)
    figure.subplots_adjust(left=0.075, right=0.84, top=0.87, bottom=0.1, hspace=0.1)
    above, below = figure.subplots(2, 1, sharex=True, gridspec_kw={"height_ratios": (5, 1)})
    figure.text(0.075, 0.955, title, fontsize=17, fontweight="bold", color=_INK, va="center")
    figure.text(0.075, 0.912, _subtitle(rows, late), fontsize=11, color=_FAINT, va="center")
    _draw_lines(above, rows, window)
    _draw_late(below, late, late_bin)
    _draw_time_axis(below, [row.window_end for row in rows] + late, zone)
    for axes in (above, below):
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color("#B0B0B0")
        axes.tick_params(colors=_FAINT, labelsize=10)
    above.tick_params(axis="x", length=0)
    figure.savefig(path, format="png", metadata={"Software": "panestream"})
    return path


def hottest(rows: Sequence[Ranked], number: int = LINES) -> list[int]:
    """Return the items with a line: those with the most views in any one window, hottest first. Ties go to the smaller id."""
    best: dict[int, int] = defaultdict(int)
    for row in rows:
        best[row.item] = max(best[row.item], row.count)
    return sorted(best, key=lambda item: (-best[item], item))[:number]


def _subtitle(rows: Sequence[Ranked], late: Sequence[datetime]) -> str:
    windows = len({row.window_end for row in rows})
    text = f"{windows:,} windows; a line pauses while its item is not in the ranking"
    return f"{text}; {len(late):,} rows came when their windows were closed" if late else f"{text}; no row came late"


def _draw_lines(axes: Any, rows: Sequence[Ranked], window: str) -> None:
    ends = sorted({row.window_end for row in rows})
    counts = {(row.item, row.window_end): row.count for row in rows}
    for item, colour, style in zip(hottest(rows), _COLOURS, _STYLES, strict=False):
        heights = [counts.get((item, end), math.nan) for end in ends]
        # Draw markers only for single values, because a value between two gaps has no line.
        alone = [
            index
            for index, height in enumerate(heights)
            if not math.isnan(height)
            and all(math.isnan(heights[near]) for near in (index - 1, index + 1) if 0 <= near < len(heights))
        ]
        look = {"color": colour, "linestyle": style, "linewidth": 2, "solid_capstyle": "round"}
        axes.plot(ends, heights, label=str(item), marker="o", markersize=4, markevery=alone, **look)
        _mark_peak(axes, ends, heights, colour)
    axes.set_ylabel(f"views in the {window} before", color=_INK, fontsize=11)
    axes.set_ylim(bottom=0)
    axes.margins(y=0.12)
    axes.set_ylim(bottom=0)
    axes.grid(axis="y", color="#E6E6E6", linewidth=0.8)
    axes.set_axisbelow(True)
    if rows:
        # Without the markers, which are for single points only.
        handles, labels = axes.get_legend_handles_labels()
        handles = [copy.copy(handle) for handle in handles]
        for handle in handles:
            handle.set_marker("")
        legend = axes.legend(
            handles,
            labels,
            title="item",
            loc="upper left",
            bbox_to_anchor=(1.015, 1.02),
            frameon=False,
            fontsize=10.5,
            title_fontsize=10.5,
            labelspacing=0.65,
            alignment="left",
            labelcolor=_INK,
        )
        legend.get_title().set_color(_FAINT)
    else:
        axes.set_yticks([])
        axes.text(0.5, 0.5, "no window has fired", transform=axes.transAxes, ha="center", va="center", color=_FAINT, fontsize=13)


def _mark_peak(axes: Any, ends: Sequence[datetime], heights: Sequence[float], colour: str) -> None:
    """Draw a dot at the highest point of a line, so that crossing lines can be distinguished at their peaks."""
    peak = max(range(len(heights)), key=lambda index: (heights[index] == heights[index], heights[index]))
    axes.plot([ends[peak]], [heights[peak]], marker="o", markersize=6, color=colour, markeredgecolor="white", linestyle="none")


def _draw_late(axes: Any, late: Sequence[datetime], late_bin: timedelta) -> None:
    seconds = late_bin.total_seconds()
    bins = Counter(int(when.timestamp() // seconds) for when in late)
    begins = [datetime.fromtimestamp(number * seconds, timezone.utc) for number in sorted(bins)]
    heights = [bins[number] for number in sorted(bins)]
    axes.bar(begins, heights, width=late_bin * 0.86, align="edge", color=_LATE)
    axes.set_ylabel("late rows", color=_LATE, fontsize=11)
    axes.set_ylim(0, max(heights, default=1) * 1.45)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    if not late:
        axes.text(0.5, 0.5, "none", transform=axes.transAxes, ha="center", va="center", color=_FAINT, fontsize=11)
        return
    if len(bins) * len(str(max(heights))) <= 60:  # with more digits, the numbers would run into each other
        for begin, height in zip(begins, heights, strict=True):
            axes.text(begin + late_bin / 2, height, str(height), ha="center", va="bottom", color=_LATE, fontsize=8)
    minutes = seconds / 60
    axes.text(
        1.018, 0.5, f"{len(late):,} late rows,\nby event time,\nper {minutes:g} minutes", transform=axes.transAxes, ha="left",
        va="center", color=_FAINT, fontsize=9.5, linespacing=1.35,
    )  # fmt: skip


def _draw_time_axis(axes: Any, instants: Sequence[datetime], zone: timezone) -> None:
    from matplotlib import dates as matplotlib_dates

    dates: Any = matplotlib_dates
    axes.margins(x=0.015)
    if not instants:
        axes.set_xticks([])
        return
    locator = dates.AutoDateLocator(tz=zone, minticks=5, maxticks=12)
    axes.xaxis.set_major_locator(locator)
    first, last = min(instants).astimezone(zone), max(instants).astimezone(zone)
    if last - first > timedelta(hours=30):
        axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator, tz=zone))
    else:
        axes.xaxis.set_major_formatter(dates.DateFormatter("%H:%M", tz=zone))
    name = "UTC" if zone.utcoffset(None) == timedelta(0) else zone.tzname(None)
    days = _day(first) if first.date() == last.date() else f"{_day(first)} to {_day(last)}"
    axes.set_xlabel(f"end of the window (lines), event time (bars); {days}, {name}", color=_INK, fontsize=11, labelpad=6)
    axes.xaxis.get_offset_text().set_visible(False)


def _day(instant: datetime) -> str:
    return f"{instant.day} {instant:%B %Y}"
