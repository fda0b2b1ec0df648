"""Record which tests reach which function, and how long they take: ``pytest -p tests.mutants.reach --reach FILE``.

Python reports every call (`sys.settrace` without tracing lines). This is slow for tests with many calls, and is done once.
"""

from __future__ import annotations

import ast
import json
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType

import pytest
from hypothesis import settings

import panestream
from tests.mutants.faults import first_line, functions_of

PACKAGE = Path(panestream.__file__).parent
EXAMPLES = 6


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--reach", help="the file for what each test reached")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(_Reach(Path(config.getoption("--reach"))))


class _Reach:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.seen: set[CodeType] = set()
        self.tests: dict[str, dict[str, object]] = {}
        self.names: dict[str, dict[int, str]] = {}

    def _look(self, frame: FrameType, event: str, argument: object) -> None:
        self.seen.add(frame.f_code)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.seen.clear()
        more = _fewer_examples(item)
        began, processor, before = time.monotonic(), time.process_time(), sys.gettrace()
        threading.settrace(self._look)
        sys.settrace(self._look)
        try:
            return (yield)
        finally:
            sys.settrace(before)
            threading.settrace(before)
            # Threads that a test left running still add entries.
            reached = sorted({name for code in self.seen.copy() if (name := self._name(code))})
            spent = {
                "seconds": round(more * (time.process_time() - processor), 3),
                "waited": round(more * (time.monotonic() - began), 3),
            }
            asks_spark = item.get_closest_marker("spark") is not None
            self.tests[item.nodeid] = {**spent, "reached": reached, "passed": True, "spark": asks_spark}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.outcome != "passed":
            self.failed.add(report.nodeid)

    failed: set[str] = set()  # noqa: RUF012 - there is one of these in a process

    def _name(self, code: CodeType) -> str | None:
        """Return ``module:function`` of the outermost function around code."""
        if not code.co_filename.startswith(str(PACKAGE)):
            return None
        module = Path(code.co_filename).relative_to(PACKAGE).as_posix()
        if module not in self.names:
            self.names[module] = lines_of((PACKAGE / module).read_text("utf-8"))
        function = self.names[module].get(code.co_firstlineno)
        return function and f"{module}:{function}"

    def pytest_sessionfinish(self) -> None:
        for name in self.failed & set(self.tests):
            self.tests[name]["passed"] = False
        self.path.write_text(json.dumps(self.tests))


def _fewer_examples(item: pytest.Item) -> float:
    """Run only a few examples of a Hypothesis test, since they reach the same functions. Return the factor of the full run time."""
    function = getattr(item, "obj", None)
    asked = getattr(function, "_hypothesis_internal_use_settings", None)
    if asked is None:
        return 1.0
    if asked.max_examples > EXAMPLES:
        function._more = asked.max_examples / EXAMPLES  # the test's other parameters share the function
        function._hypothesis_internal_use_settings = settings(asked, max_examples=EXAMPLES)
    return getattr(function, "_more", 1.0)


def lines_of(source: str) -> dict[int, str]:
    """Return the outermost function of each line."""
    return {
        line: name
        for name, function in functions_of(ast.parse(source))
        for line in range(first_line(function), (function.end_lineno or function.lineno) + 1)
    }
