"""Hot items of real clicks through a real Kafka, panestream and native ``window()`` in turn.

``python -m benchmarks.kafka.run --help``. Needs the environment of the connectors' tests, and the data set (../shared/data, or
PANESTREAM_DATA): ``make bench-kafka``.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyspark

from benchmarks.kafka.measure import BEHIND, SIZE, SLIDE, WARM_UP, Measured, Run
from benchmarks.processes import ask
from scripts.kafka_broker import Broker, make_topics

ROOT = Path(__file__).resolve().parents[2]
CONTESTANTS = ("panestream", "native", "source")
PARTITIONS = 4
COPY_SECONDS = 3 * 3600
"""The clicks of two hours are repeated, each time this much later."""


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="benchmarks.kafka.run", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--copies", type=int, default=40, help="of the 98,361 page views (default: %(default)s)")
    parser.add_argument("--records-per-batch", type=int, default=500_000, help="(default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="how often each contestant runs (default: %(default)s)")
    parser.add_argument("--contestants", nargs="+", choices=CONTESTANTS, default=list(CONTESTANTS))
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("PANESTREAM_DATA", ROOT.parent / "shared" / "data")))
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    return parser.parse_args(arguments)


def clicks(options: argparse.Namespace) -> Iterator[tuple[int, bytes]]:
    """Yield partition and value of each record. The last partition is late: its clicks are an hour old."""
    views = []
    with gzip.open(options.data / "taobao_userbehavior_2h_sorted.csv.gz", "rt") as lines:
        for line in lines:
            user, item, _, behavior, second = line.rstrip("\n").split(",")
            if behavior == "pv":
                views.append((user, item, int(second)))
    for copy in range(options.copies):
        for number, (user, item, at) in enumerate(views):
            partition = number % PARTITIONS
            time = at + copy * COPY_SECONDS - (BEHIND if partition == PARTITIONS - 1 else 0)
            yield partition, f'{{"user": {user}, "item": {item}, "at": {time}}}'.encode()


def fill(broker: Broker, options: argparse.Namespace) -> tuple[int, int]:
    """Write the topic. Return its number of records, and the second up to which every contestant has all windows."""
    from confluent_kafka import Producer

    make_topics(broker, [f"clicks:{PARTITIONS}"])
    producer = Producer({"bootstrap.servers": broker.servers, "linger.ms": 20, "queue.buffering.max.messages": 1_000_000})
    count = last = 0
    for partition, value in clicks(options):
        while True:
            try:
                producer.produce("clicks", value, partition=partition)
                break
            except BufferError:
                producer.poll(0.1)
        count += 1
        last = max(last, int(value.rpartition(b":")[2].rstrip(b"}")))
    producer.flush()
    # The late partition has the slowest watermark, and the other contestant's watermark has the same delay.
    return count, last - BEHIND - 3600


def run_once(run: Run) -> Measured:
    """Run one contestant in a separate process.

    Raises:
        RuntimeError: it failed.
    """
    return Measured(**ask("benchmarks.kafka.measure", json.dumps(asdict(run))))


def compare(measured: Sequence[Measured]) -> None:
    """Check that panestream and Spark's own windows have the same results.

    Raises:
        AssertionError: they have not.
    """
    answers = {(each.contestant, each.rows, each.views) for each in measured if each.contestant != "source"}
    if len({answer[1:] for answer in answers}) > 1:
        raise AssertionError(f"the contestants differ: {sorted(answers)}")


def report(measured: Sequence[Measured], count: int, options: argparse.Namespace, load: float) -> str:
    """Return the whole result in Markdown."""
    lines = [
        "# Clicks through Kafka",
        "",
        f"Page views by item, windows of {SIZE} every {SLIDE}, from a topic of {PARTITIONS} partitions, the last of which is an",
        f"hour behind; {count:,} records of JSON, {options.records_per_batch:,} a micro-batch, {options.rounds} rounds by turns,",
        f"{options.cores} cores, broker and Spark on one machine (load at the start {load}). Micro-batches from number {WARM_UP}",
        f"on count. Spark {pyspark.__version__}, Python {platform.python_version()}, {datetime.now(timezone.utc):%Y-%m-%d}.",
        "",
        f"Native `window()` has one watermark for all partitions: it waits {BEHIND + 5} s, or the last partition would be late.",
        "panestream has one for each, and waits 5 s. `source` reads and decodes only.",
        "",
        "| contestant | records/s | rounds | panestream ÷ it |",
        "|---|---:|---:|---:|",
    ]
    rates = {name: [each.median for each in measured if each.contestant == name] for name in options.contestants}
    for name, medians in rates.items():
        ratio = ""
        if name != "panestream" and "panestream" in rates:
            ratio = f"{statistics.median(rates['panestream']) / statistics.median(medians):.2f}"
        lines.append(f"| {name} | {statistics.median(medians):,.0f} | {min(medians):,.0f} to {max(medians):,.0f} | {ratio} |")
    answer: Any = next((each for each in measured if each.contestant != "source"), None)
    if answer is not None:
        lines += [
            "",
            f"Results of windows that all had to have in full: {answer.rows:,} rows, {answer.views:,} views, the same of both.",
        ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Fill a topic, run all contestants in turn, and write ``kafka.md`` and ``kafka.json``."""
    options, load = parse(), round(os.getloadavg()[0], 2)
    measured: list[Measured] = []
    with tempfile.TemporaryDirectory(prefix="kafka-", ignore_cleanup_errors=True) as folder:
        broker = Broker(Path(folder), memory="1g")
        broker.start()
        try:
            count, until = fill(broker, options)
            print(f"{count:,} records in {PARTITIONS} partitions", flush=True)
            for number in range(options.rounds):
                for contestant in options.contestants:
                    one = run_once(Run(contestant, broker.servers, "clicks", options.records_per_batch, until, options.cores))
                    print(f"  round {number + 1}  {contestant:10s} {one.median:>12,.0f} records/s", flush=True)
                    measured.append(one)
        finally:
            broker.stop()
    compare(measured)
    text = report(measured, count, options, load)
    (options.results / "kafka.md").write_text(text)
    (options.results / "kafka.json").write_text(json.dumps([asdict(each) for each in measured], indent=1) + "\n")
    print(text)


if __name__ == "__main__":
    main()
