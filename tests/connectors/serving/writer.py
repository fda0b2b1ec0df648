"""A process that writes micro-batches to a store by a sink, without Spark, so that it can be killed hundreds of times.

It runs this file (``python -m tests.connectors.serving.writer KIND ADDRESS NAME FOLDER``), and forks a writer for each run. The
rows of a micro-batch depend only on its number. ``FOLDER/committed`` has the last committed one, as Spark's checkpoint would.
"""

from __future__ import annotations

import os
import random
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

import panestream as pst
from panestream.spark.checkpoint.epoch import Epoch
from panestream.spark.sinks.base import QueryRunInfo

CHANGES, KEYS = 2500, 4000


@dataclass
class Rows:
    """Rows in place of a DataFrame."""

    table: pa.Table
    sparkSession: object = None  # noqa: N815 (Spark's name)

    def toArrow(self):  # noqa: N802 (Spark's name)
        return self.table

    def limit(self, number):
        return Rows(self.table.slice(0, number))


class LocalEpoch(Epoch):
    """A run whose checkpoint notices no other copy: only the fence in the store does."""

    def check(self, spark):
        pass


def rows(**columns):
    return Rows(pa.table(columns))


def run_of(number=1, query="q", others=(), **more):
    return QueryRunInfo(query, epoch=LocalEpoch("/c", number, "ab"), queries=frozenset({query, *others}), **more)


def changes_of(batch):
    """Return the keys, values and operations of a micro-batch."""
    numbers = random.Random(batch)
    keys = numbers.sample(range(KEYS), CHANGES)
    return keys, [batch] * CHANGES, [numbers.choice(["insert", "update_after", "delete"]) for _ in keys]


def rows_after(last):
    """Return the rows of the store after the micro-batches 0 to ``last``."""
    found = {}
    for batch in range(last + 1):
        for key, value, op in zip(*changes_of(batch), strict=True):
            if op == "delete":
                found.pop(key, None)
            else:
                found[key] = value
    return found


def committed(folder: Path) -> int:
    path = folder / "committed"
    return int(path.read_text()) if path.exists() else -1


def make(kind, address, name):
    kinds = {"postgres": pst.sinks.PostgresSink, "redis": pst.sinks.RedisSink}
    return kinds[kind](address, name, keys=["key"], password_variable="SERVING_PASSWORD")


def write(kind, address, name, folder, run, last) -> None:
    """Write micro-batches from the first uncommitted one to ``last``."""
    begin = committed(folder) + 1
    sink = make(kind, address, name).open(None, run_of(run, written=begin > 0, began=begin - 1))
    for batch in range(begin, last + 1):
        given = rows(**dict(zip(("key", "value", "op"), changes_of(batch), strict=True)))
        if batch == begin:
            sink.begin(given, batch)
            (folder / f"ready-{run}").touch()
        sink.write(given, batch)
        temporary = folder / f"committed-{run}"
        temporary.write_text(str(batch))
        temporary.replace(folder / "committed")


def main() -> None:
    """Fork a writer for each line of the input, and print its process id. Starting Python anew would take most of the time."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    kind, address, name, folder = *sys.argv[1:4], Path(sys.argv[4])
    make(kind, address, name).check_columns(["key"])
    for line in sys.stdin:
        run, last = map(int, line.split())
        process = os.fork()
        if not process:
            outcome = "done"
            try:
                write(kind, address, name, folder, run, last)
            except Exception as error:  # noqa: BLE001 (the test judges the outcome)
                outcome = f"{type(error).__name__}: {error}"
            (folder / f"outcome-{run}").write_text(outcome)
            os._exit(0)
        print(process, flush=True)


if __name__ == "__main__":
    main()
