"""The harness itself: planted faults of every room are killed, one that changes nothing survives, and one that hangs is stopped."""

from __future__ import annotations

import json

import pytest

from tests.mutants.faults import faults_of
from tests.mutants.planting import HUNG, IMPOSSIBLE, KILLED, SURVIVED, Job, TimedTest
from tests.mutants.reach import PACKAGE
from tests.mutants.run import run_jobs, run_pytest

SLICING = "tests/engine/kernels/test_slicing.py::"


def fault(module, text):
    """The fault of a module whose name ends so."""
    return next(each for each in faults_of((PACKAGE / module).read_text("utf-8"), module) if each.name.endswith(text))


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """One pytest for all of them: what became of each, and by which test."""
    slow = "SETUP"
    del slow
    folder = tmp_path_factory.mktemp("planted")
    jobs = [Job(fault(module, text), [TimedTest(test, slack=2.0) for test in tests]) for module, text, tests, _ in PLANTED]
    jobs.append(Job(None, sorted({test for job in jobs for test in job.tests}, key=lambda test: test.name)))
    return run_jobs(jobs, folder), folder


PLANTED = []
