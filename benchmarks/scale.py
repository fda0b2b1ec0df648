"""The model's prediction for a cluster: the trigger's interval, and the resource that is exhausted first.

It distinguishes figures that were measured on few cores, figures that were counted, and assumptions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pyarrow as pa

from benchmarks.catalog import SUM_COUNT_CASES
from benchmarks.fitting import Model, Work
from benchmarks.groups import Configuration
from benchmarks.pane_profile import Case, chunk_of, plan_of, sliding
from panestream.engine.exchange.group_run import bodies, run_micro_batch
from panestream.engine.exchange.packing import PackColumns, pack
from panestream.engine.storage.state import MemoryState

INTERVALS = (1, 2, 5, 10, 20, 30, 60, 120, 300)
"""Intervals of the trigger in seconds."""
BUSY = 0.7
"""The maximum share of the interval for a micro-batch. A query with a larger share never catches up after a pause."""
NETWORK = 50e6
"""Bytes a second for each core (assumed): 10 Gbit/s for 16 cores, with a utilization of two thirds."""
DISK = 4e9
"""Bytes of state for each core (assumed): a disk of 64 GB for 16 cores."""
BLOCKS = 0.1
"""Milliseconds for a shuffle block from another machine (assumed)."""
MOST_RATE = 5_000
"""Rows a second of event time of a key group, over which bytes are counted."""
FILES = 3_500
"""Files a second that an object store accepts below one prefix (Amazon's figure for S3)."""


@dataclass(frozen=True)
class Sizes:
    """Bytes counted by the engine alone, the same on every machine.

    Attributes:
        crossing: of a cell that crosses the shuffle.
        piece: of a reading task's message to a key group, without its cells: a report, and the frame of the cells.
        kept: of a stored cell, including sums of several panes.
        written: to the checkpoint, for each cell that crossed.
        result: of a result of a key group.
    """

    crossing: float
    piece: float
    kept: float
    written: float
    result: float


def sizes(of: Configuration) -> Sizes:
    """Count the bytes of a key group of the configuration, with as many rows for a key, but fewer keys and rows."""
    keys, rate = of.keys / of.groups, of.rate / of.groups
    less = min(1.0, MOST_RATE / rate)
    # Keys have the same range as in a key group, because the number of bits of an integer matters.
    return _counted(of.query, max(1, round(keys * less)), max(1, round(rate * less)), max(1, of.keys // round(keys * less + 1)))


@cache
def _counted(query: str, keys: int, rate: int, apart: int, seconds: int = 2) -> Sizes:
    asked = SUM_COUNT_CASES[query]
    case = Case(query, sliding(asked.size_ms // 1000, asked.slide_ms // 1000))
    plan = plan_of(case)
    state, columns = MemoryState(), PackColumns((pa.int64(),), (pa.int64(),) * len(plan.operator.inputs))
    fill, slide = asked.size_ms // 1000 // seconds + 2, asked.slide_ms * 1000
    crossed = crossing = piece = written = results = leaving = kept = 0
    for number in range(fill + 10):
        chunk = chunk_of(case, plan, seconds * rate, keys, rate, number)
        key = pa.array(chunk.keys[0].to_numpy() * apart)
        batch = pa.RecordBatch.from_arrays([pa.array(chunk.times), key, *chunk.values], _names(2 + len(chunk.values)))
        parts = [part for _, part in pack(plan, columns, [batch])]
        piece = piece or sum(len(part.body) for _, part in pack(plan, columns, [batch.slice(0, 1)]))
        output = run_micro_batch(plan, state, 0, parts)
        if number >= fill:
            crossed += len(np.unique(np.asarray(chunk.times) // slide * keys + chunk.keys[0].to_numpy()))
            crossing += sum(len(part.body) for part in parts) - piece
            written += output.metrics.bytes_written
            results += output.metrics.fired_rows
            leaving += sum(len(body) for _, body in bodies(output))
            kept = max(kept, sum(map(len, state.values.values())))
    at_rest = Work.of(Configuration(query, seconds * rate, keys, 1, 1, rate, 1)).kept
    return Sizes(crossing / crossed, piece, kept / at_rest, written / crossed, leaving / max(results, 1))


def _names(many: int) -> list[str]:
    return [str(place) for place in range(many)]


@dataclass(frozen=True)
class Cluster:
    """The cluster in question.

    Attributes:
        cores: of all executors, and also the number of tasks that read the source.
        rate: rows a second, in event time and by the clock.
        driver: milliseconds of the driver for a task.
    """

    cores: int
    rate: float
    driver: float


def configuration(query: str, cluster: Cluster, keys: int, groups: int, interval: float) -> Configuration:
    """Return a micro-batch of a trigger's interval."""
    rows, rate = round(cluster.rate * interval), round(cluster.rate)
    return Configuration(query, rows, keys, cluster.cores, cluster.cores, rate, groups)


def tasks(of: Configuration) -> int:
    """Return the number of tasks of a micro-batch: those that read, store state, and write a large output."""
    return of.files + 2 * min(of.cores, of.groups)


def total_ms(model: Model, of: Configuration, cluster: Cluster) -> float:
    """Return the milliseconds of a micro-batch with the driver's part."""
    return model.ms(of) + tasks(of) * cluster.driver


def interval_for(at: Callable[[float], float]) -> int | None:
    """Return the shortest interval of the trigger in which the micro-batch finishes, or None if it never does.

    Args:
        at: seconds of a micro-batch, by interval.
    """
    return next((seconds for seconds in INTERVALS if at(seconds) <= BUSY * seconds), None)


@dataclass(frozen=True)
class Scenario:
    """A question, and the model's answer.

    Attributes:
        of: the micro-batch at the trigger's interval.
        cluster: the cluster.
        interval: the trigger's interval in seconds. None if the query does not keep up at any, and ``of`` is at the longest.
        ms: the duration of the micro-batch.
        least, most: the range over other models that are as good.
        parts: by term, and the driver's part.
    """

    of: Configuration
    cluster: Cluster
    interval: int | None
    ms: float
    least: float
    most: float
    parts: Mapping[str, float]

    @classmethod
    def of_model(cls, model: Model, others: Sequence[Model], query: str, cluster: Cluster, keys: int, groups: int) -> Scenario:
        """Predict with the model, and with other models that are as good for the range."""

        def at(interval: float) -> Configuration:
            return configuration(query, cluster, keys, groups, interval)

        chosen = interval_for(lambda interval: total_ms(model, at(interval), cluster) / 1000)
        one = at(chosen or INTERVALS[-1])
        spread = [total_ms(other, one, cluster) for other in others]
        parts = {**model.parts(one), "driver's tasks": tasks(one) * cluster.driver}
        return cls(one, cluster, chosen, total_ms(model, one, cluster), min(spread), max(spread), parts)


@dataclass(frozen=True)
class Resource:
    """A resource that may be exhausted first.

    Attributes:
        name: its name.
        known: the origin of the figure: measured, counted or assumed.
        needs: the need of a micro-batch, and its available time, in words.
        share: the used share, with 1 for a full resource.
        full_at: the rows a second at which it is full at this interval, or None if rows alone cannot exhaust it.
    """

    name: str
    known: str
    needs: str
    share: float
    full_at: float | None


def resources(model: Model, scenario: Scenario) -> list[Resource]:
    """Return all resources, the fullest first."""
    interval = scenario.of.rows / scenario.of.rate
    found = []
    for name, (known, share, needs) in _resources(model, scenario.cluster, scenario.of).items():

        def used(rate: float, share: Callable[[Configuration], float] = share) -> float:
            cluster, of = replace(scenario.cluster, rate=rate), scenario.of
            return share(configuration(of.query, cluster, of.keys, of.groups, interval))

        found.append(Resource(name, known, needs(scenario.of), share(scenario.of), _full_at(used)))
    return sorted(found, key=lambda resource: -resource.share)


def _full_at(share: Callable[[float], float]) -> float | None:
    """Return the rate at which a growing share reaches 1, or None.

    It searches from a thousand to a hundred billion rows a second.
    """
    low, high = 3.0, 11.0
    if share(10**high) < 1 or share(10**low) >= 1:
        return None
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if share(10**middle) >= 1 else (middle, high)
    return float(10**high)


Judged = tuple[str, Callable[[Configuration], float], Callable[[Configuration], str]]


def _resources(model: Model, cluster: Cluster, asked: Configuration) -> dict[str, Judged]:
    interval = asked.rows / asked.rate
    each = sizes(asked)

    def processors(of: Configuration) -> float:
        # The fixed part of a micro-batch does not use the executors' cores.
        return (model.ms(of) - model.parts(of)["micro-batch"]) / 1000 / interval

    def crossing(of: Configuration) -> float:
        return Work.of(of).cells * each.crossing + Work.of(of).payloads * each.piece

    def out(of: Configuration) -> float:
        return Work.of(of).results * each.result / of.cores / interval / NETWORK

    def rest(of: Configuration) -> float:
        # Count whole key groups of a core.
        return Work.of(of).kept * each.kept / of.groups * math.ceil(of.groups / of.cores) / DISK

    def blocks(of: Configuration) -> float:
        return of.files * math.ceil(of.groups / of.cores) * BLOCKS / 1000 / interval

    return {
        "executors' cores": (
            "measured on few cores",
            processors,
            lambda of: f"{1000 * processors(of) * interval:,.0f} ms of each core",
        ),
        "driver's scheduling": (
            "measured in one process",
            lambda of: tasks(of) * cluster.driver / 1000 / interval,
            lambda of: f"{tasks(of):,} tasks, one after another",
        ),
        "shuffle, bytes": (
            "bytes counted, network assumed",
            lambda of: crossing(of) / of.cores / interval / NETWORK,
            lambda of: f"{crossing(of) / 1e9:,.2f} GB, {Work.of(of).cells / of.rows:.2f} cells a row",
        ),
        "shuffle, blocks": (
            "blocks counted, cost assumed",
            blocks,
            lambda of: f"{of.files * of.groups:,} blocks",
        ),
        "results": (
            "bytes counted, network assumed",
            out,
            lambda of: f"{Work.of(of).results / interval:,.0f} a second, {Work.of(of).results / of.rows:.1f} a row that comes",
        ),
        "state of a core": (
            "bytes counted, disk assumed",
            rest,
            lambda of: f"{Work.of(of).kept * each.kept / of.cores / 1e9:,.3f} GB of {DISK / 1e9:.0f}",
        ),
        "files of the checkpoint": (
            "files counted, store as its maker says",
            lambda of: of.groups / interval / FILES,
            lambda of: f"{of.groups / interval:,.0f} a second",
        ),
    }
