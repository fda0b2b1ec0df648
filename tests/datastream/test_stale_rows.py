"""Growing sessions in a sink with one row per key and window leave the row of the shorter session, and the query warns of it."""

import warnings
from types import SimpleNamespace

import pytest

import panestream as pst
from panestream.datastream.starting import warn_of_stale_rows
from panestream.engine.plan import Capabilities
from panestream.errors import PanestreamWarning

SESSIONS = pst.EventTimeSessionWindows.with_gap("5 minutes")
MERGED = pst.MergeSink("t", ["user"])


def asked(assigner=SESSIONS, trigger=None, lateness=0, changes=False, no_changelog=None):
    windowing = SimpleNamespace(assigner=assigner, trigger=trigger, allowed_lateness=lateness)
    return {
        "windowing": windowing,
        "operator": SimpleNamespace(capabilities=Capabilities(no_changelog=no_changelog)),
        "changes": changes,
    }


@pytest.mark.parametrize("sink", [MERGED, pst.KafkaSink("host:9092", "t", ["user"], compacted=True)])
def test_stale_rows_of_growing_sessions_are_warned_of_with_the_way_out(sink):
    with pytest.warns(PanestreamWarning, match=r"these windows grow: .*Add \.changelog\(\), which deletes it"):
        warn_of_stale_rows(**asked(lateness=1), sinks={"main": sink})
    early = asked(trigger=pst.ContinuousEventTimeTrigger.of("1 minute"), no_changelog="it runs row by row")
    with pytest.warns(PanestreamWarning, match=r"[Tt]ake the newest where you read them"):
        warn_of_stale_rows(**early, sinks={"main": sink})


@pytest.mark.parametrize(
    ("how", "sinks"),
    [
        (asked(), {"main": MERGED}),
        (asked(trigger=SESSIONS.get_default_trigger()), {"main": MERGED}),
        (asked(lateness=1, changes=True), {"main": MERGED}),
        (asked(lateness=1), {"main": pst.ParquetSink("out")}),
        (asked(lateness=1), {"main": pst.KafkaSink("host:9092", "t", ["user"])}),
        (asked(lateness=1), {"late": MERGED}),
        (asked(pst.TumblingEventTimeWindows.of("1 hour"), lateness=1), {"main": MERGED}),
    ],
)
def test_no_warning_if_no_stale_row_can_stay(how, sinks):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_stale_rows(**how, sinks=sinks)
