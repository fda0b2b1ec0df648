"""``pst.tools.why`` and ``pst.tools.timeline`` of a checkpoint and of a savepoint."""

import datetime as dt

import pytest

import panestream as pst
from panestream import agg
from panestream.errors import CheckpointError, InvalidPlanError
from panestream.testing import MicroBatches
from panestream.windowing.windows import TimeWindow

pytestmark = pytest.mark.spark
START = dt.datetime(2026, 1, 1, 10, tzinfo=dt.timezone.utc)


def at(minutes):
    return START + dt.timedelta(minutes=minutes)


class Count(pst.ProcessWindowFunction):
    def process(self, key, context, elements):
        yield (len(list(elements)),)


def run(spark, folder, windows, computed):
    """Run twenty rows of two users, one a minute, with a watermark five minutes later: 10:14."""
    orders = MicroBatches(spark, folder / "orders", "user string, price bigint, ts timestamp")
    orders.add([("ann" if n % 2 else "bob", n, at(n)) for n in range(20)])
    strategy = pst.WatermarkStrategy.for_bounded_out_of_orderness("5 minutes")
    stream = pst.stream(orders.stream()).assign_timestamps("ts", strategy).key_by("user").window(windows).options(key_groups=2)
    main, checkpoint = pst.ParquetSink(str(folder / "out")), str(folder / "checkpoint")
    computed(stream).start(main=main, checkpoint=checkpoint).await_termination()
    return pst.state.read_checkpoint(spark, checkpoint)


@pytest.fixture(scope="module")
def panes(spark, tmp_path_factory):
    windows = pst.TumblingEventTimeWindows.of("10 minutes")
    return run(spark, tmp_path_factory.mktemp("panes"), windows, lambda s: s.aggregate(agg.sum("price").alias("total")))


@pytest.fixture(scope="module")
def rows(spark, tmp_path_factory):
    windows = pst.EventTimeSessionWindows.with_gap("6 minutes")
    return run(spark, tmp_path_factory.mktemp("rows"), windows, lambda s: s.process(Count(), "n bigint"))


def test_why_of_state_explains_an_open_and_a_closed_window(panes):
    told = str(pst.tools.why(panes, key="ann", at=at(12)))
    assert "The watermark is at 2026-01-01 10:13:59.999999." in told
    assert "5 rows went in; results so far: total=75." in told
    assert "It fires when the watermark comes to 2026-01-01 10:19:59.999999." in told
    assert "Such a row is taken, if it comes now." in told
    told = str(pst.tools.why(panes, key="ann", at=at(8)))
    assert "[2026-01-01 10:00:00, 2026-01-01 10:10:00) is closed since the watermark came to 2026-01-01 10:09:59.999999." in told
    assert "Such a row is late, if it comes now" in told


def test_why_of_state_answers_for_all_keys_and_refuses_a_wrong_key(panes):
    (facts,) = pst.tools.why(panes, window=at(10)).facts
    assert {one.key: one.results for one in facts.known} == {"ann": {"total": 75}, "bob": {"total": 70}}
    with pytest.raises(CheckpointError, match="a tuple of one for each"):
        pst.tools.why(panes, key=("ann", 1), at=at(12))
    with pytest.raises(InvalidPlanError, match="does not record rows"):
        pst.tools.why(panes, row={"user": "ann"})


def test_why_of_state_shows_the_session_that_a_row_would_join_and_stored_rows(rows):
    (facts,) = pst.tools.why(rows, key="bob", at=at(18)).facts
    assert [row.value.price for row in facts.kept] == [18]
    (now,) = facts.windows
    assert (now.is_open, [len(pst.tools.why(rows, key="bob", window=known.window).facts) for known in now.known]) == (True, [1])
    with pytest.raises(InvalidPlanError, match="the session of a row"):
        pst.tools.why(rows, at=at(18))


def test_timeline_of_state_draws_open_windows(panes, rows):
    (layout,) = pst.tools.timeline(rows, key="bob").layouts
    assert [point.text for point in layout.points] == [""] * 10
    assert len(layout.bars) == 1
    trace = panes.trace(key="ann")
    assert [one.window for one in trace.windows] == [TimeWindow(*(int(at(n).timestamp() * 1e6) for n in (10, 20)))]
    with pytest.raises(CheckpointError, match="at most 1 of each are drawn: ask for one key"):
        panes.trace(most=1)


def test_why_of_a_savepoint_equals_why_of_its_checkpoint(spark, panes, tmp_path):
    pst.savepoint(spark, panes.path, str(tmp_path / "saved"))
    saved = pst.state.read_savepoint(spark, str(tmp_path / "saved"))
    assert pst.tools.why(saved, key="ann", at=at(12)).facts == pst.tools.why(panes, key="ann", at=at(12)).facts
