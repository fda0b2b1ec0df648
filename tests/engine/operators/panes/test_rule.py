"""The rule for aligned panes: the queries that run on them, the reasons against others, and the settings of the operator."""

from __future__ import annotations

import pyarrow as pa
import pytest

from panestream.engine.kernels.panes import CumulatingWindows, SlidingWindows
from panestream.engine.operators.panes.firing import Interval
from panestream.engine.operators.panes.operator import panes_rule
from panestream.engine.operators.panes.rule import interval_of, pane_grid, why_not_aligned, why_not_panes
from panestream.engine.operators.row.contents import KeepRows
from panestream.engine.plan import WindowQuery
from panestream.engine.rule import AT_EVERY_ROW, PYTHON, DeclaredAggregates, FunctionOfRows, Supported, Unsupported
from panestream.errors import InvalidPlanError
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import (
    CalendarDays,
    CumulatingEventTimeWindows,
    CumulatingProcessingTimeWindows,
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowStagger,
)
from panestream.windowing.assigners.base import SeveralWindows
from panestream.windowing.evictors import CountEvictor
from panestream.windowing.functions import applied
from panestream.windowing.triggers import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    EventTimeTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
)

EVENT, CLOCK = TumblingEventTimeWindows(10), TumblingProcessingTimeWindows(10)
STAGGERED = TumblingEventTimeWindows(10, 0, WindowStagger.RANDOM)
EARLY, BY_CLOCK = ContinuousEventTimeTrigger(3), ContinuousProcessingTimeTrigger(3)
KEYS = pa.schema([("key", pa.string())])


def reason_single_rows(trigger):
    return [f"the trigger {trigger!r} looks at single rows, or at another time than its windows"]


@pytest.mark.parametrize(
    ("assigner", "reasons"),
    [
        (EVENT, []),
        (CalendarDays.of(1, zone="UTC"), []),
        (STAGGERED, ["staggered windows differ between key groups"]),
        (EventTimeSessionWindows(7), ["EventTimeSessionWindows are not aligned windows"]),
        (SeveralWindows.of({"a": EVENT, "b": STAGGERED}), ["staggered windows differ between key groups"]),
        (SeveralWindows.of({"a": EVENT, "b": CumulatingEventTimeWindows(20, 5)}), []),
    ],
    ids=repr,
)
def test_reasons_why_windows_have_no_panes(assigner, reasons):
    assert why_not_aligned(assigner) == reasons
    assert why_not_panes(WindowQuery(assigner)) == reasons


@pytest.mark.parametrize(
    ("window", "reasons"),
    [
        (WindowQuery(EVENT), []),
        (WindowQuery(EVENT, EventTimeTrigger(), allowed_lateness=5), []),
        (WindowQuery(EVENT, EARLY), []),
        (WindowQuery(EVENT, CountTrigger(2)), reason_single_rows(CountTrigger(2))),
        (WindowQuery(EVENT, ProcessingTimeTrigger()), reason_single_rows(ProcessingTimeTrigger())),
        (WindowQuery(EVENT, BY_CLOCK), reason_single_rows(BY_CLOCK)),
        (WindowQuery(CLOCK), []),
        (WindowQuery(CLOCK, BY_CLOCK), []),
        (WindowQuery(CLOCK, EventTimeTrigger()), reason_single_rows(EventTimeTrigger())),
        (WindowQuery(CLOCK, EARLY), reason_single_rows(EARLY)),
        (WindowQuery(EVENT, AT_EVERY_ROW, allowed_lateness=5), []),
        (WindowQuery(CLOCK, AT_EVERY_ROW), reason_single_rows(AT_EVERY_ROW)),
        (WindowQuery(EVENT, PurgingTrigger(AT_EVERY_ROW)), reason_single_rows(PurgingTrigger(AT_EVERY_ROW))),
        (WindowQuery(EVENT, PurgingTrigger(EventTimeTrigger())), []),
        (
            WindowQuery(EVENT, PurgingTrigger(EventTimeTrigger()), allowed_lateness=5),
            ["a purging trigger fires every late row by itself"],
        ),
        (WindowQuery(CLOCK, PurgingTrigger(ProcessingTimeTrigger()), allowed_lateness=5), []),
        (WindowQuery(EVENT, PurgingTrigger(EARLY)), []),
        (WindowQuery(SlidingEventTimeWindows(5, 10), PurgingTrigger(EARLY)), []),
        (
            WindowQuery(SlidingEventTimeWindows(20, 10), PurgingTrigger(EARLY)),
            ["a purging trigger takes rows out of one of several overlapping windows"],
        ),
        (WindowQuery(SlidingEventTimeWindows(20, 10), PurgingTrigger(EventTimeTrigger())), []),
        (WindowQuery(SlidingEventTimeWindows(20, 10), EARLY), []),
        (
            WindowQuery(EVENT, CountTrigger(2), CountEvictor(3), every_firing=True),
            ["an evictor needs all elements", "every firing was asked for"],
        ),
    ],
)
def test_reasons_why_a_trigger_does_not_run_on_panes(window, reasons):
    assert why_not_panes(window) == reasons


@pytest.mark.parametrize(
    ("trigger", "interval"),
    [
        (None, None),
        (EventTimeTrigger(), None),
        (PurgingTrigger(EventTimeTrigger()), None),
        (EARLY, Interval(3)),
        (BY_CLOCK, Interval(3)),
        (PurgingTrigger(EARLY), Interval(3, purging=True)),
    ],
)
def test_interval_of_a_continuous_trigger(trigger, interval):
    assert interval_of(WindowQuery(EVENT, trigger)) == interval


@pytest.mark.parametrize(
    ("assigner", "windows"),
    [
        (TumblingEventTimeWindows(10, 3), [SlidingWindows(10, 10, 3)]),
        (SlidingEventTimeWindows(20, 5, 1), [SlidingWindows(20, 5, 1)]),
        (SlidingProcessingTimeWindows(20, 5, 1), [SlidingWindows(20, 5, 1)]),
        (CumulatingEventTimeWindows(20, 5, 1), [CumulatingWindows(20, 5, 1)]),
        (CumulatingProcessingTimeWindows(20, 5, 1), [CumulatingWindows(20, 5, 1)]),
        (
            SeveralWindows.of({"a": EVENT, "b": SlidingEventTimeWindows(4, 2)}),
            [SlidingWindows(10, 10, 0), SlidingWindows(4, 2, 0)],
        ),
    ],
    ids=repr,
)
def test_pane_grid_of_aligned_windows(assigner, windows):
    assert list(pane_grid(assigner).windows) == windows


def test_pane_grid_of_sessions_is_an_error():
    with pytest.raises(TypeError, match="has no panes"):
        pane_grid(EventTimeSessionWindows(7))


def aggregates_request(*aggregates, keys=KEYS, then=None):
    return DeclaredAggregates(aggregates or (agg.count().alias("n"),), {"v": pa.int64()}, keys, then)


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        # by the clock, fires again, fires at rows
        (WindowQuery(EVENT), (False, False, False)),
        (WindowQuery(EVENT, allowed_lateness=5), (False, True, False)),
        (WindowQuery(CLOCK, allowed_lateness=5), (True, False, False)),
        (WindowQuery(EVENT, AT_EVERY_ROW, allowed_lateness=5), (False, True, True)),
        (WindowQuery(EVENT, EARLY), (False, False, False)),
    ],
)
def test_panes_rule_derives_clock_and_refiring_from_the_windows(window, expected):
    verdict = panes_rule(window, aggregates_request())
    assert isinstance(verdict, Supported)
    spec = verdict.operator
    assert (spec.by_processing_time, spec.fires_again, spec.fires_at_rows) == expected
    assert spec.capabilities.fires_once == (expected[1:] == (False, False) and window.trigger is not EARLY)
    assert (spec.interval, spec.grid) == (interval_of(window), pane_grid(window.assigner))
    # Hidden aggregates find the row that opened a window, because a continuous trigger counts from it. Results do not contain
    # them.
    assert spec.result_schema == pa.schema([("n", pa.int64())])
    assert spec.inputs == ()
    assert len(spec.hidden_columns) == (3 if window.trigger is EARLY else 0)


def test_python_functions_do_not_run_on_panes():
    function = KeepRows(applied(lambda key, window, rows: []))
    for request_ in (
        FunctionOfRows(function, KEYS, KEYS, "mine"),
        aggregates_request(then=applied(lambda key, window, rows: [])),
    ):
        assert panes_rule(WindowQuery(EVENT), request_) == Unsupported([PYTHON])
    assert panes_rule(WindowQuery(EVENT, CountTrigger(2)), FunctionOfRows(function, KEYS, KEYS, "mine")) == Unsupported(
        [*reason_single_rows(CountTrigger(2)), PYTHON]
    )


@pytest.mark.parametrize(
    "request_",
    [
        aggregates_request(keys=pa.schema([("window", pa.string())])),
        aggregates_request(agg.sum("v"), agg.count().alias("window")),
    ],
)
def test_results_of_several_windows_cannot_have_a_column_named_window(request_):
    assert isinstance(panes_rule(WindowQuery(EVENT), request_), Supported)
    with pytest.raises(InvalidPlanError, match="results of several windows have a column 'window' with the label"):
        panes_rule(WindowQuery(SeveralWindows.of({"a": EVENT, "b": SlidingEventTimeWindows(20, 10)})), request_)
