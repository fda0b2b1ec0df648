"""Counts what tests cost: seconds, streaming queries, Spark jobs and JVM starts, and holds the total to a budget.

Seconds are recorded for a table that shows where the time goes. They are never asserted: machines differ. The other three can be
counted, so ``make test`` fails if it exceeds ``BUDGET``.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

Case = TypeVar("Case")

JVM_FOLDER = "PANESTREAM_JVM_STARTS"
"""Environment variable: the folder in which each JVM of this run leaves an empty file when it starts."""
OUTPUT = "PANESTREAM_COSTS"
"""Environment variable: the JSON file to which the costs of every test are written, if it is set."""
SECONDS = "PANESTREAM_SECONDS"
"""Environment variable: if it is set, tests that would start later than this many seconds after the first are skipped."""
ENFORCED = "PANESTREAM_BUDGET"
"""Environment variable: the key of ``BUDGET`` that this run must not exceed, if it is set."""
FULL = "PANESTREAM_FULL"
"""Environment variable: random tests run all of their cases, as `make test-all` does, if it is set."""


def random_cases(number: int) -> int:
    """Return how many of a test's random cases to run: all in `make test-all`, a fortieth in `make test`, but up to two if an
    eighth is more.
    """
    return number if os.environ.get(FULL) else max(1, min(2, number // 8), number // 40)


def thinned(cases: Sequence[Case], step: int) -> Sequence[Case]:
    """Return cases of which each repeats others: all in `make test-all`, every ``step``-th in `make test`."""
    return cases if os.environ.get(FULL) else cases[::step]


@dataclass(frozen=True)
class Costs:
    """The cost of one test or of a whole run.

    Args:
        seconds: setup, call and teardown.
        queries: streaming queries started in the process of the test.
        jobs: Spark jobs of the session that tests share.
        jvms: JVMs started by the test, or by a process that the test started.
    """

    seconds: float = 0.0
    queries: int = 0
    jobs: int = 0
    jvms: int = 0

    def __add__(self, other: Costs) -> Costs:
        return Costs(self.seconds + other.seconds, self.queries + other.queries, self.jobs + other.jobs, self.jvms + other.jvms)

    def __sub__(self, other: Costs) -> Costs:
        return Costs(self.seconds - other.seconds, self.queries - other.queries, self.jobs - other.jobs, self.jvms - other.jvms)


BUDGET = {"engine": Costs(queries=0, jobs=0, jvms=0), "spark": Costs(queries=85, jobs=1_450, jvms=10)}
"""The most that each part of `make test` may use.

If a new test exceeds the budget, there are four ways out. Prove semantics on the engine. Read state from a golden checkpoint. Let
a query serve several tests. Mark a test that repeats another one as `full`. Raise the limit only for a new operator, sink or
recovery path.
"""


def jvm_folder() -> Path:
    """Return the folder of this process's JVM starts. Each worker of a parallel run has its own."""
    root = os.environ.get(JVM_FOLDER)
    if root is None:
        root = tempfile.mkdtemp(prefix="panestream-jvms-")
        os.environ[JVM_FOLDER] = root
    folder = Path(root) / os.environ.get("PYTEST_XDIST_WORKER", "main")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


class Counter:
    """Counts in one process."""

    def __init__(self, jvms: Path) -> None:
        self.queries = 0
        self._jvms = jvms
        self._jobs = 0
        self._jobs_of_stopped = 0

    def now(self) -> Costs:
        """Return the totals of this process up to now."""
        return Costs(queries=self.queries, jobs=self._all_jobs(), jvms=sum(1 for _ in self._jvms.iterdir()))

    def _all_jobs(self) -> int:
        jobs = _jobs()
        if jobs < self._jobs:  # another session started to count at 0
            self._jobs_of_stopped += self._jobs
        self._jobs = jobs
        return self._jobs_of_stopped + jobs

    def count_queries(self) -> None:
        """Count every later start of a streaming query in this process."""
        from pyspark.sql.streaming.readwriter import DataStreamWriter

        start = DataStreamWriter.start

        def counted(writer: Any, *arguments: Any, **options: Any) -> Any:
            self.queries += 1
            return start(writer, *arguments, **options)

        DataStreamWriter.start = counted


def _jobs() -> int:
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    return int(context._jsc.sc().dagScheduler().numTotalJobs()) if context is not None and context._jsc is not None else 0


class Deadline:
    """The pytest plugin that starts no test after a time, so that a run of unknown length ends in time."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._begin: float | None = None

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Skip a test that is too late."""
        if self._begin is None:
            self._begin = time.monotonic()
        if time.monotonic() - self._begin > self._seconds:
            pytest.skip("no time is left for it here; `make test-all` runs it")


class Ledger:
    """The pytest plugin that measures each test in its process and adds up the reports."""

    def __init__(self, counter: Counter | None, budget: Costs | None = None, output: Path | None = None) -> None:
        self.tests: dict[str, Costs] = {}
        self._counter = counter
        self._budget = budget
        self._output = output
        self._before = Costs()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Remember the counts before a test."""
        if self._counter is not None:
            self._before = self._counter.now()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
        """Attach the counts of a test to its last report."""
        if self._counter is not None and call.when == "teardown":
            item.user_properties.append(("costs", asdict(self._counter.now() - self._before)))
        return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add up what reports say."""
        counted = dict(report.user_properties).get("costs", {}) if report.when == "teardown" else {}
        costs = self.tests.get(report.nodeid, Costs()) + Costs(**counted) + Costs(seconds=report.duration)
        self.tests[report.nodeid] = costs

    def total(self) -> Costs:
        """Return the costs of all tests."""
        return sum(self.tests.values(), Costs())

    def excess(self) -> list[str]:
        """Return a sentence for each count that exceeds the budget."""
        if self._budget is None:
            return []
        total, limit = asdict(self.total()), asdict(self._budget)
        return [
            f"the tests used {total[name]:,} {name}; at most {limit[name]:,} are allowed (tests/costs.py says how to save some)"
            for name in ("queries", "jobs", "jvms")
            if total[name] > limit[name]
        ]

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the costs, and fail the run if it exceeds its budget."""
        if self._output is not None:
            self._output.parent.mkdir(parents=True, exist_ok=True)
            self._output.write_text(json.dumps({name: asdict(costs) for name, costs in self.tests.items()}), "utf-8")
        if self.excess() and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the total."""
        total = self.total()
        if total.queries or total.jvms:
            terminalreporter.write_line(
                f"{total.queries:,} streaming queries, {total.jobs:,} Spark jobs, {total.jvms:,} JVMs in {total.seconds:,.0f} s of tests"
            )
        for sentence in self.excess():
            terminalreporter.write_line(f"over budget: {sentence}", red=True)
        failed = [report.nodeid for kind in ("failed", "error") for report in terminalreporter.stats.get(kind, [])]
        for name in failed[:10]:
            terminalreporter.write_line(f"""to see it again: make test-all ARGS="'{name}'\"""")


def register(config: pytest.Config) -> None:
    """Add the plugin. A worker of a parallel run counts and the main process adds up. A plain run does both."""
    worker = hasattr(config, "workerinput")
    hands_out = not worker and bool(getattr(config.option, "numprocesses", None))
    counter: Counter | None = None
    if not hands_out:
        counter = Counter(jvm_folder())
        counter.count_queries()
    enforced, output, seconds = (os.environ.get(name, "") for name in (ENFORCED, OUTPUT, SECONDS))
    budget = None if worker else BUDGET.get(enforced)
    written = None if worker or not output else Path(output)
    if float(seconds or 0):
        config.pluginmanager.register(Deadline(float(seconds)), "panestream-deadline")
    config.pluginmanager.register(Ledger(counter, budget, written), "panestream-costs")
