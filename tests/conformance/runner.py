"""Runs scenario files: ``python -m tests.conformance.runner [--executor harness] [--restore] FILE.json...``.

Print every difference between expected and actual output, then ``N passed, M failed``. The exit status is 0 if none failed.

The rule of comparison: within a step, the *sequence* of values of each key and window must agree. The order of keys and windows
that fire at the same time does not matter. Late elements of a step, the number of dropped ones, and whether there was an error
must agree. If ``list_order`` is ``any``, lists are compared as multisets.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from tests.conformance.executors import EXECUTORS, Executor, Observed
from tests.conformance.scenario_format import Scenario, ScenarioError, read_scenarios


def differences(scenario: Scenario, observed: Observed) -> list[str]:
    """Return the disagreements in words."""
    expected, found = scenario.expected, list(observed.complaints)
    if (expected.error is None) != (observed.error is None):
        found.append(f"error: expected {expected.error!r}, got {observed.error!r}")
    steps, late = _in_batches(expected.steps, observed), _in_batches(expected.late, observed)
    if len(steps) != len(observed.steps):
        found.append(f"steps: expected {len(steps)}, got {len(observed.steps)}")
    for at, (each, other) in enumerate(zip(steps, observed.steps, strict=False)):
        found += _differing_windows(at, _by_window(each, scenario), _by_window(other, scenario))
    if len(late) != len(observed.late):
        found.append(f"late: expected {len(late)} steps, got {len(observed.late)}")
    for at, (each, other) in enumerate(zip(late, observed.late, strict=False)):
        # The late elements of a micro-batch come from several key groups. Only the order of each key matters.
        wanted, got = [dict(element) for element in each], list(other)
        if observed.cuts is not None:
            wanted.sort(key=_key_of)
            got.sort(key=_key_of)
        if wanted != got:
            found.append(f"step {at}: late: expected {json.dumps(each)}, got {json.dumps(other)}")
    if expected.late_dropped != observed.late_dropped and (observed.cuts is None or observed.error is None):
        found.append(f"late_dropped: expected {expected.late_dropped}, got {observed.late_dropped}")
    return found


def _in_batches(steps: Sequence[Sequence[Mapping[str, Any]]], observed: Observed) -> list[list[Mapping[str, Any]]]:
    """Return the expected output of each micro-batch, if steps ran in micro-batches, up to the one that failed."""
    if observed.cuts is None:
        return [list(step) for step in steps]
    left = iter(steps)
    batches = [[each for step in islice(left, count) for each in step] for count in observed.cuts]
    return batches if observed.error is None else batches[: len(observed.steps)]


def _key_of(element: Mapping[str, Any]) -> str:
    return str(element["key"])


def _by_window(step: Sequence[Mapping[str, Any]], scenario: Scenario) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for each in step:
        value = each["value"]
        if scenario.any_list_order and isinstance(value, list):
            value = sorted(value)
        found.setdefault(json.dumps([each["key"], each["start"], each["end"]]), []).append(value)
    return found


def _differing_windows(at: int, expected: dict[str, list[Any]], observed: dict[str, list[Any]]) -> list[str]:
    return [
        f"step {at}: {window}: expected {json.dumps(expected.get(window, []))}, got {json.dumps(observed.get(window, []))}"
        for window in sorted({*expected, *observed})
        if expected.get(window, []) != observed.get(window, [])
    ]


def run_files(paths: Sequence[Path], executor: Executor) -> tuple[int, int]:
    """Run all scenarios of all files, print the differences, and return how many passed and failed."""
    passed = failed = 0
    for path in paths:
        try:
            scenarios = read_scenarios(path)
        except ScenarioError as error:
            print(f"FAILED {path}: {error}")
            failed += 1
            continue
        for scenario in scenarios:
            try:
                found = differences(scenario, executor.run(scenario))
            except ScenarioError as error:
                found = [str(error)]
            if scenario.on_purpose:
                print(f"ON PURPOSE unlike Flink: {path.name}: {scenario.name}: {scenario.on_purpose}")
            if found:
                failed += 1
                print(f"FAILED {path.name}: {scenario.name}", *found, sep="\n    ")
            else:
                passed += 1
    return passed, failed


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.runner", description="Run window scenarios.")
    parser.add_argument("--executor", choices=sorted(EXECUTORS), default="harness", help="what runs them (default: %(default)s)")
    parser.add_argument("--restore", action="store_true", help="snapshot and restore after every step")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE.json")
    options = parser.parse_args(arguments)
    passed, failed = run_files(options.files, EXECUTORS[options.executor](options.restore))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
