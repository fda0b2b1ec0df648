"""The modes of a query that its checkpoint is tied to."""

import re
import warnings
from types import SimpleNamespace

import pytest

from panestream.engine.plan import Capabilities
from panestream.errors import CheckpointError, PanestreamWarning
from panestream.spark.checkpoint.lease import CheckpointMode
from panestream.spark.progress.notices import Jumps, Notices

EVENT_TIME = SimpleNamespace(operator=SimpleNamespace(capabilities=Capabilities()), processing_time=None)
CLOCK = SimpleNamespace(operator=SimpleNamespace(capabilities=Capabilities(uses_processing_time=True)), processing_time=None)


def test_mode_of_a_checkpoint_stays_as_it_started():
    begun = {"clock": True, "signals": True}
    assert CheckpointMode().on(begun, EVENT_TIME, "here") == CheckpointMode(clock=True, signals=True)
    assert CheckpointMode(clock=True, signals=True).on(begun, EVENT_TIME, "here") == CheckpointMode(clock=True, signals=True)
    assert CheckpointMode().as_json() == {"clock": False, "signals": False}


def test_mode_of_an_old_checkpoint_follows_from_its_plan():
    assert CheckpointMode(clock=True).on({}, CLOCK, "here") == CheckpointMode(clock=True)
    # Closing on silence is added to a query that has a clock but no signals.
    assert CheckpointMode(clock=True, signals=True).on({}, CLOCK, "here") == CheckpointMode(clock=True)
    with pytest.raises(CheckpointError, match="no clock wakes"):
        CheckpointMode(clock=True, signals=True).on({}, EVENT_TIME, "here")


@pytest.mark.parametrize(
    ("mode", "begun", "said"),
    [
        (CheckpointMode(clock=True), {"clock": False}, "no clock wakes"),
        (CheckpointMode(ends=True), {"clock": True}, "with processing-time timers"),
        (CheckpointMode(ends=True, closes=True, signals=True), {"clock": False}, "without fire_at_end=True"),
    ],
    ids=["no clock", "no end", "no signals"],
)
def test_mode_that_spark_would_refuse_is_refused_with_a_way_out(mode, begun, said):
    with pytest.raises(CheckpointError, match=rf"the checkpoint here .*{said}.*from a savepoint of this one"):
        mode.on(begun, EVENT_TIME, "here")


def test_watermark_jump_by_silence_is_not_warned_of():
    plan = SimpleNamespace(watermark=SimpleNamespace(limits_ahead=False))
    week = SimpleNamespace(batch_id=3, rows=0, history_rows=0, watermark_before=0, watermark=7 * 86_400_000_000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Jumps(plan).look(week)
    week.rows = 1
    with pytest.warns(PanestreamWarning, match="micro-batch 3 moved the watermark by 1 week|by 7 days"):
        Jumps(plan).look(week)


def test_start_warns_once_of_late_rows_and_of_a_jump():
    plan = SimpleNamespace(watermark=SimpleNamespace(limits_ahead=False), late_tags=())
    week = SimpleNamespace(batch_id=3, rows=5, history_rows=0, late_rows=2, watermark_before=0, watermark=7 * 86_400_000_000)
    notices = Notices.of(plan, kept=False)
    with pytest.warns(PanestreamWarning) as told:
        notices.look(week)
    assert [re.split("[,:] ", str(each.message))[0] for each in told] == [
        "micro-batch 3 moved the watermark by 7 days",
        "micro-batch 3 dropped 2 late rows",
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        notices.look(week)
    with pytest.warns(PanestreamWarning) as told:
        Notices.of(plan, kept=True).look(week)
    assert ["late rows" in str(each.message) for each in told] == [False]
