"""The site's search finds pages by the readers' words, with the right page first."""

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
"""The words that newcomers searched for in a trial, and the pages with an answer."""
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
    "upsert": {"how-to/delta", "how-to/serving"},
    "withWatermark": {"coming-from/spark-window"},
    "grafana": {"how-to/monitoring"},
}
"""Synonyms of these words."""
QUESTIONS = {
    "keep late rows": "start/tutorial/2-late-rows",
    "early results of sessions": "ideas/changelogs",
    "hundred rows or 30 seconds": "ideas/triggers",
    "results every minute": "ideas/triggers",
    "days in time zone": "ideas/calendars",
    "daylight saving": "ideas/calendars",
    "sliding window": "ideas/sliding",
    "idle partition": "ideas/event-time",
    "null timestamp": "ideas/side-outputs",
    "exactly once": "ideas/guarantees",
    "last window never fires": "how-to/silence",
    "alert on late rows": "how-to/monitoring",
    "add an aggregate": "how-to/savepoints",
    "backfill": "how-to/savepoints",
    "skew": "how-to/skew",
    "executor killed": "how-to/memory",
    "how many key groups": "how-to/key-groups",
    "spark connect": "how-to/connect",
    "toml": "reference/job-files",
    "spark version": "reference/versions",
    "error codes": "reference/errors",
    "compare with flink": "coming-from/flink-parity",
    "update mode": "coming-from/spark-window",
    "licence": "reference/support",
    "memory cost": "how-to/memory",
    "change an aggregate": "how-to/savepoints",
    "time to live": "how-to/process",
    "two streams": "how-to/joins",
    "unit test without spark": "how-to/testing",
    "rows missing": "how-to/why",
    "databricks serverless": "how-to/databricks",
    "kafka offsets": "how-to/kafka",
}
"""Questions of users, in the words of a search, and the page whose first screens answer them."""


def node() -> str | None:
    """Return the path of Node.js on this machine, or in playwright, or None."""
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
def test_search_finds_the_right_page_first(search):
    wanted = TRIED | MORE
    first = {query: found[:1] for query, found in search(*wanted).items()}
    assert {query: found for query, found in first.items() if not wanted[query] & set(found)} == {}


@pytest.mark.full
def test_first_page_of_the_search_answers_the_question(search):
    assert {query: found[0] for query, found in search(*QUESTIONS).items()} == QUESTIONS


@pytest.mark.full
def test_search_does_not_find_single_decisions(search):
    found = search("checkpoint", "decision", "state", "micro-batch")
    assert {page for pages_of_it in found.values() for page in pages_of_it if page.startswith("decisions/")} == {
        "decisions/README"
    }


@pytest.mark.full
def test_search_for_words_of_no_page_finds_nothing(search):
    assert search("xylophonequartz") == {"xylophonequartz": []}


def test_search_words_of_pages_are_unique():
    claimed = [
        word.strip().lower() for path in pages.all_pages() for word in pages.read(path).front.get("search", "").split(",") if word
    ]
    assert len(claimed) > 50
    assert [word for word, pages_of_it in Counter(claimed).items() if pages_of_it > 1] == []
