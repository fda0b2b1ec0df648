"""`make test` runs a listed part of the tests with Spark, within a budget; a chosen test starts without importing all others."""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests import costs, selection
from tests.costs import Costs, Ledger

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def runner():
    spec = importlib.util.spec_from_file_location("run_tests", ROOT / "scripts" / "run_tests.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["run_tests"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules["run_tests"]


def functions(path: Path) -> set[str]:
    return {node.name for node in ast.parse(path.read_text("utf-8")).body if isinstance(node, ast.FunctionDef)}


def test_every_entry_of_the_selection_names_an_existing_test():
    entries = {entry.partition("[")[0] for entry in selection.read()}
    files = {file for file in (entry.partition("::")[0] for entry in entries) if (ROOT / file).is_file()}
    assert len(entries) > 50
    assert selection.stale(entries, [f"{file}::{name}" for file in files for name in functions(ROOT / file)]) == []


def test_selection_can_list_a_file_a_test_or_a_case(tmp_path):
    (tmp_path / "list.txt").write_text("# panes\nrooms/a.py\n\nrooms/b.py::test_x\nrooms/c.py::test_y[1]\n")
    chosen = selection.read(tmp_path / "list.txt")
    nodes = [
        "rooms/a.py::test_any",
        "rooms/b.py::test_x[2]",
        "rooms/b.py::test_z",
        "rooms/c.py::test_y[1]",
        "rooms/c.py::test_y[2]",
    ]
    assert [selection.holds(chosen, node) for node in nodes] == [True, True, False, True, False]
    assert selection.stale(chosen, nodes[:3]) == ["rooms/c.py::test_y[1]"]


def report(name, when, seconds, **counted):
    return SimpleNamespace(nodeid=name, when=when, duration=seconds, user_properties=[("costs", counted)] if counted else [])


def test_ledger_adds_phases_and_names_what_exceeds_the_budget():
    ledger = Ledger(None, Costs(queries=2, jobs=10, jvms=1))
    ledger.pytest_runtest_logreport(report("a", "call", 2.0))
    ledger.pytest_runtest_logreport(report("a", "teardown", 0.5, queries=2, jobs=10, jvms=0))
    assert ledger.tests == {"a": Costs(2.5, 2, 10, 0)}
    assert ledger.excess() == []
    ledger.pytest_runtest_logreport(report("b", "teardown", 0.0, queries=1, jobs=0, jvms=2))
    assert [sentence.partition(";")[0] for sentence in ledger.excess()] == ["the tests used 3 queries", "the tests used 2 jvms"]
    session = SimpleNamespace(exitstatus=pytest.ExitCode.OK)
    ledger.pytest_sessionfinish(session)
    assert session.exitstatus == pytest.ExitCode.TESTS_FAILED


def test_counter_adds_jobs_of_successive_sessions(monkeypatch, tmp_path):
    jobs = iter([3, 5, 0, 2])
    monkeypatch.setattr(costs, "_jobs", lambda: next(jobs))
    counter = costs.Counter(tmp_path)
    assert [counter.now().jobs for _ in range(4)] == [3, 5, 5, 7]


def test_no_test_starts_after_the_deadline(monkeypatch):
    clock = iter([0.0, 1.0, 11.0])
    monkeypatch.setattr(costs.time, "monotonic", lambda: next(clock))
    deadline = costs.Deadline(10)
    deadline.pytest_runtest_setup(None)
    with pytest.raises(pytest.skip.Exception, match="make test-all"):
        deadline.pytest_runtest_setup(None)


def test_random_tests_run_a_fortieth_of_their_cases_by_default(monkeypatch):
    monkeypatch.delenv(costs.FULL, raising=False)
    assert [costs.random_cases(number) for number in (3, 20, 400)] == [1, 2, 10]
    monkeypatch.setenv(costs.FULL, "1")
    assert costs.random_cases(400) == 400


def test_changed_sources_select_the_tests_of_their_folder(runner):
    changed = ["src/panestream/spark/sinks/files.py", "src/panestream/spark/query.py", "README.md", "src/panestream/__init__.py"]
    assert [path.as_posix() for path in runner.rooms(changed)] == ["tests/spark"]
    assert [path.as_posix() for path in runner.rooms(["tests/architecture/test_walls.py", "tests" + "/gone/test_x.py"])] == [
        "tests/architecture/test_walls.py"
    ]
    assert runner.rooms(["tests/recovery/test_kill.py"]) == []


def test_a_plain_word_imports_only_the_files_that_have_it(runner):
    assert runner.narrowed(["-k", "imports_only_the_files_that_have_it"]) == ["tests/architecture/test_selecting_tests.py"]
    assert runner.narrowed(["-k", "sliding and not late"]) == runner.narrowed(["-x"]) == []
    assert runner.narrowed(["tests/spark", "-k", "late"]) == []


@pytest.mark.parametrize(
    ("statuses", "failed"), [([0, 0], 0), ([0, 5], 0), ([5, 5], 1), ([0, 1], 1), ([0, 2], 1), ([], 0)], ids=str
)
def test_run_without_any_test_fails_but_an_empty_part_does_not(runner, capsys, statuses, failed):
    parts = [(runner.Part(f"part {number}", []), status, 61.0) for number, status in enumerate(statuses)]
    assert runner.report(parts) == failed
    assert capsys.readouterr().out.count("1 min 01 s") == len(statuses)


def test_files_run_in_the_order_of_the_list_with_their_tests_together():
    nodes = ["rooms/x.py::test_1", "rooms/b.py::test_1", "rooms/a.py::test_1", "rooms/b.py::test_2"]
    places = selection.in_order({"rooms/b.py::test_2": 0, "rooms/a.py": 1}, nodes)
    assert [nodes[at] for at in places] == [
        "rooms/b.py::test_1",
        "rooms/b.py::test_2",
        "rooms/a.py::test_1",
        "rooms/x.py::test_1",
    ]
