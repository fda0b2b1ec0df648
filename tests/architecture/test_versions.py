"""`make test-matrix` wrote the tables of versions, and all its runs passed."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def matrix():
    spec = importlib.util.spec_from_file_location("run_matrix", ROOT / "scripts" / "run_matrix.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    sys.path.remove(str(ROOT / "scripts"))


@pytest.fixture(scope="module")
def results(matrix):
    return json.loads(matrix.RESULTS.read_text("utf-8"))


def test_pages_of_versions_match_the_recorded_results(matrix, results):
    for page in matrix.PAGES:
        text = page.read_text("utf-8")
        assert "<!-- made: " in text
        assert matrix.renewed(text, results) == text, f"python scripts/run_matrix.py --show renews {page.name}"


def test_every_spark_line_python_and_java_was_run(matrix, results):
    run = {line: [cell for cell in results["cells"].values() if cell["line"] == line] for line in matrix.LINES}
    assert not [line for line, cells in run.items() if not any({"pure", "spark"} <= set(cell) for cell in cells)]
    assert {cell["python"].rpartition(".")[0] for cells in run.values() for cell in cells} >= {"3.10", "3.11", "3.12", "3.13"}
    assert {cell["java"].partition(".")[0] for cells in run.values() for cell in cells} >= {"17", "21"}


def test_recorded_runs_have_no_failures(matrix, results):
    assert {cell["line"] for cell in results["cells"].values()} <= set(matrix.LINES)
    assert matrix.failures(results) == []


def test_failed_or_empty_run_is_reported(matrix):
    failed = {"cells": {"4.0": {"spark": {"passed": 1, "failed": 1}, "pure": {"passed": 3, "failed": 0}}}}
    assert matrix.failures(failed) == ["4.0, spark"]
    assert matrix.failures({"cells": {"4.0": {"pure": {"passed": 0, "failed": 0}}}}) == ["4.0, pure"]


def test_report_counts_passed_failed_and_skipped_tests(matrix, tmp_path):
    report = tmp_path / "report.xml"
    report.write_text('<testsuites><testsuite tests="7" failures="1" errors="1" skipped="2"/></testsuites>')
    counts = matrix.counted(report)
    assert (counts["passed"], counts["failed"], counts["skipped"]) == (3, 2, 2)
