"""Plant faults in a running pytest: ``pytest -p tests.mutants.planting --plant JOBS --verdicts FILE``.

All tests are collected once. For every fault the process forks. The copy exchanges the code of one function, runs the tests that
reach it until one fails, and exits. So files stay unchanged, and faults do not affect each other. A copy that needs much more
time or processor time than the tests without a fault is stopped. It counts as hung, which is detected too.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FunctionType

import pytest
from _pytest.runner import runtestprotocol
from _pytest.tmpdir import tmppath_result_key
from hypothesis import Phase, settings

import panestream
from tests.mutants.faults import Fault, planted

PACKAGE = Path(panestream.__file__).parent
KILLED, HUNG, SURVIVED, IMPOSSIBLE = "killed", "hung", "survived", "impossible"
PATIENCE, PATIENCE_WITH_SPARK = 300.0, 60.0
"""Seconds by the clock for tests that wait without computing. A computing test reaches its limit of processor time long before. With
Spark, the computation happens outside of this process.
"""
MEMORY = 12 << 30
"""Bytes of address space. A fault that uses too much memory must not stop the machine."""


@dataclass(frozen=True)
class TimedTest:
    """A test to run.

    Args:
        name: the node id.
        seconds: processor seconds without a fault.
        waited: seconds by the clock without a fault.
        slack: extra seconds that it may take, on top of five times as long.
        spark: whether it uses Spark.
    """

    name: str
    seconds: float = 1.0
    waited: float = 1.0
    slack: float = 10.0
    spark: bool = False

    @property
    def processor_limit(self) -> float:
        return 5 * self.seconds + self.slack

    @property
    def limit(self) -> float:
        return 10 * self.waited + (PATIENCE_WITH_SPARK if self.spark else PATIENCE)


@dataclass(frozen=True)
class Job:
    """A fault, and the tests to run with it, the most likely to detect it first. Without a fault the tests must pass."""

    fault: Fault | None
    tests: list[TimedTest] = field(default_factory=list)


@dataclass(frozen=True)
class Verdict:
    """The outcome of a fault: one of the four words, and the test that detected it or the reason."""

    fault: Fault | None
    became: str
    by: str


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--plant", help="the file of faults and tests, as JSON")
    parser.addoption("--verdicts", help="the file to which each verdict is appended, a line of JSON")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    # The first failure is enough. Nobody reads a smaller example, and none is stored for later runs.
    settings.register_profile("planted", deadline=None, database=None, derandomize=True, phases=[Phase.explicit, Phase.generate])
    settings.load_profile("planted")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool:
    """Run the jobs instead of the tests."""
    items = {item.nodeid: item for item in session.items}
    jobs = read_jobs(Path(session.config.getoption("--plant")))
    lost = {test.name for job in jobs for test in job.tests} - set(items)
    if lost:
        raise pytest.UsageError("not collected: " + ", ".join(sorted(lost)))
    started = _spark(items)
    with Path(session.config.getoption("--verdicts")).open("a") as verdicts:
        for job in jobs:
            found = _believed(job, items)
            verdicts.write(json.dumps(as_json(found)) + "\n")
            verdicts.flush()
            if started and found.became == HUNG:
                break  # the state that a hung copy left in Spark's driver would affect the next fault
    return True


def read_jobs(path: Path) -> list[Job]:
    """Read the file that `write_jobs` wrote."""
    read = json.loads(path.read_text())
    return [Job(each["fault"] and Fault(**each["fault"]), [TimedTest(*test) for test in each["tests"]]) for each in read]


def write_jobs(path: Path, jobs: Iterable[Job]) -> None:
    """Write a file of jobs for ``--plant``."""
    tests = [[(test.name, test.seconds, test.waited, test.slack, test.spark) for test in job.tests] for job in jobs]
    faults = [job.fault and vars(job.fault) for job in jobs]
    path.write_text(json.dumps([{"fault": fault, "tests": own} for fault, own in zip(faults, tests, strict=True)]))


def as_json(verdict: Verdict) -> dict[str, object]:
    """Return a verdict as a line of the file of verdicts."""
    return {"fault": verdict.fault and vars(verdict.fault), "became": verdict.became, "by": verdict.by}


def plant(fault: Fault) -> None:
    """Exchange the code of the fault's function in this process.

    Raises:
        LookupError: the function does not exist.
        ValueError: its code cannot be exchanged, since it captures other names of the enclosing scope.
    """
    path = PACKAGE / fault.module
    code = planted(path.read_text("utf-8"), fault, str(path))
    __import__("panestream." + fault.module.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
    functions = [each for each in gc.get_objects() if isinstance(each, FunctionType) and _where(each.__code__) == _where(code)]
    if not functions:
        raise LookupError(f"{fault.function} is not there")
    for function in functions:
        function.__code__ = code


def _where(code: CodeType) -> tuple[str, int, str]:
    return code.co_filename, code.co_firstlineno, code.co_name


def _believed(job: Job, items: dict[str, pytest.Item]) -> Verdict:
    """Return a verdict. If a test with Spark fails, it must pass right afterwards without the fault. Otherwise it is ignored.

    The copies share Spark's driver, so one copy can affect the next.
    """
    tests = list(job.tests)
    while True:
        found = _judge(Job(job.fault, tests), items)
        noticed = [test for test in tests if test.spark and test.name == found.by.partition(" (")[0]]
        if found.became != KILLED or job.fault is None or not noticed:
            return found
        if _judge(Job(None, noticed), items).became == SURVIVED:
            return found
        tests.remove(noticed[0])
        if not tests:
            return Verdict(job.fault, IMPOSSIBLE, "every test that reaches it fails in a copy of this process without it, too")


def _judge(job: Job, items: dict[str, pytest.Item]) -> Verdict:
    """Run one job in a copy of this process."""
    reading, writing = os.pipe()
    copy = os.fork()
    if not copy:
        os.close(reading)
        _run(job, items, writing)  # never returns
    os.close(writing)
    try:
        return _listen(job, reading, copy)
    finally:
        os.close(reading)


def _listen(job: Job, reading: int, copy: int) -> Verdict:
    """Read the copy's reports, one line at the start of each test and one at the end."""
    text, at = "", -1
    while True:
        limit = job.tests[at].limit if at >= 0 else PATIENCE
        # Count seconds, so that no time passes while the machine, with this process and the copy, is suspended.
        if not any(select.select([reading], [], [], 1.0)[0] for _ in range(int(limit) + 1)):
            os.killpg(copy, signal.SIGKILL)
            os.waitpid(copy, 0)
            return Verdict(job.fault, HUNG, job.tests[max(at, 0)].name)
        more = os.read(reading, 1 << 16)
        text += more.decode()
        at += more.count(b"\nbegin ")
        if more:
            continue
        _, status = os.waitpid(copy, 0)
        last = text.rsplit("\n", 1)[-1]
        if last.startswith("end "):
            _, became, by = last.split(" ", 2)
            return Verdict(job.fault, became, by)
        test = job.tests[max(at, 0)].name if job.tests else "no test"
        hung = os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL)
        return Verdict(job.fault, HUNG if hung else KILLED, test if hung else f"{test} (the process broke: {status})")


def _run(job: Job, items: dict[str, pytest.Item], writing: int) -> None:
    """Run as the copy: plant the fault, run the tests until one fails, and exit immediately."""
    became, by = IMPOSSIBLE, "the harness broke"
    try:
        os.setsid()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        if job.fault is not None:
            plant(job.fault)
        became, by = _tried(job, items, writing)
        _stop_queries()
    except (LookupError, ValueError, SyntaxError) as error:
        by = str(error).replace("\n", " ")
    finally:
        os.write(writing, f"\nend {became} {by}".encode())
        os._exit(0)


def _tried(job: Job, items: dict[str, pytest.Item], writing: int) -> tuple[str, str]:
    """Run the tests, and return the outcome and the test that decided it."""
    for at, test in enumerate(job.tests):
        os.write(writing, b"\nbegin ")
        soft = int(time.process_time() + test.processor_limit) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.getrlimit(resource.RLIMIT_CPU)[1]))
        # The copy must not tear down session fixtures, above all Spark.
        following = items[job.tests[at + 1].name] if at + 1 < len(job.tests) else _another(items, test.name)
        if _fails(items[test.name], following):
            return KILLED, test.name
    return SURVIVED, f"{len(job.tests)} tests"


def _another(items: dict[str, pytest.Item], name: str) -> pytest.Item | None:
    return next((item for other, item in items.items() if other != name), None)


def _fails(item: pytest.Item, following: pytest.Item | None) -> bool:
    """Return whether a test, its setup or its teardown fails."""
    try:
        reports = runtestprotocol(item, nextitem=following, log=False)
    except BaseException:  # noqa: BLE001 - whatever it is, it is not what a test does
        return True
    return any(report.failed for report in reports)


def _spark(items: dict[str, pytest.Item]) -> bool:
    """Start Spark once before the first copy, if any test needs it. The copies use the same driver, one after another."""
    for name, item in items.items():
        if "spark" in getattr(item, "fixturenames", ()):
            state = item.session._setupstate  # pytest has no other access to a session fixture
            state.setup(item)
            item.stash.setdefault(tmppath_result_key, {})  # the teardown of a temporary folder reads the test's outcome
            state.teardown_exact(_another(items, name))
            item._initrequest()  # type: ignore[attr-defined] # what its fixtures gave it is gone
            return True
    return False


def _stop_queries() -> None:
    """Stop queries that a failed test left running, so that they do not affect the next test."""
    module = sys.modules.get("pyspark.sql")
    session = module and module.SparkSession.getActiveSession()
    for query in session.streams.active if session else ():
        query.stop()
