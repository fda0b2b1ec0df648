"""docs/reference/job-files.md lists the keys that the model has, as its script would make it; its words about kinds of windows are true."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from panestream.jobs.windows import WindowSection

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "reference" / "job-files.md").read_text("utf-8")


@pytest.fixture(scope="module")
def make_job_keys():
    spec = importlib.util.spec_from_file_location("make_job_keys", ROOT / "scripts" / "make_job_keys.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_as_its_script_makes_it(make_job_keys):
    assert make_job_keys.renewed(PAGE) == PAGE, "run `make job-keys`"
    made = set(re.findall(r"<!-- made: (\w+) -->", PAGE))
    assert made == {*make_job_keys.SECTIONS, "aggregates"}
    # The tables are not empty: one key of each, by hand.
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


@pytest.mark.parametrize("kind", [kind for kind in WindowSection.kinds if kind not in ("global", "session", "predicates")])
def test_each_kind_of_window_has_the_keys_that_the_page_says(kind):
    needs, may = WindowSection.keys_of(kind)
    assert f"| {kind} | {', '.join(f'`{key}`' for key in needs)} | {', '.join(f'`{key}`' for key in may)} |" in PAGE
