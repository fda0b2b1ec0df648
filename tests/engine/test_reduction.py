"""Reducing composed triggers to plain ones, and the lines of ``explain()`` about them."""

from __future__ import annotations

import pytest

from panestream.engine.plan import WindowQuery
from panestream.engine.rule import AT_EVERY_ROW, Reduction, reduced, reduction, told
from panestream.windowing.assigners import GlobalWindows, TumblingEventTimeWindows, TumblingProcessingTimeWindows
from panestream.windowing.triggers import (
    AfterAll,
    AfterCount,
    AfterProcessingTime,
    AfterWatermark,
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    EventTimeTrigger,
    PurgingTrigger,
    Repeatedly,
)

TEN, GLOBAL = TumblingEventTimeWindows(10), GlobalWindows.create()
AT_END = EventTimeTrigger.create()
EVERY, SOME = AfterCount(1), AfterCount(3)
CONTINUOUS = ContinuousEventTimeTrigger(5)


def spec(trigger, assigner=TEN, lateness=0):
    return WindowQuery(assigner, trigger, allowed_lateness=lateness)


@pytest.mark.parametrize(
    ("windowing", "plain"),
    [
        (spec(AfterWatermark()), AT_END),
        (spec(AfterWatermark().late(SOME)), AT_END),
        (spec(AfterWatermark().late(EVERY), lateness=1), AT_END),
        (spec(AfterWatermark().late(Repeatedly.of(Repeatedly.of(EVERY))), lateness=1), AT_END),
        (spec(AfterWatermark().late(CountTrigger(1)), lateness=1), AT_END),
        (spec(AfterWatermark().late(CountTrigger(0)), lateness=1), AT_END),
        (spec(AfterWatermark().early(EVERY)), AT_EVERY_ROW),
        (spec(AfterWatermark().early(Repeatedly.of(EVERY))), AT_EVERY_ROW),
        (spec(AfterWatermark().early(CountTrigger(1))), AT_EVERY_ROW),
        (spec(AfterWatermark().early(CONTINUOUS)), CONTINUOUS),
        (spec(AfterWatermark().early(Repeatedly.of(CONTINUOUS))), CONTINUOUS),
        (spec(Repeatedly.of(AfterWatermark())), AT_END),
        (spec(Repeatedly.of(AfterWatermark()), lateness=1), AT_END),
        (spec(Repeatedly.of(Repeatedly.of(AfterCount(4))), GLOBAL), CountTrigger(4)),
        (spec(Repeatedly.of(CountTrigger(4)), GLOBAL), CountTrigger(4)),
        (spec(PurgingTrigger.of(AfterWatermark())), PurgingTrigger.of(AT_END)),
        (spec(PurgingTrigger.of(Repeatedly.of(AfterCount(4))), GLOBAL), PurgingTrigger.of(CountTrigger(4))),
    ],
)
def test_composed_trigger_that_fires_like_a_plain_one_is_reduced_to_it(windowing, plain):
    assert reduction(windowing) == Reduction(plain)
    assert reduced(windowing).trigger == plain


LATE = "it drops the rows that come within the allowed lateness; .late(AfterCount.of(1)) has each fire again"
OF_TIME = "the watermark does not apply to such windows"


@pytest.mark.parametrize(
    ("windowing", "why"),
    [
        (spec(SOME), "AfterCount runs row by row"),
        (spec(AfterAll.of(SOME, AfterWatermark())), "AfterAll runs row by row"),
        (
            spec(Repeatedly.of(AfterAll.of(SOME, AfterWatermark()))),
            f"{AfterAll.of(SOME, AfterWatermark())!r} runs row by row",
        ),
        (
            spec(Repeatedly.of(AfterWatermark().late(EVERY))),
            f"{AfterWatermark().late(EVERY)!r} runs row by row",
        ),
        (spec(AfterWatermark(), TumblingProcessingTimeWindows(10)), OF_TIME),
        (spec(AfterWatermark(), GLOBAL), OF_TIME),
        (spec(AfterWatermark(), lateness=1), LATE),
        (spec(AfterWatermark().late(SOME), lateness=1), "late firings of AfterCount.of(3), not at every row"),
        (spec(AfterWatermark().late(CountTrigger(2)), lateness=1), "late firings of CountTrigger.of(2), not at every row"),
        (spec(AfterWatermark().early(SOME)), "early firings by AfterCount.of(3)"),
        (spec(AfterWatermark().early(CountTrigger(2))), "early firings by CountTrigger.of(2)"),
        (
            spec(AfterWatermark().early(AfterProcessingTime.of("1 minute"))),
            "early firings by the clock, while windows end by the watermark",
        ),
        (
            spec(AfterWatermark().early(ContinuousProcessingTimeTrigger(5))),
            "early firings by the clock, while windows end by the watermark",
        ),
    ],
)
def test_reason_why_a_composed_trigger_is_not_reduced(windowing, why):
    reason = f"{windowing.trigger!r} does not come to a trigger of columns: {why}"
    assert reduction(windowing) == Reduction(None, reason)
    assert reduced(windowing) is windowing
    assert reduction(windowing).reasons(["of another"]) == [reason]


def test_trigger_that_fires_and_purges_at_every_row_is_not_reduced():
    windowing = spec(PurgingTrigger.of(AfterWatermark().early(EVERY)))
    assert reduction(windowing) == Reduction(None, "what fires at every row and discards gives every row by itself")


@pytest.mark.parametrize("trigger", [None, AT_END, CountTrigger(3), PurgingTrigger.of(CountTrigger(3)), CONTINUOUS])
def test_plain_triggers_are_not_reduced(trigger):
    windowing = spec(trigger)
    assert reduction(windowing) is None
    assert reduced(windowing) is windowing


def test_reasons_of_a_reduced_trigger_name_the_plain_one():
    same = f"the composed trigger is the same as {AT_END!r}"
    assert reduction(spec(AfterWatermark())).reasons(["this", "that"]) == ["this", "that", same]
    assert reduction(spec(AfterWatermark().early(EVERY))).reasons(["this"]) == ["this"]


FINISHES = "it may finish: rows that come for a window after its last firing are dropped, and not counted as late"


@pytest.mark.parametrize(
    ("windowing", "columnar", "lines"),
    [
        (spec(AfterWatermark()), True, [f"AfterWatermark(): the same as {AT_END!r}"]),
        (spec(AfterWatermark()), False, [FINISHES]),
        (spec(AfterWatermark(), lateness=1), False, [FINISHES]),
        (spec(AfterWatermark().late(EVERY), lateness=1), True, [f"{AfterWatermark().late(EVERY)!r}: the same as {AT_END!r}"]),
        (spec(AfterWatermark().late(EVERY), lateness=1), False, []),
        (
            spec(AfterWatermark().early(EVERY)),
            True,
            [f"{AfterWatermark().early(EVERY)!r}: fires once a micro-batch, if rows came"],
        ),
        (spec(PurgingTrigger.of(SOME)), False, [FINISHES]),
        (spec(Repeatedly.of(SOME)), False, []),
        (spec(CountTrigger(3)), True, []),
        (spec(None), False, []),
    ],
)
def test_explain_lines_of_a_composed_trigger(windowing, columnar, lines):
    assert told(windowing, columnar=columnar) == lines
