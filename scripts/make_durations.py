"""Write a table of the costs of tests: ``python scripts/make_durations.py FOLDER PAGE``.

The folder has JSON files from tests/costs.py, one for each part of the run.
"""

from __future__ import annotations

import json
import os
import sys
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timezone
from pathlib import Path

FILES = 60
TESTS = 40
COLUMNS = ("seconds", "queries", "jobs", "jvms")

Costs = dict[str, float]


def main(folder: Path, page: Path) -> None:
    """Read the costs and write the page."""
    tests: dict[str, Costs] = {}
    for path in sorted(folder.glob("*.json")):
        tests |= json.loads(path.read_text("utf-8"))
    files: dict[str, Costs] = defaultdict(lambda: dict.fromkeys(("tests", *COLUMNS), 0.0))
    for name, costs in tests.items():
        own = files[name.partition("::")[0]]
        own["tests"] += 1
        for column in COLUMNS:
            own[column] += costs[column]
    total = {column: sum(own[column] for own in files.values()) for column in ("tests", *COLUMNS)}
    when = datetime.now(tz=timezone.utc).date().isoformat()
    head = f"""\
# What the tests cost

`make test-durations` wrote this on {when}, on {os.cpu_count()} cores with two processes.
Seconds are those of the process that ran a test, so they add up to twice the time by the clock.

In all: {total["tests"]:,.0f} tests, {total["seconds"]:,.0f} s, {total["queries"]:,.0f} streaming queries,
{total["jobs"]:,.0f} Spark jobs, {total["jvms"]:,.0f} JVMs.
"""
    lines = [head, f"## The {FILES} slowest files", "", *table("file", files.items(), FILES, ("tests", *COLUMNS))]
    lines += ["", f"## The {TESTS} slowest tests", "", *table("test", tests.items(), TESTS, COLUMNS)]
    page.write_text("\n".join(lines) + "\n", "utf-8")
    print(f"wrote {page}")


def table(what: str, rows: Iterable[tuple[str, Costs]], most: int, columns: tuple[str, ...]) -> list[str]:
    """Return the rows that took longest as a table."""
    slowest = sorted(rows, key=lambda row: -row[1]["seconds"])[:most]
    lines = [f"| {what} | {' | '.join(columns)} |", f"|---|{'---:|' * len(columns)}"]
    return lines + [
        f"| {name.replace('|', '/')} | {' | '.join(f'{costs[column]:,.0f}' for column in columns)} |" for name, costs in slowest
    ]


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
