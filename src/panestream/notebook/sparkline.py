"""A small plot as SVG, of the letters of this module alone: no library draws it, so it is there in any notebook."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

WIDTH, HEIGHT = 240, 56
_EDGE = 3


def sparkline(values: Sequence[float | None], label: str, *, bars: bool = False, mark: bool = False) -> str:
    """Values over the micro-batches, from nothing to the largest; what is unknown is left out.

    Args:
        values: one for each micro-batch.
        label: what they are, for those who cannot see it.
        bars: as bars, of counts of each micro-batch; else as a line.
        mark: in the colour of what deserves a look.

    >>> "polyline" in sparkline([1, 2, 3], "rows/s"), sparkline([0, 1], "late", bars=True).count("<rect")
    (True, 1)
    """
    known = [(place, value) for place, value in enumerate(values) if value is not None]
    most = max((value for _, value in known), default=0) or 1
    step = (WIDTH - 2 * _EDGE) / max(len(values), 1)
    colour = "var(--mark)" if mark else "var(--bar)"

    def up(value: float) -> float:
        return HEIGHT - _EDGE - (HEIGHT - 2 * _EDGE) * max(value, 0) / most

    if bars:
        drawn = "".join(
            f'<rect x="{_EDGE + place * step:.1f}" y="{up(value):.1f}" width="{max(step * 0.8, 0.6):.1f}" '
            f'height="{HEIGHT - _EDGE - up(value):.1f}" fill="{colour}"/>'
            for place, value in known
            if value
        )
    else:
        points = " ".join(f"{_EDGE + (place + 0.5) * step:.1f},{up(value):.1f}" for place, value in known)
        drawn = (
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5" vector-effect="non-scaling-stroke"/>'
        )
    base = f'<line x1="0" x2="{WIDTH}" y1="{HEIGHT - 1}" y2="{HEIGHT - 1}" stroke="var(--line)"/>'
    name = escape(label, quote=True)
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" style="width: 100%; max-width: {WIDTH}px; height: {HEIGHT}px"'
    return f'<svg {size} preserveAspectRatio="none" role="img" aria-label="{name}">{base}{drawn}</svg>'


__all__ = ["HEIGHT", "WIDTH", "sparkline"]
