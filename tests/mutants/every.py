"""Try every fault of some files with the tests of a folder: ``python -m tests.mutants.every engine/tiles/as_of.py --tests
tests/engine/tiles``.

This is for authors of tests. It lists the surviving faults with their lines. It draws no sample and writes no page, unlike
`run.py`.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.mutants.equivalents import EQUIVALENT
from tests.mutants.faults import Fault, faults_of
from tests.mutants.planting import SURVIVED, Job, TimedTest
from tests.mutants.reach import PACKAGE
from tests.mutants.run import MARKED, MARKED_WITH_SPARK, run_jobs, run_pytest
from tests.mutants.sampling import Reached, likeliest_tests


def main(words: Sequence[str] | None = None) -> int:
    """Return exit status 0 if every fault without a reason was detected."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "modules", nargs="+", help="files below the package, each of them with :FUNCTION or :CLASS if only that is wanted"
    )
    parser.add_argument("--tests", nargs="+", required=True, help="files and folders of tests")
    parser.add_argument("--budget", type=float, default=15.0, help="seconds of the processor for the tests of one fault")
    parser.add_argument("--spark", action="store_true", help="ask those of the tests that start Spark, too")
    parser.add_argument("--spark-budget", type=float, default=20.0, help="seconds by the clock for those of one fault")
    chosen = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="mutants-") as work:
        reach = _reached(Path(work), chosen.tests, spark=chosen.spark)
        faults = [fault for module in chosen.modules for fault in faults_in(module)]
        jobs = [Job(fault, likeliest_tests(fault, reach, chosen.budget, chosen.spark_budget)) for fault in faults]
        jobs = [job for job in jobs if job.fault is not None and job.fault.name not in EQUIVALENT]
        print(f"{len(jobs)} faults", flush=True)
        # Starting Spark makes all copies wait, so copies without a test on Spark run separately.
        verdicts = [
            verdict
            for with_spark in (False, True)
            for verdict in run_jobs(
                [job for job in jobs if any(test.spark for test in job.tests) == with_spark], Path(work), tell=False
            )
        ]
    survivors = [verdict for verdict in verdicts if verdict.became == SURVIVED and verdict.fault is not None]
    for verdict in survivors:
        print(f"survived, line {verdict.fault.line}: {verdict.fault.name} [{verdict.by}]")  # type: ignore[union-attr]
    print(f"{len(survivors)} of {len(verdicts)} survived")
    return 1 if survivors else 0


def faults_in(module: str) -> list[Fault]:
    """Return the faults of a file, or of a function, class or method named after a colon.

    Raises:
        LookupError: nothing in the file has that name.
    """
    path, _, wanted = module.partition(":")
    found = faults_of((PACKAGE / path).read_text("utf-8"), path)
    found = [fault for fault in found if not wanted or fault.function == wanted or fault.function.startswith(wanted + ".")]
    if not found:
        raise LookupError(f"nothing can be planted in {module}")
    return found


def _reached(work: Path, tests: list[str], *, spark: bool) -> list[Reached]:
    ended = run_pytest(
        ["-m", MARKED_WITH_SPARK if spark else MARKED, "-p", "tests.mutants.reach", "--reach", str(work / "found"), *tests]
    )
    if ended.returncode not in (0, 1):
        raise RuntimeError(f"tests cannot be run:\n{ended.stdout[-3000:]}{ended.stderr[-3000:]}")
    found = json.loads((work / "found").read_text())
    failing = [name for name, each in found.items() if not each["passed"] and each["reached"]]
    if failing:
        print("not asked, for they fail without a fault: " + ", ".join(failing))
    return [
        Reached(TimedTest(name, each["seconds"], each["waited"], spark=each["spark"]), frozenset(each["reached"]))
        for name, each in found.items()
        if each["passed"]
    ]


if __name__ == "__main__":
    sys.exit(main())
