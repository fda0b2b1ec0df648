"""Plants faults in a running pytest: ``pytest -p tests.mutants.planting --plant JOBS --verdicts FILE``.

All tests are collected once. For every fault the process forks; the copy exchanges the code of one function, runs the tests that
reach it until one fails, and is gone: no file is touched, no fault sees another. A copy that takes much more of the processor, or of
the time, than the tests took without a fault is stopped: it hangs, and that is noticed too.
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
"""Seconds by the clock: for what waits and computes nothing. What computes is stopped by the processor's time, long before; where
Spark computes, it is not this process's time."""
MEMORY = 12 << 30
"""Bytes of address space: a fault that eats memory must not take the machine with it."""


@dataclass(frozen=True)
class TimedTest:
    """A test to run.

    Args:
        name: its node id.
        seconds: of the processor, without a fault.
        waited: seconds by the clock, without a fault.
        slack: seconds that it may take besides five times as long.
        spark: whether it asks Spark.
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
    """A fault, and the tests to run with it, the likeliest first. Without a fault the tests must pass."""

    fault: Fault | None
    tests: list[TimedTest] = field(default_factory=list)


@dataclass(frozen=True)
class Verdict:
    """What became of a fault: one of the four words, and the test that noticed it or the reason."""

    fault: Fault | None
    became: str
    by: str


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--plant", help="the file of faults and tests, as JSON")
    parser.addoption("--verdicts", help="the file to which each verdict is appended, a line of JSON")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    # The first failure says enough: nobody reads a smaller one, and none is kept for later runs.
    settings.register_profile("planted", deadline=None, database=None, derandomize=True, phases=[Phase.explicit, Phase.generate])
    settings.load_profile("planted")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool:
    """Runs the jobs in place of the tests."""
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
                break  # what it left in Spark's driver would be held against the next
    return True


def read_jobs(path: Path) -> list[Job]:
    """What `write_jobs` wrote."""
    read = json.loads(path.read_text())
    return [Job(each["fault"] and Fault(**each["fault"]), [TimedTest(*test) for test in each["tests"]]) for each in read]


def write_jobs(path: Path, jobs: Iterable[Job]) -> None:
    """A file of jobs for ``--plant``."""
    tests = [[(test.name, test.seconds, test.waited, test.slack, test.spark) for test in job.tests] for job in jobs]
    faults = [job.fault and vars(job.fault) for job in jobs]
    path.write_text(json.dumps([{"fault": fault, "tests": own} for fault, own in zip(faults, tests, strict=True)]))


def as_json(verdict: Verdict) -> dict[str, object]:
    """A verdict as a line of the file of verdicts."""
    return {"fault": verdict.fault and vars(verdict.fault), "became": verdict.became, "by": verdict.by}


def plant(fault: Fault) -> None:
    """Exchanges the code of the fault's function in this process.

    Raises:
        LookupError: the function is not there.
        ValueError: its code cannot be exchanged, since it holds other names of its surroundings.
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
    """A verdict; where a test with Spark gives it, that test passes without the fault, at once afterwards: else it is not asked.

    The copies share Spark's driver, and what one leaves there the next one finds.
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
    """Runs one job in a copy of this process."""
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
    """What the copy tells: a line at the begin of each test, and one at the end."""
    text, at = "", -1
    while True:
        limit = job.tests[at].limit if at >= 0 else PATIENCE
        # Second by second: while a machine stands still, with this process and the copy, no time goes by.
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
    """The copy: plants, runs the tests until the first that fails, and ends without ado."""
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
    """Runs the tests; what became of the fault, and by which of them."""
    for at, test in enumerate(job.tests):
        os.write(writing, b"\nbegin ")
        soft = int(time.process_time() + test.processor_limit) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.getrlimit(resource.RLIMIT_CPU)[1]))
        # What belongs to the session, Spark above all, stays: it is not this copy's to end.
        following = items[job.tests[at + 1].name] if at + 1 < len(job.tests) else _another(items, test.name)
        if _fails(items[test.name], following):
            return KILLED, test.name
    return SURVIVED, f"{len(job.tests)} tests"


def _another(items: dict[str, pytest.Item], name: str) -> pytest.Item | None:
    return next((item for other, item in items.items() if other != name), None)


def _fails(item: pytest.Item, following: pytest.Item | None) -> bool:
    """Whether a test fails, or its fixtures do, before or after."""
    try:
        reports = runtestprotocol(item, nextitem=following, log=False)
    except BaseException:  # noqa: BLE001 - whatever it is, it is not what a test does
        return True
    return any(report.failed for report in reports)


def _spark(items: dict[str, pytest.Item]) -> bool:
    """Starts Spark once, before the first copy, if any test needs it: the copies talk to the same driver, one after another."""
    for name, item in items.items():
        if "spark" in getattr(item, "fixturenames", ()):
            state = item.session._setupstate  # pytest offers no other way to a fixture of the session
            state.setup(item)
            item.stash.setdefault(tmppath_result_key, {})  # a folder of the test asks, when it goes, what became of the test
            state.teardown_exact(_another(items, name))
            item._initrequest()  # type: ignore[attr-defined] # what its fixtures gave it is gone
            return True
    return False


def _stop_queries() -> None:
    """What a failed test left running would meet the next one."""
    module = sys.modules.get("pyspark.sql")
    session = module and module.SparkSession.getActiveSession()
    for query in session.streams.active if session else ():
        query.stop()
