"""Views of aligned panes: open windows with their current results, when they fire next and when they are deleted."""

from __future__ import annotations

import pyarrow as pa
import pytest

from panestream.engine.plan import WindowQuery
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import SlidingEventTimeWindows, TumblingEventTimeWindows, TumblingProcessingTimeWindows
from panestream.windowing.triggers import ContinuousEventTimeTrigger, ContinuousProcessingTimeTrigger
from panestream.windowing.watermarks import WatermarkStrategy
from tests.comparison import harness
from tests.comparison.savepoints import Query

AGGREGATES = (agg.count().alias("n"), agg.sum("v").alias("total"))


def windows_in_view(windowing, *batches, **more):
    """Return key, start, end, results, rows, due and closing time of each window. Input rows are key, time, value."""
    query = Query(harness.Query(windowing, AGGREGATES, more=more).columnar(), 1)
    for clock, rows in batches:
        query.run(harness.MicroBatch([[(key, time, value, None, value) for key, time, value in rows]], clock=clock))
    (saved,) = query.tables()
    view = query.plan.operator.views(query.plan, saved, 0)
    table = view.windows
    for name in ("window_start", "window_end", "due", "closes"):
        table = table.set_column(table.schema.get_field_index(name), name, table.column(name).cast(pa.int64()))
    timers = view.timers.column("time").cast(pa.int64()).to_pylist()
    assert timers == [due for due in table.column("due").to_pylist() if due is not None], "they follow from what is due"
    return [
        (
            row["key"]["key"],
            row["window_start"],
            row["window_end"],
            tuple(row["results"].values()),
            row["rows"],
            row["due"],
            row["closes"],
        )
        for row in table.to_pylist()
    ]


def test_views_show_due_at_the_last_instant_and_closing_after_the_lateness():
    windowing = WindowQuery(SlidingEventTimeWindows(20, 10), allowed_lateness=5)
    # The watermark is 11. Windows that end at 10 have fired and are kept, and fire again only for a late row.
    assert windows_in_view(windowing, (0, [("a", 3, 7), ("b", 12, 1), ("a", 12, 2)])) == [
        ("a", -10, 10, (1, 7), 1, None, 14),
        ("a", 0, 20, (2, 9), 2, 19, 24),
        ("b", 0, 20, (1, 1), 1, 19, 24),
        ("a", 10, 30, (1, 2), 1, 29, 34),
        ("b", 10, 30, (1, 1), 1, 29, 34),
    ]


@pytest.mark.parametrize(
    ("newest", "due"),
    [(12, 12), (13, 16), (16, 16), (17, 19), (19, 19)],
    ids=["before a multiple", "at it", "before the last", "after the last", "before the end"],
)
def test_views_show_a_continuous_trigger_due_at_the_next_multiple_or_the_end(newest, due):
    # The watermark is the newest time minus one.
    windowing = WindowQuery(TumblingEventTimeWindows(20), ContinuousEventTimeTrigger(4))
    assert windows_in_view(windowing, (0, [("a", 3, 7), ("a", newest, 2)])) == [("a", 0, 20, (2, 9), 2, due, 19)]


def test_views_show_windows_due_at_their_end_without_a_watermark():
    windowing = WindowQuery(TumblingEventTimeWindows(20), ContinuousEventTimeTrigger(4))
    never = WatermarkStrategy.no_watermarks()
    assert windows_in_view(windowing, (0, [("a", 3, 7)]), watermark=never) == [("a", 0, 20, (1, 7), 1, 19, 19)]


@pytest.mark.parametrize(("trigger", "due"), [(None, 119), (ContinuousProcessingTimeTrigger(4), 108)])
def test_views_show_when_processing_time_windows_are_due(trigger, due):
    windowing = WindowQuery(TumblingProcessingTimeWindows(20), trigger)
    # The clock has passed 104, not 108. A timer is due once the clock has passed it.
    assert windows_in_view(windowing, (101, [("a", 3, 7)]), (108, [("b", 3, 2)])) == [
        ("a", 100, 120, (1, 7), 1, due, 119),
        ("b", 100, 120, (1, 2), 1, due, 119),
    ]
