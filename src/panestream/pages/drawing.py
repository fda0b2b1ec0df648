"""Pictures as SVG in a page: their text is text, their colours are the page's, so one picture is light and dark.

Drawn by matplotlib, which panestream[cli] brings; without it there are none.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from io import StringIO
from typing import Any

from panestream.windowing.instants import iso

WIDE, NARROW = 9.2, 4.2
"""Inches; of text of the same size: a phone gets a picture of its own rather than one that is too small to read."""
# Drawn in these, and then said in the page's own words.
_COLOURS = {
    "#010101": "var(--ink)",
    "#020202": "var(--faint)",
    "#030303": "var(--bar)",
    "#040404": "var(--mark)",
    "#050505": "var(--line)",
}
INK, FAINT, BAR, MARK, LINE = _COLOURS
_STYLE = {
    "svg.fonttype": "none",
    "font.size": 10,
    "font.family": "sans-serif",
    "axes.edgecolor": LINE,
    "axes.labelcolor": FAINT,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "text.color": INK,
    "text.parse_math": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
}

_SECOND, _MINUTE, _DAY = 1_000_000, 60_000_000, 86_400_000_000
_LIKED = (1.0, 2.0, 5.0, 10.0, 15.0, 30.0, *(60.0 * each for each in (1, 2, 5, 10, 15, 30, 60, 120, 240, 480, 720)))
"""Seconds, up to half a day."""
Draw = Callable[[Any, bool], None]
"""Draws on the axes of matplotlib; whether there is room."""


def both(draw: Draw, height: float, name: str) -> tuple[str, str] | None:
    """A picture, wide and narrow; None: nothing draws here.

    Args:
        draw: what to draw.
        height: in inches.
        name: of the picture: two of one page have two.
    """
    try:
        import matplotlib as mpl
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        return None
    found = []
    for wide in (True, False):
        # The names of what is drawn come of this salt: pictures of one page must not share them.
        style: Any = {**_STYLE, "svg.hashsalt": f"{name}{wide}"}
        with warnings.catch_warnings(), mpl.rc_context(style):
            warnings.simplefilter("ignore")  # of letters that its own font lacks; the page's has them
            figure = Figure(figsize=(WIDE if wide else NARROW, height), layout="constrained")
            figure.patch.set_alpha(0)
            FigureCanvasSVG(figure)
            axes = figure.add_subplot()
            axes.patch.set_alpha(0)
            draw(axes, wide)
            written = StringIO()
            figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None})
        found.append(_inline(written.getvalue(), name, wide))
    return found[0], found[1]


def _inline(svg: str, name: str, wide: bool) -> str:
    """What matplotlib wrote, as a part of a page."""
    text = svg[svg.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r"<style.*?</style>", "", text, flags=re.DOTALL)
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
    text = re.sub(r' xmlns(:\w+)?="[^"]*"', "", text).replace("xlink:href", "href")
    # Names of two pictures on one page are two.
    prefix = f"{name}-{'wide' if wide else 'narrow'}-"
    text = re.sub(r'\bid="', f'id="{prefix}', text)
    text = re.sub(r'href="#', f'href="#{prefix}', text)
    text = re.sub(r"url\(#", f"url(#{prefix}", text)
    text = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \1px", text)
    for drawn, said in _COLOURS.items():
        text = text.replace(drawn, said)
    kind = "wide" if wide else "narrow"
    return text.replace("<svg", f'<svg class="{kind}" role="img" aria-label="{name}"', 1).strip()


def clock(time: int, step: int, *, day: bool = True) -> str:
    """A time as exactly as its step needs it."""
    date, _, clock = (iso(time) or "").removesuffix("Z").partition("T")
    if step >= _DAY:
        return date
    shown = clock[:5] if step >= _MINUTE else clock[:8] if step >= _SECOND else clock
    return f"{date}\n{shown}" if day else shown


def duration_ticks(longest: float, most: int) -> list[float]:
    """Durations in seconds that people like, from nothing to the longest; at most so many steps.

    >>> duration_ticks(7_000, 4), duration_ticks(1.3, 4), duration_ticks(0, 4)
    ([0.0, 1800.0, 3600.0, 5400.0], [0.0, 0.5, 1.0], [0.0])
    """
    tens = [10.0**power for power in range(-6, 8)]
    short = [each * ten for ten in tens[:6] for each in (1, 2, 5)]
    long = [86_400 * each * ten for ten in tens[6:] for each in (1, 2, 5)]
    steps = (*short, *_LIKED, *long)
    step = next((each for each in steps if longest / each <= most), steps[-1])
    return [each * step for each in range(int(longest / step) + 1)] if longest > 0 else [0.0]


def ticks_up(axes: Any, most: int, told: Callable[[int], str], *, grid: bool = True) -> None:
    """Whole numbers from nothing to the largest, in steps of 1, 2 or 5 times a power of ten."""
    step = next(each * 10**power for power in range(20) for each in (1, 2, 5) if most <= 4 * each * 10**power)
    ticks = range(0, most + 1, step)
    axes.set_yticks(list(ticks), [told(tick) for tick in ticks])
    axes.set_ylim(0, most * 1.06)
    if grid:
        axes.grid(axis="y", color=LINE, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(axis="y", length=0)


__all__ = ["BAR", "FAINT", "INK", "LINE", "MARK", "Draw", "both", "clock", "duration_ticks", "ticks_up"]
