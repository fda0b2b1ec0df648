"""The time until a killed query resumes, by the size of its state. ``python -m benchmarks.recovery --help``.

From the start of the process (Python, Java, a session, the query, its state read) until the first micro-batch is committed, seen
from outside by the file in ``commits``:

``new``
    A new checkpoint without any state. It shows the cost of a start itself.
``after a stop``
    The checkpoint of a run that ended normally, with a file of ten rows to read.
``after a kill``
    ``kill -9`` of all processes when the next micro-batch was planned and not committed. The time ends when it is committed.

Beside panestream's tumbling windows runs native ``window()``: the same rows, the same aggregate (the largest of a text of 1 kB
for each key and window), the same settings, so that both keep as many windows of the same content. No window closes.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import psutil

import panestream as pst
from benchmarks.run import HERE, machine
from panestream import agg

ROOT = HERE.parent
CONTESTANTS = ("panestream", "native")
WAYS = ("new", "after a stop", "after a kill")
SCHEMA = "user bigint, ts timestamp, text string"
BUILDING = 4
"""The number of micro-batches that make the state."""
LONGEST_SECONDS = 600
SETTINGS = {"spark.ui.enabled": "false", "spark.driver.memory": "4g", "spark.sql.session.timeZone": "UTC"}


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="benchmarks.recovery", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--megabytes", nargs="+", type=int, default=[10, 100, 1000], help="of state (default: 10 100 1000)")
    parser.add_argument("--rounds", type=int, default=2, help="of each figure; the table has the medians (default: %(default)s)")
    parser.add_argument("--groups", type=int, default=2, help="key groups, and state partitions of native Spark (default: 2)")
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--contestants", nargs="+", choices=CONTESTANTS, default=[*CONTESTANTS])
    parser.add_argument("--data", type=Path, default=HERE / ".data" / "recovery")
    parser.add_argument("--results", type=Path, default=HERE / "results")
    parser.add_argument("--life", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def _session(options: argparse.Namespace) -> Any:
    settings = {**SETTINGS, "spark.sql.shuffle.partitions": str(options.groups)}
    spark = pst.build_session("recovery", settings, master=f"local[{options.cores}]")
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _write(options: argparse.Namespace, folder: Path, sizes: Sequence[int]) -> None:
    """Write a file for each size, with separate users in each file."""
    from pyspark.sql import functions as F

    spark, first = _session(options), 0
    for number, size in enumerate(sizes):
        rows = spark.range(first, first + size, 1, 4)
        text = F.concat(*(F.sha2(F.concat(F.col("id").cast("string"), F.lit(f"-{part}")), 512) for part in range(8)))
        rows = rows.select(F.col("id").alias("user"), F.timestamp_seconds(F.lit(1_767_225_600)).alias("ts"), text.alias("text"))
        rows.coalesce(1).write.mode("overwrite").parquet(str(folder / f"{number:03}"))
        first += size
    spark.stop()


def _live(options: argparse.Namespace) -> None:
    """Run a query over all available input, in this process."""
    told = json.loads(options.life)
    work, spark = Path(told["work"]), _session(options)
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(f"{told['rows']}/*")
    if told["contestant"] == "panestream":
        keyed = pst.stream(stream).assign_timestamps("ts", pst.WatermarkStrategy.for_bounded_out_of_orderness("1 day"))
        windowed = keyed.key_by("user").window(pst.TumblingEventTimeWindows.of("10 seconds")).options(key_groups=options.groups)
        result = windowed.aggregate(agg.max("text").alias("text"))
        result.start(checkpoint=str(work / "checkpoint"), main=pst.ParquetSink(str(work / "out"))).await_termination()
    else:
        from pyspark.sql import functions as F

        for name, value in pst_settings().items():
            spark.conf.set(name, value)
        rows = stream.withWatermark("ts", "1 day").groupBy(F.window("ts", "10 seconds"), "user").agg(F.max("text").alias("text"))
        writer = rows.writeStream.format("parquet").option("path", str(work / "out")).outputMode("append")
        writer.option("checkpointLocation", str(work / "checkpoint")).trigger(availableNow=True).start().awaitTermination()
    spark.stop()


def pst_settings() -> dict[str, str]:
    """Return the settings of a query under ``result.start``, so that native Spark gets them too."""
    from panestream.spark.session import STREAM_SETTINGS

    return dict(STREAM_SETTINGS)


def _start(options: argparse.Namespace, told: dict[str, str]) -> subprocess.Popen[bytes]:
    work = Path(told["work"])
    work.mkdir(parents=True, exist_ok=True)
    arguments = [f"--groups={options.groups}", f"--cores={options.cores}", f"--life={json.dumps(told)}"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")])}
    with (work / "log").open("ab") as log:
        command = [sys.executable, "-m", "benchmarks.recovery", *arguments]
        return subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)


def _end(process: subprocess.Popen[bytes], told: dict[str, str]) -> None:
    """Wait for the end."""
    if process.wait(LONGEST_SECONDS):
        raise RuntimeError(f"{told} ended with {process.returncode}: {(Path(told['work']) / 'log').read_text()[-2000:]}")


def _kill(process: subprocess.Popen[bytes]) -> None:
    everyone = [*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)]
    for each in everyone:
        try:
            each.send_signal(signal.SIGKILL)
        except psutil.NoSuchProcess:
            continue
    process.wait(60)


def _there(process: subprocess.Popen[bytes], file: Path, told: dict[str, str]) -> None:
    """Wait until a file exists."""
    deadline = time.monotonic() + LONGEST_SECONDS
    while not file.exists():
        if time.monotonic() > deadline or (process.poll() is not None and not file.exists()):
            raise RuntimeError(f"{told}: {file.name} did not come: {(Path(told['work']) / 'log').read_text()[-2000:]}")
        time.sleep(0.005)


def _seconds(options: argparse.Namespace, told: dict[str, str], batch: int) -> float:
    """Return the seconds from the start of the process until this micro-batch is committed."""
    began = time.perf_counter()
    process = _start(options, told)
    _there(process, Path(told["work"]) / "checkpoint" / "commits" / str(batch), told)
    took = time.perf_counter() - began
    _end(process, told)
    return took


def _killed(options: argparse.Namespace, told: dict[str, str], batch: int) -> None:
    """Run a query that is killed when this micro-batch is planned and not committed."""
    process = _start(options, told)
    _there(process, Path(told["work"]) / "checkpoint" / "offsets" / str(batch), told)
    _kill(process)
    if (Path(told["work"]) / "checkpoint" / "commits" / str(batch)).exists():
        raise RuntimeError(f"{told}: micro-batch {batch} was committed before the kill")


def _more(few: Path, rows: Path, batch: int) -> None:
    """Add a file of ten rows."""
    shutil.copytree(few / f"{batch % 2:03}", rows / f"{batch:03}")


def _measure(options: argparse.Namespace, contestant: str, megabytes: int) -> dict[str, Any]:
    """Measure all figures of one contestant with a state of this size."""
    base, few = options.data, options.data / "few"
    work, rows = base / f"{contestant}-{megabytes}", base / f"rows-{contestant}-{megabytes}"
    for folder in (work, rows):
        shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(base / f"rows-{megabytes}", rows)
    told = {"contestant": contestant, "work": str(work), "rows": str(rows)}
    _end(_start(options, told), told)
    found: dict[str, list[float]] = {way: [] for way in WAYS}
    batch = BUILDING
    for number in range(options.rounds):
        _more(few, rows, batch)
        found["after a stop"].append(_seconds(options, told, batch))
        _more(few, rows, batch + 1)
        _killed(options, told, batch + 1)
        found["after a kill"].append(_seconds(options, told, batch + 1))
        batch += 2
        fresh = {**told, "work": f"{work}-new-{number}", "rows": str(few)}
        shutil.rmtree(fresh["work"], ignore_errors=True)
        found["new"].append(_seconds(options, fresh, 0))
        shutil.rmtree(fresh["work"])
    state = sum(each.stat().st_size for each in (work / "checkpoint" / "state").rglob("*") if each.is_file()) / 1e6
    for folder in (work, rows):
        shutil.rmtree(folder)
    return {"contestant": contestant, "megabytes": megabytes, "state_mb": round(state, 1), "seconds": found}


def _report(options: argparse.Namespace, about: dict[str, Any], points: Sequence[dict[str, Any]]) -> list[str]:
    """Return the table, with a description of the measurement."""
    settings = ", ".join(f"`{name}={value}`" for name, value in SETTINGS.items())
    lines = [
        "# Recovery time",
        "",
        "Seconds from the start of the process until the first micro-batch is committed: on a new checkpoint; after a run that",
        "ended in order; after `kill -9` of a run with a micro-batch planned and not committed (until that one is). Medians; in",
        "brackets all rounds.",
        "",
        f"- `make bench-recovery`, {about['date']}, {options.rounds} rounds, {options.groups} key groups or state partitions.",
        f"- {about['cpu']}, {about['cores']} cores, {about['memory_gb']} GB, {about['system']};",
        f"  load {about['load_at_start']} at the start, {os.getloadavg()[1]:.1f} at the end.",
        f"- Python {about['python']}, Spark {about['pyspark']}, pyarrow {about['pyarrow']}, {settings}.",
        "- A text of 1 kB for each key and window, the largest of each; the same rows for both. `state`: in the checkpoint.",
        "",
        f"| contestant | windows | state | {' | '.join(WAYS)} |",
        f"|---|---:|---:|{'---:|' * len(WAYS)}",
    ]
    for point in points:
        told = [
            f"{statistics.median(seconds):.1f} ({', '.join(f'{second:.1f}' for second in seconds)})"
            for seconds in (point["seconds"][way] for way in WAYS)
        ]
        windows, state = point["megabytes"] * 1000, point["state_mb"]
        lines.append(f"| {point['contestant']} | {windows:,} | {state:,.0f} MB | {' | '.join(told)} |")
    return lines


def _save(options: argparse.Namespace, about: dict[str, Any], points: Sequence[dict[str, Any]]) -> None:
    """Save the measurements so far, so that an interrupted run is still useful."""
    options.results.mkdir(parents=True, exist_ok=True)
    (options.results / "recovery.md").write_text("\n".join(_report(options, about, points)) + "\n")
    found = {"about": about, "rounds": options.rounds, "groups": options.groups, "settings": SETTINGS, "points": points}
    (options.results / "recovery.json").write_text(json.dumps(found, indent=1) + "\n")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print and write the table."""
    options = parse(arguments)
    if options.life:
        _live(options)
        return
    about = machine() | {"date": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")}
    _write(options, options.data / "few", [10, 10])
    points = []
    for megabytes in options.megabytes:
        _write(options, options.data / f"rows-{megabytes}", [megabytes * 1000 // BUILDING] * BUILDING)
        for contestant in options.contestants:
            points.append(_measure(options, contestant, megabytes))
            print(json.dumps(points[-1]), flush=True)
            _save(options, about, points)
        shutil.rmtree(options.data / f"rows-{megabytes}")
    shutil.rmtree(options.data)
    print("\n".join(_report(options, about, points)))


if __name__ == "__main__":
    main()
