"""The site's search finds what readers look for, by their words: the right page is the first."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pages
import pytest

RECIPES = "how-to/recipes"
TRIED = {
    "session": {"ideas/session", "start/tutorial/4-sessions"},
    "late rows": {"ideas/lateness", "start/tutorial/2-late-rows"},
    "early results": {"ideas/triggers", "start/tutorial/3-early-results"},
    "airflow": {"how-to/airflow"},
    "prometheus": {"how-to/monitoring"},
    "dashboard": {RECIPES},
    "look-back": {"ideas/look-back"},
    "count distinct": {"reference/api/aggregates"},
    "install": {"start/index"},
    "F.sum": {"reference/api/aggregates"},
    "TumblingEventTimeWindows": {"reference/api/assigners"},
    "rolling average": {RECIPES},
    "unit test": {"how-to/testing"},
    "missing row": {"how-to/why"},
    "checkpoint changed": {"how-to/savepoints"},
    "writeStream": {"coming-from/spark-window"},
    "deduplicate": {RECIPES},
    "MERGE": {"how-to/delta", "ideas/changelogs"},
    "daily active users": {RECIPES},
    "unpaid orders": {RECIPES},
}
"""What newcomers looked for in a trial, and the pages that answer it."""
MORE = {
    "top n": {RECIPES},
    "sessions into Delta": {RECIPES},
    "late rows to a table": {RECIPES},
    "alert on silence": {RECIPES},
    "compare with last week": {RECIPES},
    "moving average": {RECIPES},
    "remove duplicates": {RECIPES},
    "pytest": {"how-to/testing"},
    "lost rows": {"how-to/why"},
    "upsert": {"how-to/delta"},
    "withWatermark": {"coming-from/spark-window"},
    "grafana": {"how-to/monitoring"},
}
"""Other words for the same."""


def node() -> str | None:
    """Return the program: of this machine, or the one that playwright brings."""
    found = shutil.which("node")
    if found is None:
        driver = pytest.importorskip("playwright").__file__
        found = shutil.which("node", path=Path(driver).parent / "driver")
    return found


@pytest.fixture(scope="module")
def search(built_site):
    program = node()
    if program is None:
        pytest.skip("no node here")

    def ask(*queries):
        command = [program, Path(__file__).with_name("search.js"), built_site, *queries]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return dict(zip(queries, json.loads(done.stdout), strict=True))

    return ask


@pytest.mark.full
def test_the_right_page_is_the_first(search):
    wanted = TRIED | MORE
    first = {query: found[:1] for query, found in search(*wanted).items()}
    assert {query: found for query, found in first.items() if not wanted[query] & set(found)} == {}


@pytest.mark.full
def test_words_that_no_page_has_find_nothing(search):
    assert search("xylophonequartz") == {"xylophonequartz": []}


def test_no_two_pages_claim_the_same_words():
    claimed = [
        word.strip().lower() for path in pages.all_pages() for word in pages.read(path).front.get("search", "").split(",") if word
    ]
    assert len(claimed) > 50
    assert [word for word, pages_of_it in Counter(claimed).items() if pages_of_it > 1] == []
