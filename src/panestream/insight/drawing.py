"""SVG pictures for a page. They contain real text and take the colours of the page, so they fit light and dark pages.

They need matplotlib, which panestream[insight] installs. Pages without it lack pictures.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from io import StringIO
from typing import Any

from panestream.windowing.time import iso

WIDE, NARROW = 9.2, 4.2
"""Widths in inches. Text has one size, so phones get a separate picture instead of one too small to read."""
# Placeholders that are replaced by the page's variables.
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
"""Round steps in seconds, up to half a day."""
Draw = Callable[[Any, bool], None]
"""A function that draws on matplotlib axes; the flag is True for a wide picture."""


def both(draw: Draw, height: float, name: str) -> tuple[str, str] | None:
    """Draw a wide and a narrow picture, ``height`` inches high. Return None without matplotlib. ``name`` is unique in a page."""
    try:
        import matplotlib as mpl
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        return None
    found = []
    for wide in (True, False):
        # matplotlib derives ids from this salt, and pictures in one page must not share ids.
        style: Any = {**_STYLE, "svg.hashsalt": f"{name}{wide}"}
        with warnings.catch_warnings(), mpl.rc_context(style):
            warnings.simplefilter("ignore")  # about letters missing from its own font, which the page's font has
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
    """Turn matplotlib's output into a part of a page."""
    text = svg[svg.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r"<style.*?</style>", "", text, flags=re.DOTALL)
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
    text = re.sub(r' xmlns(:\w+)?="[^"]*"', "", text).replace("xlink:href", "href")
    # Ids must be unique in a page.
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
    """Format a time with the precision that its step needs."""
    date, _, clock = (iso(time) or "").removesuffix("Z").partition("T")
    if step >= _DAY:
        return date
    shown = clock[:5] if step >= _MINUTE else clock[:8] if step >= _SECOND else clock
    return f"{date}\n{shown}" if day else shown


def duration_ticks(longest: float, most: int) -> list[float]:
    """Return round durations in seconds from zero up to the longest, in at most ``most`` steps.

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
    """Set ticks at whole numbers up to the largest, in steps of 1, 2 or 5 times a power of ten."""
    step = next(each * 10**power for power in range(20) for each in (1, 2, 5) if most <= 4 * each * 10**power)
    ticks = range(0, most + 1, step)
    axes.set_yticks(list(ticks), [told(tick) for tick in ticks])
    axes.set_ylim(0, most * 1.06)
    if grid:
        axes.grid(axis="y", color=LINE, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(axis="y", length=0)
