"""The page that compares panestream with Flink matches the code."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def make_parity():
    spec = importlib.util.spec_from_file_location("make_parity", ROOT / "scripts" / "make_parity.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def page(make_parity):
    return make_parity.PAGE.read_text("utf-8")


def test_page_of_parity_is_up_to_date(make_parity, page):
    assert make_parity.renewed(page) == page, "run .venv/bin/python scripts/make_parity.py"


@pytest.mark.full
def test_outdated_page_of_parity_is_renewed(make_parity, page):
    assert make_parity.renewed(page.replace("| `EventTimeTrigger` |", "| `TimeTrigger` |")) == page


def test_names_and_tests_in_the_page_of_parity_exist(make_parity, page):
    assert not make_parity.unknown_names(page)
    assert not make_parity.lost_tests(page)
    wrong = "`pst.datastream.WindowedStream.fold` and `agg.sum`, [test_that_never_was](../../tests/conftest.py)"
    assert make_parity.unknown_names(wrong) == ["`pst.datastream.WindowedStream.fold"]
    assert make_parity.lost_tests(wrong) == ["../../tests/conftest.py::test_that_never_was"]
