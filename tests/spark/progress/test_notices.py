"""The warnings of a running query about its micro-batches, once for each start. Without Spark."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace

import pytest

from panestream.errors import PanestreamWarning
from panestream.spark.progress.micro_batch import BatchProgress
from panestream.spark.progress.notices import DroppedBySpark, Jumps, LateRows, Notices
from panestream.windowing.watermarks import WatermarkStrategy
from tests.engine.exchange.test_exchange import plan as plan_of

DAY = 24 * 3600 * 1_000_000
PLAN = plan_of()
BOUNDED = replace(PLAN, watermark=WatermarkStrategy.for_bounded_out_of_orderness("1 minute").max_ahead("1 hour"))
SAID_ONCE = "(Shown once for each start; the counts of every micro-batch are in query.recent_progress.)"


def batch(batch_id=4, rows=10, **told):
    known = dict.fromkeys(("late_rows", "invalid_rows", "fired_rows", "fired_windows", "state_bytes", "state_calls"), 0)
    known |= {"open_windows": 0, "watermark": None, "max_event_time": None, "duration_ms": 5, "rows_per_second": 1.0}
    return BatchProgress(batch_id=batch_id, rows=rows, **{**known, **told})


def warnings_about(notice, *batches):
    """Return the warnings about some micro-batches. Check that each names a line of this file."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for each in batches:
            notice.look(each)
    assert all((each.category, each.filename) == (PanestreamWarning, __file__) for each in caught)
    return [str(each.message) for each in caught]


def test_first_late_rows_without_a_sink_are_warned_of():
    (found,) = warnings_about(LateRows(PLAN, False), batch(3), batch(4, late_rows=1), batch(5, late_rows=2))
    assert found == (
        "micro-batch 4 dropped 1 late row: keep them with .side_output_late_data('late') and "
        f"start(late=...), or wait longer for them: more delay of the watermark, .allowed_lateness(...). {SAID_ONCE}"
    )
    without_sink = LateRows(replace(PLAN, late_tag="behind"), False)
    (found,) = warnings_about(without_sink, batch(7, late_rows=1234))
    assert found == (
        f"micro-batch 7 dropped 1,234 late rows: they have an output, 'behind', but no sink: start(behind=...). {SAID_ONCE}"
    )
    assert warnings_about(LateRows(PLAN, True), batch(late_rows=5)) == []


@pytest.mark.parametrize(
    ("told", "moved"),
    [
        ({"watermark_before": 5, "watermark": 6 + DAY}, "by 1 day, to 1970-01-02T00:00:00.000006Z"),
        ({"watermark_before": 5, "watermark": 5 + DAY}, None),
        ({"watermark_before": 5, "watermark": None}, None),
        # Without rows, silence moved the watermark. History also moves it.
        ({"watermark_before": 5, "watermark": 6 + DAY, "rows": 0}, None),
        (
            {"watermark_before": 5, "watermark": 5 + 2 * DAY, "rows": 0, "history_rows": 1},
            "by 2 days, to 1970-01-03T00:00:00.000005Z",
        ),
        ({"watermark": 3_000_000 + 2 * DAY}, "to 1970-01-03T00:00:03Z, 2 days ahead of the clock"),
        ({"watermark": 3_000_000 + DAY}, None),
    ],
)
def test_first_watermark_jump_over_a_day_is_warned_of(told, moved):
    notice = Jumps(PLAN, clock=lambda: 3.7)
    found = warnings_about(notice, batch(**told), batch(5, **told))
    assert len(found) == (moved is not None)
    assert moved is None or found[0].startswith(f"micro-batch 4 moved the watermark {moved}: if a row with a wrong event time")
    assert warnings_about(Jumps(BOUNDED, clock=lambda: 3.7), batch(**told)) == []


def test_first_rows_that_spark_drops_are_warned_of():
    notice = DroppedBySpark()
    (one,) = warnings_about(notice, batch(1), batch(2, spark_dropped_rows=1), batch(3, spark_dropped_rows=2))
    assert one.startswith(
        "in micro-batch 2 Spark's own operators in this query (joins, dropDuplicates, groupBy) dropped 1 row as late"
    )
    assert re.search("dropped 1,200 rows as late", *warnings_about(DroppedBySpark(), batch(spark_dropped_rows=1200)))


def test_notices_of_a_start_cover_late_rows_and_jumps():
    told = batch(late_rows=2, watermark_before=0, watermark=9 * DAY)

    def all_said(kept):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            Notices.of(PLAN, kept=kept).look(told)
        return [str(each.message).split(":")[0] for each in caught]

    jumped, late = (
        "micro-batch 4 moved the watermark by 9 days, to 1970-01-10T00",
        "micro-batch 4 dropped 2 late rows",
    )
    assert all_said(kept=False) == [jumped, late]
    assert all_said(kept=True) == [jumped]
