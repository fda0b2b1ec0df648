"""Sum and count over an hour, ever more often: slide 1 h down to 1 s. ``python -m benchmarks.flink.slides --help``.

An engine with a sum per window has a cost per row that grows with the number of windows of the row (3,600 at a slide of 1 s). An
engine that shares panes has a constant cost. Each contestant gets as many events as it can process in about the same time.
"""

from __future__ import annotations

import argparse
import os
import statistics
from collections.abc import Sequence
from pathlib import Path

from benchmarks.flink.beside import DATA, ROOT, Result, run_contestant
from benchmarks.flink.run import about_the_runs, save
from benchmarks.flink.spark_side import Run
from benchmarks.flink.sweep import CONTESTANTS, KEYS, SIZE_MS, SLIDES_MS, rows_for

COLOURS = {"panestream": "#0b6e4f", "native": "#c1440e", "flink heap": "#8a8a8a", "flink rocksdb": "#4a4a4a"}


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="benchmarks.flink.slides", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--slides", nargs="+", type=int, default=[slide // 1000 for slide in SLIDES_MS], help="in seconds")
    parser.add_argument("--contestants", nargs="+", choices=CONTESTANTS, default=list(CONTESTANTS), metavar="NAME")
    parser.add_argument("--seconds", type=float, default=20, help="to keep each contestant busy for (default: %(default)s)")
    parser.add_argument("--rows", type=int, help="events for everybody instead")
    parser.add_argument("--rows-per-batch", type=int, default=1_000_000, help="of Spark's micro-batches (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=2, help="in one process (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--data", default=str(DATA))
    parser.add_argument("--results", default=str(ROOT / "benchmarks" / "results"))
    parser.add_argument("--name", default=None, help="of the result files")
    return parser.parse_args(arguments)


def table(results: Sequence[Result]) -> list[str]:
    """Return a line per slide and a column per contestant: events per second, and the number of input events."""
    names = list(dict.fromkeys(result.contestant for result in results))
    lines = ["| slide | windows of a row | " + " | ".join(names) + " |", "|---:|---:|" + "---:|" * len(names)]
    for slide in dict.fromkeys(result.workload for result in results):
        cells = []
        for name in names:
            runs = [result for result in results if (result.workload, result.contestant) == (slide, name)]
            cells.append(f"{statistics.median(run.median for run in runs):,.0f} ({runs[0].rows:,} rows)" if runs else "")
        lines.append(f"| {int(slide) // 1000:,} s | {SIZE_MS // int(slide):,} | " + " | ".join(cells) + " |")
    return lines


def plot(results: Sequence[Result], path: Path) -> None:
    """Plot events per second over the number of windows of a row, both logarithmic."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 5))
    for name in dict.fromkeys(result.contestant for result in results):
        runs = sorted((result for result in results if result.contestant == name), key=lambda one: SIZE_MS // int(one.workload))
        windows = [SIZE_MS // int(run.workload) for run in runs]
        axes.plot(
            windows,
            [run.median for run in runs],
            "o-",
            color=COLOURS[name],
            label=name,
            linewidth=2.5 if name == CONTESTANTS[0] else 1.5,
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    ticks = sorted({SIZE_MS // int(result.workload) for result in results})
    axes.set_xticks(ticks, [f"{tick:,}\n{SIZE_MS // tick // 1000:,} s" for tick in ticks])
    axes.set_xlabel("windows that a row is part of, and the slide; size 1 h")
    axes.set_ylabel("events per second")
    axes.set_title(f"Sum and count over the last hour, {KEYS} keys")
    axes.grid(visible=True, which="major", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    plt.close(figure)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run everything, print the table, and write it with the plot."""
    options = parse(arguments)
    heading = ["# Slide sweep: sum and count over 1 h", "", *about_the_runs(options)]
    results = []
    for slide in options.slides:
        for number in range(options.rounds):
            for name in options.contestants:
                rows = options.rows or rows_for(name, slide * 1000, options.seconds)
                run = Run(str(slide * 1000), name, rows, options.rows_per_batch, options.repeats, options.data, options.cores)
                one = run_contestant(run, number)
                print(f"  slide {slide:>5} s  {name:14s} {one.median:>12,.0f} events/s ({one.rows:,} rows)", flush=True)
                results.append(one)
    text = "\n".join([*heading, *table(results)]) + "\n"
    print("\n" + text)
    target = save(text, results, options, "slides")
    plot(results, target.with_suffix(".png"))
    print(f"written: {target}.md, .json and .png")


if __name__ == "__main__":
    main()
