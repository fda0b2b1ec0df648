"""Inputs and answers of Apache Beam's own tests of triggers, as data.

Rows, times and answers come from Apache Beam 2.77.0, ``sdks/python/apache_beam/testing/data/trigger_transcripts.yaml`` and
``sdks/python/apache_beam/transforms/trigger_test.py``, Copyright The Apache Software Foundation, licensed under the Apache
License, Version 2.0 (https://www.apache.org/licenses/LICENSE-2.0). They have another form here. No code was taken.

Beam evaluates its triggers after every *bundle* of rows, panestream after every row. Some of Beam's answers are for larger
bundles only. For these, ``one_by_one`` is the answer of Beam's own ``GeneralTriggerDriver`` (2.77.0) to the same rows in bundles
of one. For tests that are pipelines, it follows from the trigger's definition.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import panestream as pst

Firings = Mapping[tuple[int, int], list[str]]
"""The firings of each window in order: the sorted values as one string. An empty pane is left out."""


Step = tuple[Any, ...]


@dataclass(frozen=True)
class Case:
    """One of Beam's tests.

    Attributes:
        name: Beam's name.
        windows, trigger, discards, lateness: the query. A trigger has the same name in both libraries.
        steps: ``("rows", times, values)``, ``("watermark", time)`` or ``("clock", time)``.
        published: Beam's answer.
        one_by_one: the answer with one row a bundle, if Beam published another answer or none.
        which: early, on time or late, for all firings in order.
        backwards: whether the reversed rows have the same answer.
        why: the reason why a case does not carry over.
    """

    name: str
    windows: pst.windows.WindowAssigner | None = None
    trigger: pst.triggers.Trigger | None = None
    steps: tuple[Step, ...] = ()
    published: Firings | None = None
    one_by_one: Firings | None = None
    discards: bool = False
    lateness: int = 10_000
    which: tuple[str, ...] = ()
    backwards: bool = False
    why: str = ""


def rows(text: str, *times: int) -> Step:
    return ("rows", times or tuple(range(len(text))), text)


END = ("watermark", 1000)
FIXED, HUNDRED, SESSIONS = pst.TumblingEventTimeWindows(10), pst.TumblingEventTimeWindows(100), pst.EventTimeSessionWindows(10)
DEFAULT, AT_END = pst.triggers.Repeatedly.of(pst.AfterWatermark()), pst.AfterWatermark()
BUNDLES = "published for larger bundles only; panestream evaluates rows one by one"
TIMES = "the time of a result, here always the last instant of its window. The values are the same"
CHECKER = "tests that the checker of transcripts refuses it, as it does here"
ABC: Firings = {(0, 10): ["abc"]}
EARLY_2 = pst.AfterWatermark().early(pst.triggers.AfterCount(2))

UNIT_TESTS = [
    Case("test_fixed_watermark", FIXED, AT_END, (rows("abc", 1, 2, 13), END), {(0, 10): ["ab"], (10, 20): ["c"]}, backwards=True),
    Case("test_fixed_watermark_with_early", FIXED, EARLY_2, (rows("abc", 1, 2, 3), END), {(0, 10): ["ab", "abc"]}),
    Case(
        "test_fixed_watermark_with_early, bundles of three", FIXED, EARLY_2, (rows("abc", 1, 2, 3), END),
        {(0, 10): ["abc", "abc"]}, {(0, 10): ["ab", "abc"]}, why=BUNDLES,
    ),
    Case(
        "test_fixed_watermark_with_early_late", HUNDRED, pst.AfterWatermark().early(pst.triggers.AfterCount(3)).late(pst.triggers.AfterCount(2)),
        (rows("abcdefghi"), END, rows("vwxyz")), {(0, 100): ["abcd", "efgh", "i", "vw", "xy"]},
        {(0, 100): ["abc", "def", "ghi", "vw", "xy"]}, discards=True, why=BUNDLES,
    ),
    Case(
        "test_sessions_watermark_with_early_late", SESSIONS, EARLY_2.late(pst.triggers.AfterCount(1)),
        (rows("abcd", 1, 15, 7, 30), END, rows("xyz", 1, 2, 21)),
        {(1, 25): ["abc", "abc", "abcxy"], (30, 40): ["d"], (1, 40): ["abcdxyz"]},
        {(1, 25): ["abc", "abc", "abcx", "abcxy"], (30, 40): ["d"], (1, 40): ["abcdxyz"]}, why=BUNDLES,
    ),
    Case("test_fixed_after_count", FIXED, pst.triggers.AfterCount(2), (rows("abcz", 1, 2, 3, 11), END), {(0, 10): ["ab"]}),
    Case(
        "test_fixed_after_count, bundles of three and four", FIXED, pst.triggers.AfterCount(2), (rows("abcz", 1, 2, 3, 11), END), ABC,
        {(0, 10): ["ab"]}, why=BUNDLES,
    ),
    Case(
        "test_fixed_after_first", FIXED, pst.triggers.AfterAny.of(pst.triggers.AfterCount(2), AT_END), (rows("abc", 1, 2, 3), END), {(0, 10): ["ab"]}
    ),
    Case(
        "test_fixed_after_first, the end comes first", FIXED, pst.triggers.AfterAny.of(pst.triggers.AfterCount(5), AT_END),
        (rows("abc", 1, 2, 3), END, rows("xyz", 1, 2, 3)), ABC,
    ),
    Case(
        "test_repeatedly_after_first", HUNDRED, pst.triggers.Repeatedly.of(pst.triggers.AfterAny.of(pst.triggers.AfterCount(3), AT_END)),
        (rows("abcdefg"), END, rows("xyz")), {(0, 100): ["abc", "abcdef", "abcdefg", "abcdefgx", "abcdefgxy", "abcdefgxyz"]},
    ),
    Case(
        "test_sessions_after_all", SESSIONS, pst.triggers.AfterAll.of(pst.triggers.AfterCount(2), AT_END), (rows("abc", 1, 2, 3), END),
        {(1, 13): ["abc"]},
    ),
    Case(
        "test_sessions_after_all, late rows complete it", SESSIONS, pst.triggers.AfterAll.of(pst.triggers.AfterCount(5), AT_END),
        (rows("abc", 1, 2, 3), END, rows("xyz", 1, 2, 3)), {(1, 13): ["abcxy"]},
    ),
    Case("test_sessions_default", SESSIONS, DEFAULT, (rows("ab", 1, 2), END), {(1, 12): ["ab"]}, backwards=True),
    Case(
        "test_sessions_default, many", SESSIONS, AT_END, (rows("abcdzefy", 1, 2, 15, 16, 30, 9, 10, 30), END),
        {(1, 26): ["abcdef"], (30, 40): ["yz"]}, backwards=True,
    ),
    Case("test_sessions_watermark", SESSIONS, AT_END, (rows("ab", 1, 2), END), {(1, 12): ["ab"]}, backwards=True),
    Case(
        "test_sessions_after_count", SESSIONS, pst.triggers.AfterCount(2), (rows("abcstzy", 1, 15, 6, 30, 31, 50, 50), END),
        {(1, 25): ["abc"], (30, 41): ["st"], (50, 60): ["yz"]},
    ),
    Case(
        "test_sessions_repeatedly_after_count", SESSIONS, pst.triggers.Repeatedly.of(pst.triggers.AfterCount(2)),
        (rows("abcde", 1, 15, 6, 2, 7), END), {(1, 25): ["abc", "abcde"]},
    ),
    Case(
        "test_sessions_repeatedly_after_count, discarding", SESSIONS, pst.triggers.Repeatedly.of(pst.triggers.AfterCount(2)),
        (rows("abcde", 1, 15, 6, 2, 7), END), {(1, 25): ["abc", "de"]}, discards=True,
    ),
    Case(
        "test_sessions_after_each", SESSIONS, pst.triggers.AfterEach.of(pst.triggers.AfterCount(2), pst.triggers.AfterCount(3)), (rows("abcdefghij"), END),
        {(0, 11): ["ab"], (0, 15): ["abcdef"]}, {(0, 11): ["ab"], (0, 14): ["abcde"]}, why=BUNDLES,
    ),
    Case(
        "test_sessions_after_each, repeatedly", SESSIONS,
        pst.triggers.Repeatedly.of(pst.triggers.AfterEach.of(pst.triggers.AfterCount(2), pst.triggers.AfterCount(3))), (rows("abcdefghij"), END),
        {(0, 11): ["ab"], (0, 15): ["abcdef"], (0, 17): ["abcdefgh"]},
        {(0, 11): ["ab"], (0, 14): ["abcde"], (0, 16): ["abcdefg"], (0, 19): ["abcdefghij"]}, why=BUNDLES,
    ),
    Case("test_picklable_output", why="pickling of Beam's own lists of results"),
    Case("test_trigger_encoding", why="Beam's protocol buffers. (panestream encodes triggers as JSON: test_composition.py)"),
    Case(
        "test_after_processing_time", FIXED, pst.triggers.AfterProcessingTime(20),
        (
            *(step for number in range(4) for step in (("clock", 5 * (number + 1)), rows(str(number), 0))),
            ("clock", 40), rows("x", 0), rows("y", 0), ("clock", 99), END,
        ),
        {(0, 10): ["0123"]}, discards=True,
    ),
    Case(
        "test_repeatedly_after_processing_time", FIXED, pst.triggers.Repeatedly.of(pst.triggers.AfterProcessingTime(200)),
        (*(step for number in range(7) for step in (("clock", 199 * (number + 1)), rows(str(number), 0))), ("clock", 5000), END),
        {(0, 10): ["01", "23", "45", "6"]}, discards=True,
    ),
    Case(
        "test_after_count", FIXED, pst.triggers.AfterCount(3), (rows("abcdefg", 1, 2, 3, 4, 5, 10, 11), END), {(0, 10): ["abcde"]},
        {(0, 10): ["abc"]}, discards=True, why=BUNDLES,
    ),
    Case("test_after_count_streaming", FIXED, pst.triggers.AfterCount(3), (rows("abcdef", *[0] * 6), END), ABC),
    Case(
        "test_always", FIXED, pst.triggers.Repeatedly.of(pst.triggers.AfterCount(1)), (rows("abc", 1, 1, 10), END), {(0, 10): ["ab"], (10, 20): ["c"]},
        {(0, 10): ["a", "b"], (10, 20): ["c"]}, discards=True, why=BUNDLES,
    ),
    Case("test_never", why="a Beam window that never fired emits its rows when it is closed; NeverTrigger emits nothing, as in Flink"),
    Case(
        "test_multiple_accumulating_firings", FIXED,
        pst.AfterWatermark().early(pst.triggers.AfterAll.of(pst.triggers.AfterCount(1), pst.triggers.AfterProcessingTime(5))),
        (
            ("watermark", 0), rows("abcde", *[0] * 5), ("watermark", 5), ("clock", 5),
            rows("fghij", *[5] * 5), ("watermark", 10), ("clock", 10),
        ),
        {(0, 10): ["abcde", "abcdefghij"]},
    ),
    Case("test_on_pane_watermark_hold_no_pipeline_stall", why="expects nothing; tests how a runner holds the watermark"),
    Case("UnsafeTriggerTests (17)", why="Beam refuses these triggers without a flag; explain() warns that they may finish"),
]  # fmt: skip

REFUSED: list[tuple[str, tuple[Step, ...], Firings]] = [
    ("bad_output", (), ABC),
    ("bad_expected_values", (("watermark", 100),), {(0, 10): ["12"]}),
    ("bad_expected_window", (("watermark", 100),), {(0, 20): ["123"]}),
    ("missing_output", (("watermark", 100), ("watermark", 200)), {}),
    ("missing_output_at_end", (("watermark", 100),), {}),
]
"""Transcripts that Beam's checker must refuse: the steps after the rows, and the wrong answer."""
MUST_FAIL = tuple(name for name, _, _ in REFUSED)
_FIXED_25: Firings = {(0, 10): ["123"], (10, 20): ["45"], (20, 30): ["6"]}
_ROWS_25 = (rows("123456", 1, 2, 3, 10, 11, 25), ("watermark", 100))

TRANSCRIPTS = [
    Case("fixed_default", FIXED, DEFAULT, (rows("12345", 1, 2, 3, 10, 11), ("watermark", 25)), {(0, 10): ["123"], (10, 20): ["45"]}),
    Case(
        "fixed_default_late_data", FIXED, DEFAULT, (*_ROWS_25, rows("7", 7)), {**_FIXED_25, (0, 10): ["123", "1237"]},
        which=("on_time", "on_time", "on_time", "late"), lateness=100,
    ),
    Case(
        "fixed_drop_late_data_after_allowed_lateness", FIXED,
        pst.AfterWatermark().early(pst.triggers.AfterCount(3)).late(pst.triggers.AfterCount(1)),
        (rows("123456", 1, 2, 10, 11, 80, 81), ("watermark", 100), rows("78", 7, 8), rows("90", 17, 18)),
        {(0, 10): ["12"], (10, 20): ["34"], (80, 90): ["56"]}, which=("on_time",) * 3, lateness=20,
    ),
    Case("timestamp_combiner_earliest", FIXED, DEFAULT, _ROWS_25, _FIXED_25, why=TIMES),
    Case("timestamp_combiner_latest", FIXED, DEFAULT, _ROWS_25, _FIXED_25, why=TIMES),
    Case("timestamp_combiner_custom_timestamping_eow", FIXED, DEFAULT, _ROWS_25, _FIXED_25),
    Case("timestamp_combiner_custom_timestamping_earliest", FIXED, DEFAULT, _ROWS_25, _FIXED_25, why=TIMES),
    Case("timestamp_combiner_custom_timestamping_earliest, transformed", FIXED, DEFAULT, _ROWS_25, _FIXED_25, why=TIMES),
    Case(
        "early_late_sessions", SESSIONS, EARLY_2.late(pst.triggers.AfterCount(3)),
        (rows("123456", 1, 2, 3, 4, 5, 6), ("watermark", 100), rows("789", 1, 3, 4)),
        {(1, 13): ["123"], (1, 15): ["12345"], (1, 16): ["123456", "123456789"]},
        {(1, 12): ["12"], (1, 14): ["1234"], (1, 16): ["123456", "123456", "123456789"]},
        which=("early", "early", "early", "on_time", "late"), why=BUNDLES,
    ),
    Case(
        "discarding_early_fixed", FIXED, EARLY_2, (rows("12345678", 1, 2, 3, 4, 14, 5, 18, 6), ("watermark", 100)),
        {(0, 10): ["123", "46", "8"], (10, 20): ["57"]}, {(0, 10): ["12", "34", "68"], (10, 20): ["57"]}, discards=True,
        which=("early",) * 4, why=BUNDLES + ". Beam also fires an empty last pane",
    ),
    Case(
        "garbage_collection", FIXED, pst.triggers.AfterCount(2), (rows("123456", 1, 2, 3, 10, 11, 25),),
        {(0, 10): ["123"], (10, 20): ["45"]}, {(0, 10): ["12"], (10, 20): ["45"]}, discards=True, lateness=10, why=BUNDLES,
    ),
    Case(
        "known_late_data_watermark", FIXED, DEFAULT, (("watermark", 5), rows("1234", 2, 3, 7, 8), ("watermark", 11)),
        {(0, 10): ["1234"]}, why=TIMES,
    ),
    Case(
        "known_late_data_no_watermark_hold_possible", FIXED, DEFAULT, (("watermark", 8), rows("123", 2, 3, 7), ("watermark", 11)),
        {(0, 10): ["123"]},
    ),
    *(Case(name, FIXED, DEFAULT, (rows("123", 1, 2, 3), *steps), wrong, why=CHECKER) for name, steps, wrong in REFUSED),
]  # fmt: skip


def table(cases: list[Case]) -> list[str]:
    """Return a page's table of the cases and whether they carry over."""
    lines = ["| Beam's test | its answer | what does not carry over |", "|---|---|---|"]
    for case in cases:
        if case.name in MUST_FAIL:
            answer = "refused, as it must be"
        elif case.published is None:
            answer = "not read"
        elif case.one_by_one is None:
            answer = "passes"
        else:
            answer = "passes with one row a bundle"
        lines.append(f"| {case.name} | {answer} | {case.why} |")
    return lines
