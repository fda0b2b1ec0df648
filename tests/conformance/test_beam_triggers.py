"""Beam's own tests of triggers, with a micro-batch for every row, and a restart after each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import panestream as pst
from panestream.testing import WindowTestHarness
from tests.conformance.beam_triggers import MUST_FAIL, TRANSCRIPTS, UNIT_TESTS, Case, table

PAGE = Path(__file__).resolve().parents[2] / "docs" / "coming-from" / "beam-triggers.md"
CARRIED = [case for case in [*UNIT_TESTS, *TRANSCRIPTS] if case.published is not None and case.name not in MUST_FAIL]


def sorted_values(key: Any, window: Any, elements: Any) -> list[str]:
    """Return the elements of a window, sorted."""
    return ["".join(sorted(elements))]


def firings_by_window(case: Case, *, backwards: bool = False) -> dict[tuple[int, int], list[str]]:
    """Return the firings of each window."""
    found: dict[tuple[int, int], list[str]] = {}
    for window, values in firings_in_order(case, backwards=backwards, restarts=True)[0]:
        found.setdefault(window, []).append(values)
    return found


def firings_in_order(
    case: Case, *, backwards: bool = False, restarts: bool
) -> tuple[list[tuple[tuple[int, int], str]], WindowTestHarness]:
    """Return all firings in order, and the harness."""
    trigger = pst.PurgingTrigger.of(case.trigger) if case.discards and case.trigger is not None else case.trigger
    assert case.windows is not None
    harness = WindowTestHarness(
        case.windows, trigger=trigger, allowed_lateness=case.lateness, traced=not restarts, apply=sorted_values
    )
    found: list[tuple[tuple[int, int], str]] = []
    for kind, given, *values in case.steps:
        rows: list[Any] = list(zip(given, *values, strict=True)) if kind == "rows" else [None]
        for row in reversed(rows) if backwards else rows:
            if row is not None:
                harness.process_element(row[1], row[0], "k")
            elif kind == "watermark":
                harness.process_watermark(given)
            else:
                harness.set_processing_time(given)
            fired_now: list[Any] = harness.extract_output()
            found += [((each.window.start, each.window.end), each.value) for each in fired_now]
            if restarts:
                harness.restore(harness.snapshot())
    return found, harness


@pytest.mark.parametrize("case", CARRIED, ids=lambda case: case.name)
def test_triggers_give_the_answers_of_beam(case: Case) -> None:
    answer = case.published if case.one_by_one is None else case.one_by_one
    assert firings_by_window(case) == answer
    if case.backwards:
        assert firings_by_window(case, backwards=True) == answer
    if case.which:
        assert tuple(firing.which for firing in firings_in_order(case, restarts=False)[1].trace().firings) == case.which


@pytest.mark.parametrize("case", [case for case in TRANSCRIPTS if case.name in MUST_FAIL], ids=lambda case: case.name)
def test_cases_that_do_not_carry_over_give_another_answer(case: Case) -> None:
    assert firings_by_window(case) != case.published


def test_answer_for_bundles_of_one_row_is_listed_only_if_it_differs() -> None:
    assert not [case.name for case in CARRIED if case.one_by_one == case.published]
    assert all(case.why for case in [*UNIT_TESTS, *TRANSCRIPTS] if case.published is None or case.one_by_one is not None)


def test_page_lists_all_cases_of_beam() -> None:
    text = PAGE.read_text("utf-8")
    for cases in (TRANSCRIPTS, UNIT_TESTS):
        assert "\n".join(table(cases)) in text, "\n".join(table(cases))
