"""Computing one watermark from the reports of source partitions."""

import numpy as np
import pytest

from panestream.engine.kernels.panes import CumulatingWindows, PaneGrid, SlidingWindows
from panestream.engine.runtime.group_io import GroupInput, GroupMetrics
from panestream.engine.runtime.watermarks import (
    BEYOND_ALL,
    ClosedWindows,
    LatenessPolicy,
    WatermarkTracker,
    closing_times,
    last_ended,
)
from panestream.errors import InvalidPlanError, PlanMismatchError
from panestream.windowing.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from panestream.windowing.watermarks import WatermarkGenerator, WatermarkStrategy

SECOND = 1_000_000


def test_watermark_is_the_newest_time_minus_the_bound_minus_one():
    tracker = WatermarkTracker(WatermarkStrategy(delay=5))
    assert tracker.watermark == MIN_TIMESTAMP
    assert tracker.advance({"": 100}, 0) == 94


def test_watermark_never_goes_back():
    tracker = WatermarkTracker(WatermarkStrategy(delay=5))
    tracker.advance({"": 100}, 0)
    assert tracker.advance({"": 50}, 0) == 94
    assert tracker.advance({"": 101}, 0) == 95


class Marks(WatermarkGenerator):
    def on_event(self, element, timestamp, output):
        pass


def test_watermark_of_a_user_generator_is_kept_across_micro_batches():
    tracker = WatermarkTracker(WatermarkStrategy.for_generator(Marks))
    assert tracker.advance({"0": 100}, 0) == MIN_TIMESTAMP, "nothing is emitted yet"
    assert tracker.advance({"0": 100}, 0, {"0": 50}) == 50
    assert tracker.advance({"0": 100}, 0, {"0": 40}) == 50
    assert tracker.advance({"0": 100}, 0) == 50, "the next micro-batch's generator begins anew"
    assert tracker.advance({"0": 100}, 0, {"0": 60}) == 60


def test_watermark_follows_the_slowest_partition():
    tracker = WatermarkTracker(WatermarkStrategy(delay=0).per_partition("p"))
    assert tracker.advance({"0": 100, "1": 10}, 0) == 9
    assert tracker.advance({"0": 200}, 0) == 9
    assert tracker.advance({"1": 150}, 0) == 149


def test_new_slow_partition_does_not_move_the_watermark_back():
    tracker = WatermarkTracker(WatermarkStrategy(delay=0).per_partition("p"))
    tracker.advance({"0": 100}, 0)
    assert tracker.advance({"0": 120, "1": 5}, 0) == 99


def tracker_expecting(*names, timeout=None, saved=None):
    strategy = WatermarkStrategy(delay=0).per_partition("p", names)
    strategy = strategy if timeout is None else strategy.with_idleness(timeout)
    return WatermarkTracker(strategy) if saved is None else WatermarkTracker.from_json(strategy, saved)


def test_expected_partition_holds_the_watermark_before_its_first_row():
    tracker = tracker_expecting("0", "1")
    assert tracker.advance({"0": 100}, 0) == MIN_TIMESTAMP
    assert tracker.by_partition() == [("1", None, None, False), ("0", 100, 99, False)]
    tracker = tracker_expecting("0", "1", saved=tracker.to_json())
    assert tracker.advance({"0": 200}, 0) == MIN_TIMESTAMP
    assert tracker.advance({"1": 10}, 0) == 9
    # An unexpected partition counts from its first row on.
    assert tracker.advance({"1": 300, "2": 150}, 0) == 149


def test_expected_partition_without_rows_becomes_idle():
    tracker = tracker_expecting("0", "1", timeout="10 seconds")
    for second in (1000, 1005):
        assert tracker.advance({"0": second}, second * SECOND, run="first") == MIN_TIMESTAMP
    assert tracker.advance({"0": 1010}, 1010 * SECOND, run="first") == 1009
    assert tracker.by_partition()[0] == ("1", None, None, True)
    # The partition comes with a late row and counts from then on.
    assert tracker.advance({"0": 2000, "1": 7}, 1011 * SECOND, run="first") == 1009
    assert tracker.advance({"0": 2001}, 1012 * SECOND, run="first") == 1009
    assert tracker.advance({"1": 1500}, 1013 * SECOND, run="first") == 1499


def test_expected_partitions_may_change_on_restart():
    saved = tracker_expecting("0").to_json()
    tracker = tracker_expecting("0", "1", saved=saved)
    tracker.advance({"0": 100}, 0)
    # A partition that was removed from the expected ones before its first row does not hold the watermark back. A new expected
    # one does not
    # move it back.
    tracker = tracker_expecting("0", saved=tracker.to_json())
    assert tracker.advance({"0": 101}, 0) == 100
    tracker = tracker_expecting("0", "1", "2", saved=tracker.to_json())
    assert tracker.advance({"0": 200}, 0) == 100
    assert tracker.advance({"1": 150, "2": 170}, 0) == 149


def test_expected_partitions_must_be_a_list_of_strings():
    strategy = WatermarkStrategy(delay=0).per_partition("p", ["a", "b"])
    assert repr(strategy).endswith(".per_partition('p', expected=['a', 'b'])")
    assert repr(strategy.per_partition("p", map(str, range(9)))).endswith(
        ".per_partition('p', expected=['0', '1', '2', '3', ...])"
    )
    assert strategy.per_partition("q").expected == ()
    for wrong in ("ab", [1]):
        with pytest.raises(InvalidPlanError, match="expected needs values of 'p' as a list of strings"):
            strategy.per_partition("p", wrong)


def test_metrics_have_no_event_time_for_partitions_without_rows():
    tracker, metrics = tracker_expecting("0"), GroupMetrics()
    tracker.take_in(GroupInput(seen={}, input_rows=1, invalid_rows=1))
    tracker.measure(GroupInput(), metrics)
    assert (metrics.max_event_time, metrics.watermark, metrics.partition_count) == (None, None, 1)


def test_metrics_have_the_newest_event_time_and_the_number_of_idle_partitions():
    tracker, metrics = idle_after("2 seconds"), GroupMetrics()
    for second in (1001, 1002, 1003):
        tracker.take_in(GroupInput(seen={"0": second}, input_rows=1, batch_time=second * SECOND, run="first"))
    tracker.measure(GroupInput(), metrics)
    assert (metrics.max_event_time, metrics.partition_count, metrics.idle_partitions) == (1003, 2, 1)
    assert (metrics.watermark_before, metrics.watermark) == (9, 1002)


@pytest.mark.parametrize(("timeout", "steps"), [(4, [0, 2, 4, 6]), (5, [0, 3, 6, 9])])
def test_step_of_the_clock_counts_for_at_most_half_the_idle_timeout(timeout, steps):
    tracker = WatermarkTracker(WatermarkStrategy(delay=0, idle_timeout=timeout).per_partition("p"))
    tracker.advance({"0": 100, "1": 10}, 0)
    silences = []
    for clock in (10, 20, 30, 40):
        tracker.advance({"0": 200}, clock)
        silences.append(tracker.partitions["1"].silent)
    assert silences == steps
    for clock in (40, 35):
        tracker.advance({"0": 200}, clock)
        assert tracker.partitions["1"].silent == steps[-1]
    tracker.advance({"0": 200}, 41)
    assert tracker.partitions["1"].silent == steps[-1] + 1


def idle_after(timeout="60 seconds"):
    strategy = WatermarkStrategy(delay=0).per_partition("p").with_idleness(timeout)
    tracker = WatermarkTracker(strategy)
    tracker.advance({"0": 100, "1": 10}, 1000 * SECOND, run="first")
    return tracker


def test_idle_partition_is_ignored_until_its_next_row():
    tracker = idle_after("10 seconds")
    for second in (1001, 1005, 1010):
        assert tracker.advance({"0": second}, second * SECOND, run="first") == 9
    assert tracker.advance({"0": 1011}, 1011 * SECOND, run="first") == 1010
    assert tracker.advance({"0": 2000, "1": 1500}, 1012 * SECOND, run="first") == 1499


def test_row_restarts_the_idle_timeout_of_its_partition():
    tracker = idle_after("10 seconds")
    for second in (1001, 1005, 1009):
        tracker.advance({"0": second}, second * SECOND, run="first")
    tracker.advance({"0": 1010, "1": 11}, 1010 * SECOND, run="first")
    for second in (1011, 1015, 1019):
        assert tracker.advance({"0": second}, second * SECOND, run="first") == 10


@pytest.mark.parametrize("down", [30, 59, 61, 86_400])
def test_downtime_of_the_query_does_not_make_partitions_idle(down):
    tracker = idle_after()
    for second in (1001, 1030, 1055):
        assert tracker.advance({"0": second}, second * SECOND, run="first") == 9
    tracker = WatermarkTracker.from_json(tracker.strategy, tracker.to_json())
    begin = 1055 + down
    for second in (begin, begin + 30, begin + 59):
        assert tracker.advance({"0": second}, second * SECOND, run="second") == 9
    assert tracker.advance({"0": begin + 60}, (begin + 60) * SECOND, run="second") == begin + 59


def test_partition_furthest_ahead_counts_if_all_are_idle():
    """Only a micro-batch whose rows all lack an event time makes every partition idle."""
    tracker = idle_after("10 seconds")
    invalid = [GroupInput(input_rows=1, invalid_rows=1, batch_time=clock * SECOND, run="first") for clock in (1005, 1010, 1015)]
    assert [tracker.take_in(batch) for batch in invalid] == [9, 9, 99]
    # Without rows no silence counts, because Spark runs no micro-batch then.
    tracker = idle_after("10 seconds")
    assert [tracker.take_in(GroupInput(batch_time=clock * SECOND, run="first")) for clock in range(1000, 1100, 5)] == [9] * 20


def test_idle_partition_is_waited_for_again_after_a_restart():
    tracker = idle_after("10 seconds")
    for second in (1001, 1006, 1011):
        tracker.advance({"0": second}, second * SECOND, run="first")
    assert tracker.watermark == 1010
    assert tracker.advance({"0": 9000}, 9000 * SECOND, run="second") == 1010
    assert tracker.advance({"0": 9001, "1": 1500}, 9001 * SECOND, run="second") == 1499


def test_repeated_micro_batch_finds_the_same_partitions_idle():
    strategy = WatermarkStrategy(delay=0).per_partition("p").with_idleness("10 seconds")
    original = idle_after("10 seconds")
    for second in (1001, 1006):
        original.advance({"0": second}, second * SECOND, run="first")
    saved = original.to_json()

    def group_input(run, planned_in):
        return GroupInput(seen={"0": 1011}, input_rows=1, batch_time=1011 * SECOND, run=run, planned_in=planned_in)

    for run in ("first", "second", "third"):
        again = WatermarkTracker.from_json(strategy, saved)
        assert again.take_in(group_input(run, "first")) == 1010
    planned_again = WatermarkTracker.from_json(strategy, saved)
    assert planned_again.take_in(group_input("second", "second")) == original.watermark
    # If the planning run is unknown, the current run is used.
    assert WatermarkTracker.from_json(strategy, saved).take_in(group_input("second", "")) == original.watermark


@pytest.mark.parametrize("run", ["first", ""])
def test_one_slow_micro_batch_makes_no_partition_idle(run):
    tracker = idle_after()
    tracker.run = run
    for second in (2000, 2060):
        assert tracker.advance({"0": second}, second * SECOND, run=run) == 9
    tracker.advance({"0": 3000}, 3000 * SECOND, run=run)
    assert tracker.watermark == 2999


def test_key_group_woken_only_by_the_clock_agrees_with_the_others():
    tracker = idle_after("10 seconds")
    tracker.advance({"0": 200}, 1001 * SECOND, run="first")
    other = WatermarkTracker.from_json(tracker.strategy, tracker.to_json())
    for second in range(1002, 1030):
        assert other.take_in(GroupInput(batch_time=second * SECOND)) == 9
    for each_tracker in (tracker, other):
        each_tracker.take_in(GroupInput(seen={"0": 300}, batch_time=1030 * SECOND, run="first", input_rows=1))
    assert tracker == other


def test_idleness_added_to_an_old_checkpoint_starts_counting_then():
    tracker = WatermarkTracker(WatermarkStrategy(delay=0).per_partition("p"))
    tracker.advance({"0": 100, "1": 10}, 0)
    idle = WatermarkTracker.from_json(tracker.strategy.with_idleness("10 seconds"), tracker.to_json())
    assert idle.advance({"0": 200}, 10**15) == 9
    assert idle.advance({"0": 200}, 10**15 + SECOND) == 9


def test_micro_batch_of_invalid_rows_is_silence_of_all_partitions():
    tracker = idle_after("2 seconds")
    for second in (1001, 1002, 1003):
        tracker.take_in(GroupInput(batch_time=second * SECOND, run="first", input_rows=3, invalid_rows=3))
    assert {partition.silent for partition in tracker.partitions.values()} == {2 * SECOND}


def test_strategy_without_watermarks_has_none():
    tracker = WatermarkTracker(WatermarkStrategy.no_watermarks())
    assert tracker.advance({"": 100}, 0) == MIN_TIMESTAMP


def strategy_of(column=None):
    strategy = WatermarkStrategy(delay=0)
    return strategy if column is None else strategy.per_partition(column)


@pytest.mark.parametrize(("before", "after"), [("p", None), (None, "p"), ("p", "q")])
def test_saved_partitions_of_another_column_do_not_hold_the_watermark(before, after):
    tracker = WatermarkTracker(strategy_of(before))
    tracker.advance({"" if before is None else "0": 100}, 0)
    again = WatermarkTracker.from_json(strategy_of(after), tracker.to_json())
    assert again.watermark == 99
    name = "" if after is None else "1"
    assert again.advance({name: 50}, 0) == 99
    assert again.advance({name: 5000}, 0) == 4999


def test_saved_partitions_of_the_same_column_in_another_case_are_kept():
    tracker = WatermarkTracker(strategy_of("part"))
    tracker.advance({"0": 100, "1": 10}, 0)
    assert WatermarkTracker.from_json(strategy_of("Part"), tracker.to_json()).advance({"0": 5000}, 0) == 9


def test_watermark_tracker_survives_the_meta_record():
    strategy = WatermarkStrategy(delay=3).per_partition("p")
    tracker = WatermarkTracker(strategy)
    tracker.advance({"a": 100, "b": 7}, 5)
    again = WatermarkTracker.from_json(strategy, tracker.to_json())
    assert again == tracker


def test_silence_of_partitions_is_counted_only_with_an_idle_timeout():
    for timeout, silent in ((None, None), (10, 0)):
        tracker = WatermarkTracker(WatermarkStrategy(delay=0, idle_timeout=timeout).per_partition("p"))
        tracker.advance({"0": 100, "1": 10}, 0)
        tracker.advance({"0": 200}, 4)
        assert (tracker.silent_for("0"), tracker.silent_for("1")) == (None, silent)


# ------------------------------------------------------------------------------------------------ windows and panes


def test_closed_windows_stay_closed_if_the_lateness_grows():
    closing = ClosedWindows(lateness=5)
    assert [closing.at(time) for time in (MIN_TIMESTAMP, -7, 12, MAX_TIMESTAMP)] == [MIN_TIMESTAMP, -12, 7, MAX_TIMESTAMP]
    assert (closing.reach(12), closing.until, closing.at(11), closing.at(13)) == (7, 7, 7, 8)
    closing.lateness = 9
    assert (closing.reach(13), closing.until, closing.at(MIN_TIMESTAMP)) == (7, 7, 7)


def test_closing_time_is_the_last_instant_plus_the_lateness():
    last = np.array([-3, 9, MAX_TIMESTAMP - 6, MAX_TIMESTAMP - 5, MAX_TIMESTAMP - 4, MAX_TIMESTAMP])
    assert closing_times(last, 5).tolist() == [2, 14, MAX_TIMESTAMP - 1, *[MAX_TIMESTAMP] * 3]
    assert closing_times(last, 0).tolist() == last.tolist()


TWENTY_EVERY_TEN = SlidingWindows(20, 10)


@pytest.mark.parametrize(
    ("time", "ended", "live", "open_"),
    [
        (MIN_TIMESTAMP, -BEYOND_ALL, -BEYOND_ALL, -BEYOND_ALL),
        (-2, -3, -2, -1),
        (-1, -2, -1, 0),
        (0, -2, -1, 0),
        (8, -2, -1, 0),
        (9, -1, 0, 1),
        (18, -1, 0, 1),
        (19, 0, 1, 2),
        (MAX_TIMESTAMP, BEYOND_ALL, BEYOND_ALL, BEYOND_ALL),
    ],
)
def test_last_ended_window_and_first_live_and_open_panes(time, ended, live, open_):
    """Windows are ``[10 * n, 10 * n + 20)`` over panes of 10. The test expects the last ended window, its first live pane, and
    its first open pane.
    """
    policy = LatenessPolicy(PaneGrid.of(TWENTY_EVERY_TEN), ClosedWindows())
    actual = last_ended(TWENTY_EVERY_TEN, time), policy.first_live_pane(time), policy.first_open_pane(time)
    assert actual == (ended, live, open_)


def test_earliest_start_of_several_windows_keeps_panes():
    policy = LatenessPolicy(PaneGrid.of(SlidingWindows(10, 10), CumulatingWindows(40, 10)), ClosedWindows())
    assert [policy.first_live_pane(time) for time in (8, 9, 38, 39, 49)] == [0, 0, 0, 4, 4]
    assert [policy.kept_from(time) for time in (MIN_TIMESTAMP, 38, 39)] == [MIN_TIMESTAMP, 0, 40]


def test_check_kept_refuses_windows_that_begin_before_the_kept_rows():
    policy = LatenessPolicy(PaneGrid.of(TWENTY_EVERY_TEN), ClosedWindows())
    assert policy.kept_from(MAX_TIMESTAMP) == MAX_TIMESTAMP
    policy.check_kept(9, 19)
    policy.check_kept(10, 19)
    with pytest.raises(PlanMismatchError, match="would begin 1 microsecond before the first row in the saved state"):
        policy.check_kept(11, 19)


def test_panes_are_taken_until_their_last_window_ends():
    panes = np.array([-1, 0, 1, 2])
    policy = LatenessPolicy(PaneGrid.of(TWENTY_EVERY_TEN), ClosedWindows())
    assert [policy.taken(panes, time).tolist() for time in (MIN_TIMESTAMP, 9, 18, 19)] == [
        [True] * 4,
        [False, True, True, True],
        [False, True, True, True],
        [False, False, True, True],
    ]
    assert policy.too_late(panes, panes * 10, 19).tolist() == [True, True, False, False]
    # Two of every five instants are in no window. They are late once time has passed them.
    grid = PaneGrid.of(SlidingWindows(3, 5))
    times = np.arange(10)
    policy = LatenessPolicy(grid, ClosedWindows())
    assert np.flatnonzero(policy.taken(grid.panes_of(times), 2)).tolist() == [5, 6, 7]
    assert np.flatnonzero(policy.too_late(grid.panes_of(times), times, 2)).tolist() == [0, 1, 2]
    assert np.flatnonzero(policy.too_late(grid.panes_of(times), times, 3)).tolist() == [0, 1, 2, 3]
    assert np.flatnonzero(policy.too_late(grid.panes_of(times), times, MIN_TIMESTAMP)).tolist() == []
