"""The result of a campaign: a table on the screen, and files that add machine, versions, seed and date."""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime, timezone
from typing import Any

from benchmarks.run import machine
from tests.connectors import components
from tests.recovery.crashes.cells import Cell
from tests.recovery.crashes.places import SINKS
from tests.recovery.crashes.queries import QUERIES, ROWS
from tests.recovery.crashes.strikes import DRIVER, DRIVER_SAYS, KINDS
from tests.recovery.kill_loop import ROOT


def write_report(options: argparse.Namespace, cells: Sequence[Cell], skipped: Mapping[str, str], began: float) -> list[Cell]:
    """Print and write the result. Return the cells that failed, with how to repeat each."""
    failed = save(options, cells, skipped, began, ended=True)
    print("\n".join([*_table(cells, skipped), "", *_places(cells)]))
    for cell in failed:
        print(f"\nFAILED {cell.title}: {cell.difference}\nAgain: {_again(options, cell)}")
    print(f"\n{_struck(cells)} kills struck; {identical(cells)} of {tried(cells)} queries have the identical output")
    return failed


def save(
    options: argparse.Namespace, cells: Sequence[Cell], skipped: Mapping[str, str], began: float, *, ended: bool
) -> list[Cell]:
    """Write the results so far, marked as incomplete if the run is interrupted. Return the cells that failed."""
    # Unfinished cells were not compared. The result omits them, and their kills do not count.
    cells = [cell if ended or cell.difference is not None else replace(cell, struck=[]) for cell in cells]
    failed = [cell for cell in cells if cell.difference]
    lines = [*_table(cells, skipped), "", *_places(cells)]
    about, struck = _about(options, began) | {"ended": ended}, _struck(cells)
    options.results.mkdir(parents=True, exist_ok=True)
    head = _head(about, cells, skipped, struck)
    notes = [f"- **{cell.title}**: {cell.difference}. Again: `{_again(options, cell)}`" for cell in failed]
    (options.results / f"{options.name}.md").write_text(
        "\n".join([*head, *lines, *(["", "## Failed", "", *notes] if notes else [])]) + "\n"
    )
    found: dict[str, Any] = {**about, "struck": struck, "identical": identical(cells), "skipped": dict(skipped)}
    found["cells"] = [asdict(cell) for cell in cells]
    (options.results / f"{options.name}.json").write_text(json.dumps(found, indent=1) + "\n")
    return failed


def _struck(cells: Sequence[Cell]) -> int:
    return sum(len(cell.struck) for cell in cells)


def identical(cells: Sequence[Cell]) -> int:
    """Return how many cells have the expected output."""
    return sum(cell.difference == "" for cell in cells)


def tried(cells: Sequence[Cell]) -> int:
    """Return how many cells ran, without the kinds that were skipped or for which time ran out."""
    return sum(cell.difference is not None for cell in cells)


def _again(options: argparse.Namespace, cell: Cell) -> str:
    return f"make crash ARGS=\"{_dealt(options)} --only '{cell.title}' --keep FOLDER --results FOLDER\""


def _dealt(options: argparse.Namespace) -> str:
    """Return the options that set how many kills each cell gets."""
    chosen = "" if len(options.operators) == len(QUERIES) else f" --operators {' '.join(options.operators)}"
    chosen += "" if len(options.sinks) == len(SINKS) else f" --sinks {' '.join(options.sinks)}"
    chosen += "" if len(options.kinds) == len(KINDS) + 1 else f" --kinds {' '.join(options.kinds)}"
    files = "" if options.files == 6 else f" --files {options.files}"
    return f"--kills {options.kills} --seed {options.seed}{chosen}{files}"


def _about(options: argparse.Namespace, began: float) -> dict[str, Any]:
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "command": f'make crash ARGS="{_dealt(options)}"',
        "kinds": options.kinds,
        "operators": options.operators,
        "only": options.only,
        "seed": options.seed,
        "minutes": round((time.time() - began) / 60, 1),
        "commit": commit.stdout.strip(),
        "machine": machine(),
        "components": components.packages(),
        "sinks": options.sinks,
        "micro_batches": options.files,
        "rows_of_a_micro_batch": ROWS,
    }


def _head(about: Mapping[str, Any], cells: Sequence[Cell], skipped: Mapping[str, str], struck: int) -> list[str]:
    here = about["machine"]
    chosen = "" if set(about["kinds"]) == {DRIVER, *KINDS} and not about["only"] else ", a part of the kinds or cells"
    return [
        "# Real kills",
        "",
        f"**{struck} kills struck {sum(bool(cell.struck) for cell in cells)} queries; of {identical(cells)} of {tried(cells)} the output is",
        "identical** to that of an undisturbed run, firing numbers and all, and to the answer of the batch.",
        *([] if about["ended"] else ["", "The run was broken off before its end: this is what it had compared by then."]),
        "",
        f"- `{about['command']}`{chosen}, {about['date']}, {about['minutes']} minutes, commit {about['commit']}.",
        f"- {here['cpu']}, {here['cores']} cores, {here['memory_gb']} GB, {here['system']}; load {here['load_at_start']} at the end.",
        f"- Python {here['python']}, Spark {here['pyspark']}, pyarrow {here['pyarrow']};",
        f"  {', '.join(f'`{one}`' for one in about['components'].values())}.",
        f"- Each query: {about['micro_batches']} micro-batches of {about['rows_of_a_micro_batch']} rows, 2 key groups; late rows within the",
        "  allowed lateness, and too late ones (which go to `late`).",
        "- A kill counts where it struck: the driver was running its query; Spark's log tells of a task or an executor that was lost; the",
        "  query failed at the disk, by its own words; the clients lost the broker.",
        "",
        *(
            f"- *{kind}*: {says}."
            for kind, says in {DRIVER: DRIVER_SAYS, **{name: one.says for name, one in KINDS.items()}}.items()
        ),
        *(f"- Skipped: *{kind}*: {reason}." for kind, reason in skipped.items()),
        "",
    ]


def _table(cells: Sequence[Cell], skipped: Mapping[str, str]) -> list[str]:
    sinks = [sink for sink in SINKS if any(cell.sink == sink for cell in cells)]
    lines = [f"| kill | operator | {' | '.join(sinks)} | struck |", f"|---|---|{'---:|' * len(sinks)}---:|"]
    for kind in dict.fromkeys(cell.kind for cell in cells):
        for operator in QUERIES:
            row = [one for one in cells if (one.kind, one.operator) == (kind, operator)]
            if row:
                told = [next((_told(one, skipped) for one in row if one.sink == sink), "") for sink in sinks]
                lines.append(f"| {kind} | {operator} | {' | '.join(told)} | {sum(len(one.struck) for one in row)} |")
    return [
        *lines,
        "",
        "Kills that struck, and `=` where the output is identical; `not run`: there was no time (`--minutes`); empty: none was dealt out.",
    ]


def _told(cell: Cell, skipped: Mapping[str, str]) -> str:
    if cell.kind in skipped:
        return "skipped"
    if not cell.wanted:
        return ""
    if cell.difference is None:
        return "not run"
    return f"{len(cell.struck)} {'=' if cell.difference == '' else '**differs**'}"


def _places(cells: Sequence[Cell]) -> list[str]:
    lines = ["| kill | struck | times |", "|---|---|---:|"]
    for kind in dict.fromkeys(cell.kind for cell in cells):
        for where, times in sorted(Counter(where for cell in cells if cell.kind == kind for where in cell.struck).items()):
            lines.append(f"| {kind} | {where} | {times} |")
    return lines
