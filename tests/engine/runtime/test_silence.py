"""When all input is silent, the watermark follows the clock."""

import random

import pytest

from panestream.engine.runtime.group_io import GroupInput
from panestream.engine.runtime.group_operator import check_closable, last_instant
from panestream.engine.runtime.watermarks import Silence, WatermarkTracker
from panestream.errors import InvalidPlanError
from panestream.windowing.assigners import (
    EventTimeSessionWindows,
    GlobalWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    WindowStagger,
)
from panestream.windowing.assigners.base import SeveralWindows
from panestream.windowing.time import MIN_TIMESTAMP
from panestream.windowing.watermarks import WatermarkStrategy


def strategy(delay=0, after=30, **more):
    return WatermarkStrategy(delay, closes_after=after, **more)


def rows(clock, run="1", **seen):
    return GroupInput(seen=seen or {"": clock}, input_rows=1, batch_time=clock, run=run, planned_in=run)


def without_rows(clock, run="1"):
    return GroupInput(batch_time=clock, run=run, planned_in=run)


def test_silence_is_the_time_in_which_the_source_had_no_rows():
    silence = Silence()
    silence.hear(["a"], 100, "1", 30, 1)
    assert (silence.up, silence.rows, silence.due) == (0, 0, 103)
    assert silence.ask(110, "1", 30, 1) is False
    assert (silence.up, silence.rows, silence.due) == (10, 0, 113)
    silence.hear(["b"], 115, "1", 30, 1)
    assert (silence.up, silence.rows, silence.due, silence.heard) == (15, 15, 118, {"a": 0, "b": 15})
    assert silence.ask(144, "1", 30, 1) is False
    assert silence.due == 145, "the last look is when the silence is long enough"
    assert silence.ask(145, "1", 30, 1) is True
    assert (silence.due, silence.of("a"), silence.of("b"), silence.of("new")) == (147, 45, 30, 0)
    # A clock that stands still or is set back adds no silence.
    assert silence.ask(145, "1", 30, 1) is True
    assert silence.ask(140, "1", 30, 1) is True
    assert (silence.up, silence.asked, silence.due) == (45, 145, 146)
    # Time before the start of a run adds no silence.
    assert silence.ask(1000, "2", 30, 1) is True
    assert (silence.up, silence.asked, silence.due) == (45, 1000, 1001)


@pytest.mark.parametrize(
    ("after", "tick", "step"), [(30, 1, 3), (30, 2, 2), (39, 1, 3), (30, 5, 5), (9, 1, 1), (30_000, 1000, 3000)]
)
def test_pause_between_looks_is_a_tenth_of_the_silence_in_whole_ticks(after, tick, step):
    silence = Silence()
    silence.hear([""], 0, "1", after, tick)
    assert silence.due == step
    assert silence.ask(after, "1", after, tick)
    assert silence.due == after + step


def test_first_looks_of_a_run_are_close_to_each_other():
    silence, dues = Silence(), []
    silence.hear([""], 0, "1", 1000, 1)
    for _ in range(9):
        silence.ask(silence.due, "2", 1000, 1)
        dues.append(silence.due)
    assert dues == [101, 103, 107, 115, 131, 163, 227, 327, 427]


def test_watermark_stays_until_the_silence_is_long_enough():
    tracker = WatermarkTracker(strategy())
    tracker.take_in(rows(1000))
    assert tracker.take_in(without_rows(1030, "2")) == 999
    assert tracker.take_in(without_rows(1060, "2")) == 999 + 30


@pytest.mark.parametrize(("timeout", "watermark"), [(29, 1029), (30, 1029), (31, 729)])
def test_partition_is_idle_from_its_timeout_on(timeout, watermark):
    """If all partitions are idle, the one furthest ahead sets the watermark."""
    tracker = WatermarkTracker(strategy(idle_timeout=timeout).per_partition("p"))
    tracker.take_in(rows(1000, a=1000, b=700))
    assert tracker.take_in(without_rows(1030)) == watermark


def test_silence_of_a_partition_is_the_longer_of_two_counts():
    tracker = WatermarkTracker(strategy(idle_timeout=20).per_partition("p"))
    tracker.take_in(rows(1000, a=1000, b=700))
    assert [tracker.silent_for(name) for name in "ab"] == [0, 0]
    tracker.take_in(rows(1008, a=1008))
    tracker.take_in(without_rows(1040))
    assert [tracker.silent_for(name) for name in "ab"] == [32, 40]
    tracker.partitions["b"].silent = 50
    assert [tracker.silent_for(name) for name in "ab"] == [32, 50]


def test_watermark_follows_the_clock_from_the_last_row():
    tracker = WatermarkTracker(strategy(delay=5))
    tracker.take_in(rows(1000))
    assert tracker.wake_up() == 1002, "all key groups look for the first time a tenth of the silence after the row"
    assert tracker.take_in(without_rows(1029)) == 994
    assert tracker.take_in(without_rows(1030)) == 994 + 30
    assert tracker.wake_up() == 1031
    assert tracker.take_in(without_rows(1031)) == 994 + 30  # a key group may be woken for other reasons, which does not move time
    assert tracker.take_in(without_rows(1041)) == 994 + 41


def test_watermark_of_old_data_advances_at_the_pace_of_the_clock():
    tracker = WatermarkTracker(strategy())
    tracker.take_in(rows(10**6, **{"": 50}))
    assert tracker.take_in(without_rows(10**6 + 40)) == 49 + 40


def test_rows_end_the_silence_and_the_watermark_does_not_go_back():
    tracker = WatermarkTracker(strategy())
    tracker.take_in(rows(1000))
    assert tracker.take_in(without_rows(1100)) == 1099
    assert tracker.take_in(rows(1101, **{"": 1001})) == 1099
    assert tracker.take_in(without_rows(1120)) == 1099
    # Counted from the last row, not from the watermark.
    assert tracker.take_in(without_rows(1131)) == 1099
    assert tracker.take_in(without_rows(1250)) == 1000 + 149


@pytest.mark.parametrize("down", [0, 1, 10**6])
def test_downtime_of_the_query_is_not_silence(down):
    tracker = WatermarkTracker(strategy())
    tracker.take_in(rows(1000))
    assert tracker.take_in(without_rows(1040)) == 1039
    again = WatermarkTracker.from_json(tracker.strategy, tracker.to_json())
    begin = 1043 + down
    assert again.take_in(without_rows(begin, "2")) == 1039
    assert again.take_in(without_rows(begin + 10, "2")) == 999 + 40 + 10


def observe_silence(tracker, run_lengths, down=(1,)):
    """Run empty micro-batches, one per second, until time advances. Return the number of seconds in which runs observed the
    silence.
    """
    clock, observed, watermark = 1000, 0, tracker.take_in(rows(1000, run="0"))
    for run, length in enumerate(run_lengths):
        tracker = WatermarkTracker.from_json(tracker.strategy, tracker.to_json())
        for number in range(length):
            clock += 1 if number or not run else down[run % len(down)]
            observed += bool(number) or not run
            moved = tracker.take_in(without_rows(clock, str(run))) - watermark
            assert moved <= observed, "time goes on by no more than was observed"
            if moved:
                return observed
    raise AssertionError(f"{run_lengths[:9]}, ...: nothing closes though runs observed {observed} seconds of silence")


@pytest.mark.parametrize("after", [3, 30, 1000])
@pytest.mark.parametrize("length", [2, 3, 10, 16, 20, 24, 28, 29, 32])
def test_silence_adds_up_over_runs_that_are_shorter_than_it(length, after):
    assert after <= observe_silence(WatermarkTracker(strategy(after=after)), [length] * 3000) <= 2.5 * after
    assert observe_silence(WatermarkTracker(strategy(after=after)), [10_000]) == after, "one run loses nothing"


@pytest.mark.parametrize("seed", range(20))
def test_observed_silence_counts_for_any_restarts(seed):
    rng = random.Random(seed)
    after, most = rng.choice([5, 30, 100]), rng.choice([3, 10, 40])
    lengths = [rng.randint(2, most) for _ in range(600)]
    down = [rng.choice([0, 1, rng.randint(1, 3 * after)]) for _ in range(97)]
    assert after <= observe_silence(WatermarkTracker(strategy(after=after)), lengths, down) <= 2.5 * after


def test_older_state_with_a_later_next_look_is_read():
    tracker = WatermarkTracker(strategy())
    tracker.take_in(rows(1000))
    saved = tracker.to_json()
    saved["silence"]["due"] = 1030
    again = WatermarkTracker.from_json(tracker.strategy, saved)
    assert again.take_in(without_rows(1029)) == 999
    assert again.take_in(without_rows(1030)) == 999 + 30


def test_repeated_micro_batch_gives_the_same_watermark():
    tracker = WatermarkTracker(strategy())
    tracker.take_in(rows(1000))
    saved = tracker.to_json()
    assert tracker.take_in(without_rows(1040)) == 1039
    again = WatermarkTracker.from_json(tracker.strategy, saved)
    assert again.take_in(GroupInput(batch_time=1040, run="2", planned_in="1")) == 1039
    # The time between it and the first micro-batch of the new run is not silence.
    assert again.take_in(without_rows(5000, "2")) == 1039
    assert again.take_in(without_rows(5003, "2")) == 1042


def test_watermark_waits_if_the_clock_is_set_back():
    tracker = WatermarkTracker(strategy())
    tracker.take_in(rows(1000))
    assert tracker.take_in(without_rows(1035)) == 1034
    for clock in (900, 1036, 1037):
        assert tracker.take_in(without_rows(clock)) == 1034
    assert tracker.take_in(without_rows(1038)) == 1037


def test_silent_partitions_advance_from_their_own_last_rows():
    tracker = WatermarkTracker(strategy().per_partition("p"))
    tracker.take_in(rows(1000, a=1000, b=700))
    tracker.take_in(rows(1010, a=1010))
    assert tracker.watermark == 699
    # b has been silent for longer, so it keeps the lag that it had at its last row.
    assert tracker.take_in(without_rows(1040)) == 699 + 40


def test_idle_partitions_do_not_hold_the_watermark_back_in_silence():
    tracker = WatermarkTracker(strategy(idle_timeout=20).per_partition("p"))
    tracker.take_in(rows(1000, a=1000, b=700))
    tracker.take_in(rows(1005, a=1005))
    # Both b and a are idle by now. The partition furthest ahead sets the watermark.
    assert tracker.take_in(without_rows(1035)) == 1034
    tracker = WatermarkTracker(strategy(idle_timeout=33).per_partition("p"))
    tracker.take_in(rows(1000, a=1000, b=700))
    tracker.take_in(rows(1005, a=1000))
    assert tracker.take_in(without_rows(1035)) == 999 + 30


def test_expected_partition_without_rows_does_not_stop_closing_on_silence():
    tracker = WatermarkTracker(strategy().per_partition("p", ["a", "b"]))
    assert tracker.take_in(rows(1000, a=1000)) == MIN_TIMESTAMP
    assert tracker.take_in(without_rows(1030)) == 999 + 30


def test_no_watermark_and_no_wake_up_before_the_first_row():
    tracker = WatermarkTracker(strategy())
    assert tracker.take_in(without_rows(10**6)) == MIN_TIMESTAMP
    assert tracker.wake_up() is None


def test_rows_without_event_time_end_the_silence():
    tracker = WatermarkTracker(strategy())
    tracker.take_in(rows(1000))
    for clock in range(1020, 1200, 20):
        invalid = GroupInput(input_rows=3, invalid_rows=3, batch_time=clock, run="1", planned_in="1")
        assert tracker.take_in(invalid) == 999
    # The rows lack an event time, so the watermark continues from the last known one.
    assert tracker.take_in(without_rows(1209)) == 999
    assert tracker.take_in(without_rows(1210)) == 999 + 210


def test_closing_after_added_to_an_old_checkpoint_starts_counting_then():
    old = WatermarkTracker(WatermarkStrategy(0))
    old.take_in(rows(1000))
    assert "silence" not in old.to_json()
    tracker = WatermarkTracker.from_json(strategy(), old.to_json())
    assert tracker.take_in(without_rows(10**6)) == 999
    assert tracker.take_in(without_rows(10**6 + 29)) == 999
    assert tracker.take_in(without_rows(10**6 + 30)) == 999 + 30


def test_removing_closing_after_deletes_its_state():
    tracker = WatermarkTracker(strategy())
    tracker.take_in(rows(1000))
    tracker.take_in(without_rows(1050))
    plain = WatermarkTracker.from_json(WatermarkStrategy(0), tracker.to_json())
    assert (plain.watermark, plain.wake_up(), "silence" in plain.to_json()) == (1049, None, False)


def test_silence_survives_the_meta_record():
    tracker = WatermarkTracker(strategy().per_partition("p"))
    tracker.take_in(rows(1000, b=1000, a=7))
    tracker.take_in(without_rows(1031))
    again = WatermarkTracker.from_json(tracker.strategy, tracker.to_json())
    assert again == tracker
    assert again.to_json() == tracker.to_json()


def test_closing_after_refuses_invalid_times_and_strategies():
    assert repr(WatermarkStrategy(0).closing_after("30 seconds")).endswith(".closing_after('30 seconds')")
    for wrong in ("0 seconds", "-1 second", "1 microsecond"):
        with pytest.raises(InvalidPlanError, match="closing_after needs a positive time of whole milliseconds"):
            WatermarkStrategy(0).closing_after(wrong)
    with pytest.raises(InvalidPlanError, match="no_watermarks"):
        WatermarkStrategy.no_watermarks().closing_after("1 second")


def test_last_instant_of_windows_with_gaps_limits_and_stagger():
    sliding = SlidingEventTimeWindows(10, 15)
    assert last_instant(sliding, 3) == 9
    assert last_instant(sliding, 12) == 12  # the instant is in no window, and earlier windows are over
    assert last_instant(EventTimeSessionWindows(30).max_duration("100 us"), 90) == 99
    assert last_instant(SeveralWindows.of({"a": TumblingEventTimeWindows(7), "b": sliding}), 3) == 9
    assert last_instant(TumblingEventTimeWindows(60, 0, WindowStagger.RANDOM), 130) == 189


@pytest.mark.parametrize(
    ("assigner", "message"),
    [
        (EventTimeSessionWindows.with_dynamic_gap(len), "their rows alone say"),
        (GlobalWindows.create(), "tumbling, sliding and cumulating ones"),
    ],
    ids=["dynamic gap", "global"],
)
def test_closing_on_silence_is_refused_for_windows_without_a_known_end(assigner, message):
    with pytest.raises(InvalidPlanError, match=message):
        check_closable(assigner)
    check_closable(SeveralWindows.of({"a": TumblingEventTimeWindows(7)}))
