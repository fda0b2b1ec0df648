"""docs/reference/job-files.md is as its script makes it from the model, and is right about the keys of each kind of window."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from panestream.jobs.windows import NEEDS, TAKES

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "reference" / "job-files.md").read_text("utf-8")


@pytest.fixture(scope="module")
def make_job_keys():
    spec = importlib.util.spec_from_file_location("make_job_keys", ROOT / "scripts" / "make_job_keys.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_page_of_job_keys_is_up_to_date(make_job_keys):
    assert make_job_keys.renewed(PAGE) == PAGE, "run `make job-keys`"
    made = set(re.findall(r"<!-- made: (\w+) -->", PAGE))
    assert made == {*make_job_keys.SECTIONS, "aggregates"}
    # The tables are not empty. Check one key of each.
    for key in (
        "allowed_lateness",
        "files_per_batch",
        "max_duration",
        "all_windows",
        "table_format",
        "available_now",
        "idleness",
        "trigger",
        "select",
        "right_suffix",
        "lower_exclusive",
    ):
        assert f"| `{key}` |" in PAGE


@pytest.mark.parametrize("kind", [kind for kind in NEEDS if kind not in ("global", "session", "predicates")])
def test_page_lists_required_and_optional_keys_of_each_window(kind):
    needs, takes = NEEDS[kind], TAKES[kind]
    may = [key for key in takes if key not in needs]
    assert f"| {kind} | {', '.join(f'`{key}`' for key in needs)} | {', '.join(f'`{key}`' for key in may)} |" in PAGE
