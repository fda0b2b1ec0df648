"""``pst.tools.timeline``: a picture of the windows of one or several queries."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

from panestream.errors import InvalidPlanError
from panestream.insight.timeline_layout import BINS, Bar, Layout, Mark, by_clock, layout, span_of, ticks
from panestream.tracing.events import Trace
from panestream.tracing.texts import printable, value
from panestream.tracing.why import ANY, Traceable, trace_of

WIDTH = 7.4
"""Width of a figure in inches."""
MAX_TEXTS = 40
"""The most firings whose results are written next to their marks; with more firings, none are."""
MAX_PARTS = 50
"""The most parts of a session that are drawn; more would look like one line."""
_ROWS, _LANE, _CROWD, _FRAME = 1.75, 0.27, 1.0, 0.62
_ACROSS, _MARK, _LETTER = 440, 9.0, 4.6
"""Lengths in points: minimum width of the axes, a mark with the gap after it, and a letter of a firing's result."""
# Colour-blind people can distinguish these, and everyone can tell them from black and white. Shapes differ as well.
BLUE, RED, GREEN, ORANGE, GREY = "#3f83bf", "#d6493b", "#3a9a6c", "#d08618", "#8a8a8a"
FATES = {
    "taken": ("o", BLUE, "row"),
    "late": ("X", RED, "late row"),
    "outside": ("D", GREY, "row outside of all windows"),
    "evicted": ("o", BLUE, "evicted row"),
}
FIRINGS = {
    "early": (">", ORANGE, "fired early"),
    "on_time": ("v", GREEN, "fired on time"),
    "late": ("s", RED, "fired late"),
}


@dataclass(frozen=True, slots=True)
class Ink:
    """The colours that do not depend on rows and windows: one for text, and one for details in the background."""

    text: str
    faint: str

    def style(self) -> Any:
        """Return matplotlib settings."""
        return {
            "svg.fonttype": "none",
            "svg.hashsalt": "panestream",
            "font.size": 8.5,
            "font.family": "sans-serif",
            "axes.edgecolor": self.faint,
            "axes.labelcolor": self.faint,
            "xtick.color": self.faint,
            "ytick.color": self.faint,
            "text.color": self.text,
            "text.parse_math": False,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.linewidth": 0.6,
        }


# Placeholders that are replaced by the colours of the surrounding text, so that pictures fit dark and light pages.
PAGE = Ink("#010101", "#020202")
PAPER = Ink("#262626", "#6e6e6e")


def drawn(layouts: Sequence[Layout], titles: Sequence[str], ink: Ink) -> Any:
    """Return a matplotlib figure with one picture below the other on one time axis, or raise ModuleNotFoundError."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "a picture is drawn by matplotlib: pip install 'panestream[insight]'", name="matplotlib"
        ) from error
    heights = [height for each in layouts for height in (_rows_height(each), _windows_height(each))]
    with mpl.rc_context(ink.style()):
        figure = Figure(figsize=(WIDTH, sum(heights) + _FRAME + 0.42 * len(layouts)), layout="constrained")
        figure.patch.set_alpha(0)
        panels = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights, squeeze=False)[:, 0]
        first, last = min(each.first for each in layouts), max(each.last for each in layouts)
        for at, (each, title) in enumerate(zip(layouts, titles, strict=True)):
            rows, windows = panels[2 * at], panels[2 * at + 1]
            name = f"{at}-" if len(layouts) > 1 else ""
            _draw_rows(rows, each, first, last, name)
            _draw_windows(windows, each, first, last, name)
            rows.set_title(title, loc="left", fontsize=9)
            if each.left_out:
                windows.set_xlabel(f"{len(each.left_out)} more keys are not shown: key=… shows one", fontsize=7.5, loc="right")
        _time_axis(panels[-1], layouts[0], first, last)
        _legend(figure, layouts)
    return figure


def svg(layouts: Sequence[Layout], titles: Sequence[str], *, themed: bool, label: str) -> str:
    """Return SVG that is equal for equal layouts, and whose letters are text rather than paths."""
    figure, written = drawn(layouts, titles, PAGE), StringIO()
    _save(figure, written, PAGE, format="svg", metadata={"Date": None, "Creator": None})
    text = written.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \1px; font-family: sans-serif", text)
    text = text.replace(PAGE.text, "currentColor").replace(PAGE.faint, "var(--faint, #7a7a7a)")
    text = text.replace("<svg", f'<svg role="img" aria-label="{_attribute(label)}"', 1)
    if themed:  # a separate file, without a page that would set its colour
        style = "<style>:root{color:#262626}@media (prefers-color-scheme: dark){:root{color:#dedede}}</style>"
        text = re.sub(r"(<svg[^>]*>)", lambda found: found.group(1) + style, text, count=1)
    return text.strip() + "\n"


def png(layouts: Sequence[Layout], titles: Sequence[str]) -> bytes:
    """Return PNG on white."""
    figure, written = drawn(layouts, titles, PAPER), BytesIO()
    _save(figure, written, PAPER, format="png", dpi=160, facecolor="white", metadata={"Software": None})
    return written.getvalue()


def _save(figure: Any, written: Any, ink: Ink, **options: Any) -> None:
    import matplotlib as mpl

    with mpl.rc_context(ink.style()), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about letters missing from its own font
        figure.savefig(written, **options)


def _faint() -> Any:
    import matplotlib as mpl

    return mpl.rcParams["axes.labelcolor"]


def _attribute(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace(">", "&gt;")


# ---------------------------------------------------------------- rows


def _rows_height(each: Layout) -> float:
    return min(max(0.15 * each.rows, 0.9), _ROWS)


def _windows_height(each: Layout) -> float:
    return _CROWD if each.windows is not None else max(_LANE * each.height, 0.5)


def _draw_rows(axes: Any, each: Layout, first: int, last: int, name: str) -> None:
    """Draw event time to the right and arrival downwards. The watermark had already passed the rows to the left of its line."""
    axes.patch.set_alpha(0)
    high = max(each.rows, 1)
    pad = 0.6 if each.rows < 40 else 0.03 * high
    axes.set_ylim(high - 1 + pad, -pad)
    if each.crowd:
        _draw_crowded_rows(axes, each, name)
    for point in each.points:
        marker, color, _ = FATES["evicted" if point.evicted else point.fate]
        face = "none" if point.evicted else color
        look = {"marker": marker, "markersize": 5.5, "markerfacecolor": face, "markeredgecolor": color, "linestyle": "none"}
        axes.plot([point.x], [point.y], gid=f"{name}row-{point.number}", zorder=4, **look)
        if point.evicted:
            axes.plot([point.x], [point.y], marker="_", markersize=11, markeredgewidth=1.3, color=color, zorder=5)
        if point.text:
            look = {"color": RED} if point.fate == "late" else {}
            axes.annotate(point.text, (point.x, point.y), (5, 0), textcoords="offset points", va="center", fontsize=8, **look)
    _draw_watermark(axes, each, first, last, high, pad, name)
    axes.set_ylabel("in order of arrival" if each.rows else "no rows", fontsize=8)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="x", length=0, labelbottom=False)


def _draw_crowded_rows(axes: Any, each: Layout, name: str) -> None:
    """Draw a square for each cell, fuller for more rows."""
    most = max(count for cells in each.crowd.values() for count in cells.values())
    wide, high = max((each.last - each.first) / BINS, 1), max(each.rows / (BINS // 2), 1)
    for fate, cells in each.crowd.items():
        places = sorted(cells)
        xs = [each.first + (x + 0.5) * wide for x, _ in places]
        ys = [(y + 0.5) * high for _, y in places]
        sizes = [3 + 22 * (cells[place] / most) ** 0.5 for place in places]
        marker, color, _ = FATES[fate]
        axes.scatter(xs, ys, s=sizes, marker=marker, color=color, alpha=0.8, linewidths=0, gid=f"{name}rows-{fate}", zorder=4)


def _draw_watermark(axes: Any, each: Layout, first: int, last: int, high: int, pad: float, name: str) -> None:
    if not each.watermarks:
        return
    edge = last + 0.04 * (last - first)
    xs, ys = [first - 0.04 * (last - first)], [-pad]
    for y, x in each.watermarks:
        at = max(min(y - 0.5, high - 1 + pad), -pad)
        xs += [xs[-1], min(max(x, xs[0]), edge)]
        ys += [at, at]
    if max(xs) < edge:
        xs, ys = [*xs, xs[-1]], [*ys, high - 1 + pad]
    what = "watermark" if each.is_event_time else "clock"
    axes.plot(xs, ys, color=_faint(), linewidth=1.2, linestyle=(0, (4, 2)), gid=f"{name}{what}", zorder=3, clip_on=True)


# ---------------------------------------------------------------- windows


def _draw_windows(axes: Any, each: Layout, first: int, last: int, name: str) -> None:
    axes.patch.set_alpha(0)
    if each.windows is not None:
        _draw_crowded_windows(axes, each, name)
        return
    axes.set_ylim(max(each.height, 1) - 0.5, -0.5)
    for bar in each.bars:
        _draw_bar(axes, bar, first, last, name)
    labelled = _labelled(each.marks, first, last) if len(each.marks) <= MAX_TEXTS else frozenset()
    for at, mark in enumerate(each.marks):
        _draw_mark(axes, mark, first, last, name, labelled=at in labelled)
    ticks_at = [lanes.first + (lanes.count - 1) / 2 for lanes in each.lanes]
    told = [] if [lanes.key for lanes in each.lanes] == [None] else [_key(lanes.key) for lanes in each.lanes]
    axes.set_yticks(ticks_at if told else [], told)
    axes.tick_params(axis="y", length=0)
    for lanes in each.lanes[1:]:
        axes.axhline(lanes.first - 0.5, color=_faint(), linewidth=0.4)
    axes.set_ylabel("" if told else "windows", fontsize=8)
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(side == "bottom")


def _labelled(marks: Sequence[Mark], first: int, last: int) -> frozenset[int]:
    """Return the marks with room for their results, without overlaps. On-time firings get room first."""
    points = _ACROSS / (1.08 * max(last - first, 1))
    taken: list[tuple[int, float, float]] = []
    for mark in marks:
        at = _within(mark.x, first, last) * points
        taken.append((mark.lane, at - _MARK / 2, at + _MARK / 2))
    found = set[int]()
    for place in sorted(range(len(marks)), key=lambda place: (marks[place].which != "on_time", place)):
        mark, (lane, start, end) = marks[place], taken[place]
        wide = sum(_LETTER * (2 if ord(letter) > 0x2E7F else 1) for letter in mark.text)
        left, right = (start - wide, start) if _is_left(mark, first, last) else (end, end + wide)
        if mark.text and not any(lane == other and left < to and since < right for other, since, to in taken):
            taken.append((lane, left, right))
            found.add(place)
    return frozenset(found)


def _within(x: int, first: int, last: int) -> int:
    return min(max(x, first), last)


def _is_left(mark: Mark, first: int, last: int) -> bool:
    """Return whether a result is written left of its mark: inside the bar if on time, or at the right edge of the picture."""
    return mark.which == "on_time" or _within(mark.x, first, last) > last - 0.04 * (last - first)


def _draw_bar(axes: Any, bar: Bar, first: int, last: int, name: str) -> None:
    from matplotlib.patches import Rectangle

    far = last - first
    start = first - far if bar.start is None else max(bar.start, first - far)
    end = last + far if bar.end is None else min(bar.end, last + far)
    if bar.until is not None:
        until = min(bar.until, last + far)
        axes.plot([end, until], [bar.lane, bar.lane], color=BLUE, linewidth=1.1, linestyle=(0, (1, 1)), zorder=2)
    gap = far * 0.002
    place, width = (start + gap, bar.lane - 0.34), end - start - 2 * gap
    axes.add_patch(Rectangle(place, width, 0.68, facecolor=BLUE, alpha=0.26, gid=f"{name}window-{bar.window}"))
    edge = Rectangle(place, width, 0.68, fill=False, zorder=3, edgecolor=BLUE, linewidth=0.9)
    edge.set_linestyle((0, (3, 2)) if bar.is_open else "solid")
    axes.add_patch(edge)
    look: Any = {"color": BLUE, "linewidth": 0.9, "marker": "|", "markersize": 4, "zorder": 3}
    for part_start, part_end in bar.parts[:MAX_PARTS]:
        axes.plot([part_start, part_end], [bar.lane + 0.2] * 2, **look)


def _draw_mark(axes: Any, mark: Mark, first: int, last: int, name: str, *, labelled: bool) -> None:
    marker, color, _ = FIRINGS[mark.which]
    x = _within(mark.x, first, last)
    look = {"marker": marker, "markersize": 5.5, "color": color, "linestyle": "none", "clip_on": False}
    axes.plot([x], [mark.lane], gid=f"{name}firing-{mark.window}-{mark.number}", zorder=6, **look)
    if mark.text and labelled:
        offset, side = ((-5, 0), "right") if _is_left(mark, first, last) else ((5, 0), "left")
        look = {"va": "center", "ha": side, "fontsize": 7.5, "zorder": 7}
        axes.annotate(mark.text, (x, mark.lane), offset, textcoords="offset points", **look)


def _draw_crowded_windows(axes: Any, each: Layout, name: str) -> None:
    assert each.windows is not None  # noqa: S101 - checked by the caller
    width, cells = each.windows.width, each.windows.cells
    ends = cells["window"]
    bars = axes.bar([at * width for at in ends], list(ends.values()), width, align="edge", color=BLUE, alpha=0.3)
    for at, bar in zip(ends, bars, strict=True):  # each bar needs its own id, since a common id would occur several times
        bar.set_gid(f"{name}windows-{at}")
    for which, (marker, color, _) in FIRINGS.items():
        counts = sorted(cells.get(which, {}).items())
        if counts:
            xs, ys = [(at + 0.5) * width for at, _ in counts], [count for _, count in counts]
            axes.plot(xs, ys, marker=marker, markersize=3.5, color=color, linestyle="none", gid=f"{name}firings-{which}")
    axes.set_ylim(0, None)
    axes.yaxis.get_major_locator().set_params(integer=True, nbins=4)
    axes.set_ylabel("windows, by end", fontsize=8)


def _key(key: object) -> str:
    text = key if isinstance(key, str) else value(key)
    return text if len(text) <= 14 else text[:13] + "…"


# ---------------------------------------------------------------- around


def _time_axis(axes: Any, each: Layout, first: int, last: int) -> None:
    far = last - first
    axes.set_xlim(first - 0.03 * far, last + 0.05 * far)
    times, texts, day = ticks(first, last, 7, in_microseconds=each.in_microseconds)
    axes.set_xticks(times, texts)
    axes.tick_params(axis="x", length=3, labelbottom=True)
    kind = "event time" if each.is_event_time else "clock"
    unit = ", UTC" if each.in_microseconds else ""
    told = axes.get_xlabel()
    axes.set_xlabel(f"{kind}{unit}{f', {day}' if day else ''}{f'    ({told})' if told else ''}", fontsize=8)


def _legend(figure: Any, layouts: Sequence[Layout]) -> None:
    from matplotlib.lines import Line2D

    found = list[Any]()
    fates = {"evicted" if point.evicted else point.fate for each in layouts for point in each.points}
    fates |= {fate for each in layouts for fate in each.crowd}
    for fate, (marker, color, told) in FATES.items():
        if fate in fates:
            face = "none" if fate == "evicted" else color
            found.append(Line2D([], [], marker=marker, markeredgecolor=color, markerfacecolor=face, linestyle="none", label=told))
    whiches = {mark.which for each in layouts for mark in each.marks}
    whiches |= {kind for each in layouts if each.windows is not None for kind in each.windows.cells} - {"window"}
    found += [
        Line2D([], [], marker=marker, color=color, linestyle="none", label=told)
        for which, (marker, color, told) in FIRINGS.items()
        if which in whiches
    ]
    for what, is_event_time in (("watermark", True), ("clock", False)):
        if any(each.watermarks and each.is_event_time == is_event_time for each in layouts):
            found.append(Line2D([], [], color=_faint(), linewidth=1.2, linestyle=(0, (4, 2)), label=what))
    if any(bar.until is not None for each in layouts for bar in each.bars):
        found.append(Line2D([], [], color=BLUE, linewidth=1.1, linestyle=(0, (1, 1)), label="allowed lateness"))
    if found:
        look = {"frameon": False, "fontsize": 8, "handletextpad": 0.4, "columnspacing": 1.4}
        columns = len(found) if len(found) <= 6 else -(-len(found) // 2)  # more do not fit in one line
        figure.legend(handles=found, loc="outside lower left", ncols=columns, **look)


_LONGEST = 110


class Timeline:
    """A picture of rows, windows, the watermark and firings, which can be shown in a notebook or saved.

    Attributes:
        layouts: the contents and their positions, one for each query.

    Examples:
        >>> import panestream as pst
        >>> minutes = pst.TumblingEventTimeWindows.of("1 minute")
        >>> harness = pst.testing.WindowTestHarness(minutes, reduce=max, traced=True)
        >>> harness.process_element(3, "5 seconds", key="ann")
        >>> harness.end_of_input()
        >>> pst.tools.timeline(harness).svg()[:4]
        '<svg'
    """

    def __init__(self, layouts: tuple[Layout, ...], titles: tuple[str, ...]) -> None:
        self.layouts = layouts
        self._titles = titles

    def __repr__(self) -> str:
        rows, bars = sum(each.rows for each in self.layouts), sum(len(each.bars) for each in self.layouts)
        windows = "many" if any(each.windows is not None for each in self.layouts) else bars
        return f"<Timeline: {rows} rows, {windows} windows; .save('windows.svg') or .save('windows.png')>"

    def svg(self, *, themed: bool = True) -> str:
        """Return the picture as SVG with real text. Equal runs return equal SVG.

        Args:
            themed: whether colours follow the reader's system, light or dark. If False, they follow the text around the
                picture.

        Raises:
            ModuleNotFoundError: if matplotlib is missing (``pip install 'panestream[insight]'``).
        """
        return svg(self.layouts, self._titles, themed=themed, label=f"Rows and windows over time: {'; '.join(self._titles)}")

    def png(self) -> bytes:
        """Return the picture as PNG, on white. Errors are as for :meth:`svg`."""
        return png(self.layouts, self._titles)

    def save(self, path: str | Path) -> Path:
        """Save the picture in the format of the file name, and return the path.

        Args:
            path: a name that ends with ``.svg`` or ``.png``, in an existing folder.

        Raises:
            InvalidPlanError: if the name has another ending.
            ModuleNotFoundError: as for :meth:`svg`.
            OSError: if the file cannot be written.
        """
        path = Path(path)
        if path.suffix == ".svg":
            path.write_text(self.svg(), encoding="utf-8")
        elif path.suffix == ".png":
            path.write_bytes(self.png())
        else:
            raise InvalidPlanError(f"a picture is saved as .svg or .png, not as {path.name!r}")
        return path

    def _repr_svg_(self) -> str:
        return self.svg()


def timeline(*sources: Trace | Traceable, key: Any = ANY, titles: tuple[str, ...] | list[str] = ()) -> Timeline:
    """Draw the history of rows and windows.

    The upper part has each row at its event time (to the right) and in order of arrival (downwards). The watermark is a line, and
    had already passed the rows to its left. Late rows are red crosses, and evicted rows are struck through. The lower part has
    each window as a bar, by key, with its early, on-time and late firings and their results if these are short. A session also
    has the windows merged into it. With more than 400 rows or 24 lanes of windows, the picture shows counts over time instead.

    Args:
        sources: harnesses made with ``traced=True``, results over batches, checkpoints (drawn with open windows and stored rows),
            or traces. Several are drawn one below the other on one time axis.
        key: only rows and windows of this key.
        titles: one for each source. The default names the windows, their trigger and evictor.

    Returns:
        The picture. Drawing starts when it is shown or saved.

    Raises:
        InvalidPlanError: if sources are missing, cannot be traced, or differ in their kind of time, or if the number of titles
            is wrong.

    >>> import panestream as pst
    >>> harness = pst.testing.WindowTestHarness(pst.TumblingEventTimeWindows.of("1 minute"), reduce=max, traced=True)
    >>> harness.process_element(7, "10 seconds", key="ann")
    >>> harness.process_watermark("1 minute")
    >>> pst.tools.timeline(harness)
    <Timeline: 1 rows, 1 windows; .save('windows.svg') or .save('windows.png')>
    """
    traces = [_trace_of_key(trace_of(source), key) for source in sources]
    if not traces:
        raise InvalidPlanError("timeline needs at least one harness made with traced=True, or a trace")
    if titles and len(titles) != len(traces):
        raise InvalidPlanError(f"timeline has {len(traces)} pictures and {len(titles)} titles: give one for each")
    if len({(by_clock(trace), trace.in_microseconds) for trace in traces}) > 1:
        raise InvalidPlanError(
            "these do not share a time axis: event time and the clock, or microseconds and other numbers. Draw them apart"
        )
    spans = [span_of(trace) for trace in traces]
    span = min(first for first, _ in spans), max(last for _, last in spans)
    named = tuple(map(_titled, titles or (trace.description for trace in traces)))
    return Timeline(tuple(layout(trace, span) for trace in traces), named)


def _titled(text: str) -> str:
    return printable(text, _LONGEST)


def _trace_of_key(trace: Trace, key: Any) -> Trace:
    return trace if key is ANY else trace.of_key(key)
