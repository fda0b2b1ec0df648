"""The measurements of the soak test over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

GREEN, RED, GREY, DARK = "#0b6e4f", "#c1440e", "#8a8a8a", "#4a4a4a"
_PANELS = (
    ("MB", (("jvm", "JVM", GREEN), ("driver", "driver's Python", RED), ("worker", "largest worker", GREY))),
    ("files", (("open_files", "open (driver, JVM)", GREEN), ("checkpoint_files", "in the checkpoint", RED))),
    ("files and folders", (("sink_files", "files of the output", GREEN), ("sink_folders", "folders of the output", RED))),
    ("MB", (("checkpoint_mb", "checkpoint", GREEN),)),
    ("ms", (("ms", "duration of a micro-batch", GREEN),)),
)


def plot(
    looks: Sequence[Mapping[str, Any]],
    batches: Sequence[Mapping[str, Any]],
    restarts: Sequence[tuple[float, str]],
    path: Path,
) -> None:
    """Plot a panel for each unit, one below the other, with restarts as lines, dashed if the query was killed or interrupted."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(len(_PANELS), 1, figsize=(9, 12), sharex=True)
    for axes, (unit, lines) in zip(panels, _PANELS, strict=True):
        for name, title, colour in lines:
            seen = batches if name == "ms" else looks
            style = {"linestyle": "", "marker": ".", "markersize": 2} if name == "ms" else {"linewidth": 1.2}
            axes.plot([each["at"] / 60 for each in seen], [each[name] for each in seen], color=colour, label=title, **style)
        for at, how in restarts:
            axes.axvline(at / 60, color=DARK, linewidth=0.7, linestyle=":" if how == "stopped" else "--")
        axes.set_ylabel(unit)
        axes.set_ylim(bottom=0)
        axes.legend(loc="upper left", fontsize="small", frameon=False)
    panels[-1].set_xlabel("minutes (dashed: killed or cut; dotted: stopped)")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)
