"""The plot of kept rows and waiting rows by delay."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from panestream.advisor.needed import Completeness
from panestream.pages.drawing import BAR, LINE, MARK, both, duration_ticks, ticks_up
from panestream.pages.words import number, span

_MOST = 400


def plot(found: Completeness, waiting: Sequence[tuple[int, int]]) -> tuple[str, str] | None:
    """Draw a wide and a narrow plot, or return None if matplotlib or a second delay is missing; ``waiting`` may be empty."""
    if len(found.delays) < 2:
        return None
    return both(partial(_draw, found=found, costs=waiting), 3.2, "completeness")


def _draw(axes: Any, wide: bool, *, found: Completeness, costs: Sequence[tuple[int, int]]) -> None:
    delays = np.array(found.delays, np.float64) / 1e6
    shares = 100 * np.array(found.kept, np.float64) / found.rows
    keep = np.unique(np.linspace(0, len(delays) - 1, _MOST).astype(int))
    longest = delays[-1]
    axes.step([0, *delays[keep], longest * 1.04], [0, *shares[keep], 100], where="post", color=BAR, linewidth=1.8)
    for share in (0.99, 0.999):
        delay = found.delay_for(share) / 1e6
        axes.axvline(delay, color=LINE, linewidth=1, zorder=0)
        if wide or share == 0.99:
            axes.text(delay, 101, f"{100 * share:g} %", fontsize=9, ha="center", va="bottom", color=BAR)
    if costs:
        waiting = axes.twinx()
        waiting.plot([delay / 1e6 for delay, _ in costs], [rows for _, rows in costs], color=MARK, lw=1.4, marker="o", ms=3.5)
        ticks_up(waiting, max(rows for _, rows in costs) or 1, number, grid=False)
        waiting.set_ylabel("rows open", color=MARK)
        waiting.spines["right"].set_visible(False)
    axes.set_ylim(min(float(shares[0]) * 0.9, 90), 101)
    axes.set_xlim(0, longest * 1.04)
    ticks = duration_ticks(longest, 8 if wide else 4)
    axes.set_xticks(ticks, [span(round(tick * 1e6)) for tick in ticks])
    axes.set_ylabel("% of rows kept", color=BAR)
    axes.set_xlabel("delay of the watermark")
    axes.grid(axis="y", color=LINE, linewidth=0.6)
    axes.set_axisbelow(True)


__all__ = ["plot"]
