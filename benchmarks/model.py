"""A model of the cost of a micro-batch, fitted to the points of ``groups.py``: ``python -m benchmarks.model --write``.

It reports the cost of each part of the work, the error at points that it has not seen, and a prediction for an unmeasured
cluster. It takes seconds, and measures nothing itself.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np

from benchmarks.fitting import TERMS, Model, Work, as_good, beyond, without_each
from benchmarks.groups import RESULTS, Configuration, Kept, Point
from benchmarks.scale import BLOCKS, BUSY, DISK, FILES, INTERVALS, NETWORK, Cluster, Resource, Scenario, resources, sizes

TARGET = 0.2
"""The maximum error at points that the model has not seen."""
ASSUMED_DRIVER = 1.0
"""The assumed milliseconds of the driver for a task, if there is no measurement."""
MACHINE = ("cpu", "cores", "memory_gb", "python", "pyspark", "panestream")


def page(kept: Kept, options: argparse.Namespace) -> list[str]:
    """Return the page in Markdown.

    Raises:
        SystemExit: too few points.
    """
    points = [kept.points[of] for of in sorted(kept.points)]
    if len(points) < len(TERMS) + 3:
        raise SystemExit(f"{len(points)} points are too few for {len(TERMS)} terms: make bench-groups ARGS=--write measures more")
    of, ms = [point.of for point in points], [point.panestream.median for point in points]
    processors = max(int(point.machine.get("cores", 1)) for point in points)
    model, others = Model.fit(of, ms, processors), without_each(of, ms, processors)
    possible = [*others, *as_good(of, ms, processors)]
    driver = driver_price(kept)
    cluster = Cluster(options.cores, options.rate, ASSUMED_DRIVER if driver is None else driver)
    queries = [
        name for name in ("sliding", "sliding-10-2", "tumbling") if any(configuration.query == name for configuration in of)
    ]
    scenarios = [
        Scenario.of_model(model, possible, query, cluster, keys, options.cores * each)
        for query, keys, each in product(queries, options.keys, options.per_core)
    ]
    return [
        "# A model of a micro-batch's cost",
        "",
        *about(points, driver),
        *prices(model, possible),
        *errors(of, ms, model, others),
        *reach(of, ms, processors, scenarios),
        *predicted(scenarios),
        *breaking(model, scenarios),
    ]


def driver_price(kept: Kept) -> float | None:
    """Return the milliseconds of one more task, from a line through the measurements, or None if there are none."""
    if len(kept.driver) < 2:
        return None
    counts, took = np.array(list(kept.driver)), np.array(list(kept.driver.values()))
    return float(max(0.0, np.polyfit(counts, took, 1)[0]))


def about(points: Sequence[Point], driver: float | None) -> list[str]:
    """Return a description of the model's points."""
    machines = {tuple(str(point.machine.get(name, "?")) for name in MACHINE) for point in points}
    lines = [f"- {len(points)} points of `benchmarks/groups.py` (panestream's medians). Machine: "]
    lines[0] += "; ".join(
        f"{cpu}, {cores} cores, {memory} GB, Python {python}, Spark {spark}, panestream {version}"
        for cpu, cores, memory, python, spark, version in sorted(machines)
    )
    lines[0] += "."
    if driver is None:
        lines += [f"- The driver's time for a task was not measured: {ASSUMED_DRIVER} ms is **assumed**."]
    else:
        lines += [
            f"- The driver's time for a task: {driver:.2f} ms, by jobs of tasks that do nothing, driver and executor in one",
            "  process. That has the executor's part in it, and lacks the network's.",
        ]
    return [
        *lines,
        "- The model: the sum of the terms below, no price less than nothing, least squares of relative errors. Amounts of work",
        "  are computed from the configuration (keys alike, at random). Key groups are spread over cores as whole ones. Some",
        "  work is a core's own, some is shared by all processors: Java and Python of a task run beside each other.",
        "",
    ]


def prices(model: Model, possible: Sequence[Model]) -> list[str]:
    """The terms."""
    lines = ["## Prices", "", "| term | is | µs | of models as good |", "|---|---|---:|---:|"]
    for at, (name, meaning) in enumerate(TERMS.items()):
        spread = [1000 * other.prices[at] for other in possible]
        lines.append(
            f"| {name} | {meaning} | {_number(1000 * model.prices[at])} | {_number(min(spread))} to {_number(max(spread))} |"
        )
    return [
        *lines,
        "",
        "Models as good: those that lack one point each, and those that lack terms and are no further off than noise explains.",
        "Where they differ by much, points do not tell terms apart: measure some where one is large (`--files` for payloads,",
        "`--keys` for cells and results, `--rows` for rows). Prices are of this machine.",
        "",
    ]


def errors(of: Sequence[Configuration], ms: Sequence[float], model: Model, others: Sequence[Model]) -> list[str]:
    """Return the error at each point of the model without that point."""
    off = [other.ms(each) / took - 1 for other, each, took in zip(others, of, ms, strict=True)]
    within = sum(abs(each) <= TARGET for each in off)
    worst, middle = max(map(abs, off)), statistics.median(map(abs, off))
    verdict = "met" if worst <= TARGET else "missed"
    lines = [
        "## Errors",
        "",
        f"**Target {verdict}** ({TARGET:.0%} at most at every point): each point beside a model that was fitted to all others.",
        f"Median {middle:.0%}, worst {worst:.0%}; {within} of {len(off)} points within {TARGET:.0%}.",
        "",
        "| query | rows | keys | cores | files | rate | key groups | measured ms | without it | error | with it |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for each, took, other, error in zip(of, ms, others, off, strict=True):
        told = f"**{error:+.0%}**" if abs(error) > TARGET else f"{error:+.0%}"
        lines.append(
            f"| {each.query} | {each.rows:,} | {each.keys:,} | {each.cores} | {each.files} | {each.rate:,} | {each.groups}"
            f" | {took:,.0f} | {other.ms(each):,.0f} | {told} | {model.ms(each):,.0f} |"
        )
    return [*lines, ""]


def reach(of: Sequence[Configuration], ms: Sequence[float], processors: int, scenarios: Sequence[Scenario]) -> list[str]:
    """Return the errors of extrapolation, and how far the questions are outside of the measured range."""
    lines = [
        "## How far it has to reach",
        "",
        "What follows is an extrapolation. A test of that: points with the most of something, by a model that saw none of them.",
        "",
        "| most | the model saw | unseen | worst error |",
        "|---|---:|---:|---:|",
    ]
    for what in ("rows", "keys", "cores", "groups", "rate"):
        seen, off = beyond(of, ms, what, processors)
        worst = max((error for _, error in off), key=abs, default=None)
        lines.append(f"| {what} | {seen} points | {len(off)} | {'too few to tell' if worst is None else f'{worst:+.0%}'} |")
    lines += ["", "| | measured | asked for, at most | times as much |", "|---|---:|---:|---:|"]
    asked = [scenario.of for scenario in scenarios]
    for name, amount in _AMOUNTS.items():
        low, high, most = min(map(amount, of)), max(map(amount, of)), max(map(amount, asked))
        lines.append(f"| {name} | {_number(low)} to {_number(high)} | {_number(most)} | {most / max(high, 1e-9):,.1f} |")
    return [
        *lines,
        "",
        "So nothing here says what no point has: the network between machines, stragglers, a driver whose heap or listeners are",
        "busy, slow object stores, skewed keys, sinks, garbage collection of large heaps. They make it slower, none makes it",
        "faster.",
        "",
    ]


_AMOUNTS = {
    "cores": lambda one: one.cores,
    "key groups": lambda one: one.groups,
    "key groups of a core": lambda one: one.groups / min(one.cores, one.groups),
    "payloads of a core": lambda one: Work.of(one).payloads / min(one.cores, one.groups),
    "rows of a core": lambda one: one.rows / one.cores,
    "cells of a core": lambda one: Work.of(one).cells / min(one.cores, one.groups),
    "results of a core": lambda one: Work.of(one).results / min(one.cores, one.groups),
    "cells at rest of a core": lambda one: Work.of(one).kept / min(one.cores, one.groups),
}


def predicted(scenarios: Sequence[Scenario]) -> list[str]:
    """Return the predictions for a cluster."""
    cluster = scenarios[0].cluster
    lines = [
        f"## {cluster.rate:,.0f} rows/s on {cluster.cores:,} cores",
        "",
        f"The trigger's interval is the shortest of {', '.join(map(str, INTERVALS))} s of which a micro-batch takes",
        f"{BUSY:.0%} at most; *none*: it falls behind, and the rest of the line is of the longest. The spread is that of",
        "models that are as good, see above; **?** where it is more than twice, so that nobody knows.",
        "",
        "| query | keys | key groups | trigger | micro-batch, s | spread | largest parts |",
        "|---|---:|---:|---:|---:|---:|---|",
    ]
    for scenario in scenarios:
        largest = sorted(scenario.parts.items(), key=lambda part: -part[1])[:3]
        said = ", ".join(f"{name} {part / scenario.ms:.0%}" for name, part in largest)
        unknown = " **?**" if scenario.most > 2 * scenario.least else ""
        interval = "*none*" if scenario.interval is None else f"{scenario.interval} s"
        lines.append(
            f"| {scenario.of.query} | {scenario.of.keys:,} | {scenario.of.groups:,} | {interval} | {scenario.ms / 1000:,.1f}"
            f" | {scenario.least / 1000:,.1f} to {scenario.most / 1000:,.1f}{unknown} | {said} |"
        )
    return [*lines, ""]


def breaking(model: Model, scenarios: Sequence[Scenario]) -> list[str]:
    """Return the resource that is exhausted first, for the number of key groups with the shortest interval."""
    lines = [
        "## What breaks first",
        "",
        "By query and number of keys, with the key groups of the shortest trigger interval. *Used*: 100 % is full. *Full at*:",
        "rows a second, with the same interval and cores. Assumed:",
        f"{NETWORK / 1e6:.0f} MB/s of network and {DISK / 1e9:.0f} GB of disk for each core,",
        f"{BLOCKS} ms for a shuffle block, {FILES:,} files a second for the checkpoint's store.",
        "",
    ]
    best: dict[tuple[str, int], Scenario] = {}
    for scenario in scenarios:
        place = (scenario.of.query, scenario.of.keys)
        if place not in best or _order(scenario) < _order(best[place]):
            best[place] = scenario
    for (query, keys), scenario in best.items():
        of = sizes(scenario.of)
        interval = f"every {scenario.interval} s" if scenario.interval else f"every {INTERVALS[-1]} s, and yet too slow"
        found = resources(model, scenario)
        lines += [
            f"### {query}, {keys:,} keys: {found[0].name}",
            "",
            f"{scenario.of.groups:,} key groups, {interval}. Bytes, counted: {of.crossing:.1f} for a cell over the shuffle and",
            f"{of.piece:,.0f} for each task that reads and key group, {of.kept:.1f} for a cell at rest, {of.written:.1f} written",
            f"for one that comes, {of.result:.1f} for a result. {_first(found)}",
            "",
            "| | needs in a micro-batch | used | full at, rows/s | known by |",
            "|---|---|---:|---:|---|",
        ]
        for each in found:
            full = "not by rows" if each.full_at is None else _millions(each.full_at)
            lines.append(f"| {each.name} | {each.needs} | {each.share:.0%} | {full} | {each.known} |")
        lines.append("")
    return lines


def _first(found: Sequence[Resource]) -> str:
    """Return in words which resource is exhausted first as the rate grows."""
    growing = [each for each in found if each.full_at is not None]
    first = min(growing, key=lambda one: one.full_at or 0.0, default=None)
    full = ", ".join(each.name for each in found if each.share >= 1)
    said = f"**Full: {full}.**" if full else "Nothing is full."
    return (
        said if first is None else f"{said} With more rows {first.name} come first, at {_millions(first.full_at or 0.0)} rows/s."
    )


def _order(one: Scenario) -> tuple[float, float]:
    return (one.interval or float("inf"), one.ms)


def _millions(value: float) -> str:
    """Format a number of millions with its significant digits."""
    return f"{float(f'{value:.2g}') / 1e6:,.10g} M"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == 0 else f"{value:.3g}"


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="benchmarks.model", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rate", type=float, default=10_000_000, help="rows a second that are asked for (default: %(default)s)")
    parser.add_argument("--cores", type=int, default=500)
    parser.add_argument("--keys", type=int, nargs="+", default=[1_000_000, 100_000_000])
    parser.add_argument("--per-core", type=int, nargs="+", default=[1, 2, 4], metavar="N", help="key groups for each core")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where groups.json is")
    parser.add_argument("--write", action="store_true", help="keep the page beside it, in model.md")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Read, fit, print, and with ``--write`` save the page."""
    options = parse(arguments)
    text = "\n".join(page(Kept.read(options.results / "groups.json"), options))
    print(text)
    if options.write:
        (options.results / "model.md").write_text(text)


if __name__ == "__main__":
    main()
