"""Show the time of each part of a micro-batch: ``python -m benchmarks.breakdown --case sliding --rows 1000000``.

Run panestream once with Spark's event log, and read Spark's own reports: the phases of each micro-batch, the tasks of its two
stages, and the time of each operator of the plan in them. Figures are medians over the steady micro-batches. Tasks of one stage
run in parallel and parts of a task overlap (Python works while the JVM reads), so parts do not add up to wall time.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.catalog import CASES, case_of
from benchmarks.events import EventSpec
from benchmarks.flink.workloads import WORKLOADS
from benchmarks.harness import Run, measure, warm_up_batches
from benchmarks.run import machine

PHASES = ("latestOffset", "getBatch", "queryPlanning", "walCommit", "addBatch", "commitOffsets")
"""The phases of a micro-batch in order, with Spark's names. ``addBatch`` is the job and its planning."""
OPERATORS = {
    ("MapInArrow", 0): "pack",
    ("TransformWithStateInPySpark", 1): "operate",
    ("MapInArrow", 1): "unpack",
}
"""The function of ours that an operator of the plan runs, by the operator's name and stage."""
PARTS = (
    "scan time",
    "time to start Python workers",
    "time to execute Python code",
    "shuffle write time",
    "fetch wait time",
    "time to update",
    "time to commit changes",
    "RocksDB: load - time taken to load the store",
    "RocksDB: commit - changelog commit time",
)


@dataclass(slots=True)
class Batch:
    """One micro-batch in the event log.

    Attributes:
        stages: duration in ms by step. Step 0 is pack, and step 1 is operate.
        tasks: milliseconds of each task from launch to end, by stage.
        metrics: the tasks' values in ms, by (stage, operator, metric).
    """

    stages: dict[int, float] = field(default_factory=dict)
    tasks: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    metrics: dict[tuple[int, str, str], list[float]] = field(default_factory=lambda: defaultdict(list))


def events(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines of an event log, uncompressed."""
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.name.startswith("events")):
        with path.open(encoding="utf-8") as lines:
            yield from map(json.loads, lines)


def batches(folder: Path) -> list[Batch]:
    """Return the micro-batches with data, in order."""
    named: dict[int, tuple[str, str]] = {}
    stage_of: dict[int, tuple[int, int]] = {}
    found: dict[int, Batch] = {}
    for event in events(folder):
        kind = event["Event"].rsplit(".", 1)[-1]
        if kind == "SparkListenerSQLExecutionStart":
            _name(event["sparkPlanInfo"], named)
        elif kind == "SparkListenerJobStart" and "streaming.sql.batchId" in event["Properties"]:
            number = int(event["Properties"]["streaming.sql.batchId"])
            found.setdefault(number, Batch())
            stage_of.update({stage: (number, step) for step, stage in enumerate(sorted(event["Stage IDs"]))})
        elif kind == "SparkListenerStageCompleted" and event["Stage Info"]["Stage ID"] in stage_of:
            info = event["Stage Info"]
            number, step = stage_of[info["Stage ID"]]
            found[number].stages[step] = info["Completion Time"] - info["Submission Time"]
        elif kind == "SparkListenerTaskEnd" and event["Stage ID"] in stage_of:
            number, step = stage_of[event["Stage ID"]]
            _task(event, step, found[number], named)
    return [batch for _, batch in sorted(found.items())]


def _name(plan: dict[str, Any], named: dict[int, tuple[str, str]]) -> None:
    for metric in plan["metrics"]:
        named[metric["accumulatorId"]] = plan["nodeName"], metric["metricType"]
    for child in plan["children"]:
        _name(child, named)


def _task(event: dict[str, Any], step: int, batch: Batch, named: dict[int, tuple[str, str]]) -> None:
    info = event["Task Info"]
    batch.tasks[step].append(info["Finish Time"] - info["Launch Time"])
    for each in info.get("Accumulables", ()):
        if each.get("Name") in PARTS and each["ID"] in named:
            operator, kind = named[each["ID"]]
            scale = 1e-6 if kind == "nsTiming" else 1
            batch.metrics[step, OPERATORS.get((operator, step), operator), each["Name"]].append(float(each["Update"]) * scale)


def table(counted: Sequence[Batch], phases: Sequence[dict[str, int]]) -> list[str]:
    """Return phases, stages and parts in Markdown."""

    def median(values: Sequence[float]) -> str:
        return f"{statistics.median(values):,.0f}"

    whole = [sum(phase.get(name, 0) for name in PHASES) for phase in phases]
    lines = ["| of a micro-batch | ms |", "|---|---:|", f"| all | {median(whole)} |"]
    lines += [f"| {name} | {median([phase.get(name, 0) for phase in phases])} |" for name in PHASES]
    for step, title in enumerate(("stage 1: source, pack, shuffle write", "stage 2: shuffle read, operate, unpack, sink")):
        lines.append(f"| *{title}* | {median([batch.stages[step] for batch in counted])} |")
        lines.append(f"| its longest task | {median([max(batch.tasks[step]) for batch in counted])} |")
        for key in dict.fromkeys(key for batch in counted for key in batch.metrics if key[0] == step):
            slowest = [max(batch.metrics[key]) for batch in counted if key in batch.metrics]
            if statistics.median(slowest) >= 1:
                lines.append(f"| … {key[1]}: {key[2]} | {median(slowest)} |")
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    """Run it and print the table."""
    parser = argparse.ArgumentParser(prog="benchmarks.breakdown", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--case", choices=[*CASES, *WORKLOADS], default="sliding")
    parser.add_argument("--rows", type=int, default=1_000_000, help="of a micro-batch (default: %(default)s)")
    parser.add_argument("--steady", type=int, default=5, help="micro-batches that count (default: %(default)s)")
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--data", default=str(Path(tempfile.gettempdir()) / "panestream-benchmark"))
    options = parser.parse_args(arguments)
    case = case_of(options.case)
    bare = EventSpec(options.rows, 1, options.keys, case.rate, 1000, options.cores)
    warm = warm_up_batches(bare, case)
    spec = EventSpec(options.rows, warm + options.steady, options.keys, case.rate, 1000, options.cores)
    with tempfile.TemporaryDirectory() as log:
        settings = {"spark.eventLog.enabled": "true", "spark.eventLog.compress": "false", "spark.eventLog.dir": f"file:{log}"}
        result = measure(Run("panestream", options.case, spec, options.data, options.cores, settings))
        counted = batches(Path(log))[warm : warm + options.steady]
    about = machine()
    print(f"# {options.case}, {options.rows:,} rows a batch: {result.median:,.0f} rows/s\n")
    print(f"- Machine: {about['cpu']}, {about['cores']} cores, {about['memory_gb']} GB, {about['system']};")
    print(f"  load {about['load_at_start']}. Python {about['python']}, Spark {result.spark}, Java {result.java},")
    print(f"  pyarrow {about['pyarrow']}; `local[{options.cores}]`,")
    print(f"  {options.keys:,} keys. Medians over {options.steady} micro-batches, of the slower task where there are several.\n")
    print("\n".join(table(counted, result.phases[warm : warm + options.steady])))


if __name__ == "__main__":
    main()
