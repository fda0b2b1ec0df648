"""One watermark out of what source partitions report."""

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


def test_it_stays_behind_by_the_bound_and_one():
    tracker = WatermarkTracker(WatermarkStrategy(delay=5))
    assert tracker.watermark == MIN_TIMESTAMP
    assert tracker.advance({"": 100}, 0) == 94


def test_it_never_goes_back():
    tracker = WatermarkTracker(WatermarkStrategy(delay=5))
    tracker.advance({"": 100}, 0)
    assert tracker.advance({"": 50}, 0) == 94
    assert tracker.advance({"": 101}, 0) == 95


class Marks(WatermarkGenerator):
    def on_event(self, element, timestamp, output):
        pass


def test_what_a_generator_of_the_users_emits_counts_and_stays():
    tracker = WatermarkTracker(WatermarkStrategy.for_generator(Marks))
    assert tracker.advance({"0": 100}, 0) == MIN_TIMESTAMP, "nothing is emitted yet"
    assert tracker.advance({"0": 100}, 0, {"0": 50}) == 50
    assert tracker.advance({"0": 100}, 0, {"0": 40}) == 50
    assert tracker.advance({"0": 100}, 0) == 50, "the next micro-batch's generator begins anew"
    assert tracker.advance({"0": 100}, 0, {"0": 60}) == 60


def test_the_slowest_partition_counts():
    tracker = WatermarkTracker(WatermarkStrategy(delay=0).per_partition("p"))
    assert tracker.advance({"0": 100, "1": 10}, 0) == 9
    assert tracker.advance({"0": 200}, 0) == 9
    assert tracker.advance({"1": 150}, 0) == 149


def test_a_new_slow_partition_does_not_turn_it_back():
    tracker = WatermarkTracker(WatermarkStrategy(delay=0).per_partition("p"))
    tracker.advance({"0": 100}, 0)
    assert tracker.advance({"0": 120, "1": 5}, 0) == 99


def expecting(*names, timeout=None, saved=None):
    strategy = WatermarkStrategy(delay=0).per_partition("p", names)
    strategy = strategy if timeout is None else strategy.with_idleness(timeout)
    return WatermarkTracker(strategy) if saved is None else WatermarkTracker.from_json(strategy, saved)


def test_an_expected_partition_holds_the_watermark_before_its_first_row():
    tracker = expecting("0", "1")
    assert tracker.advance({"0": 100}, 0) == MIN_TIMESTAMP
    assert tracker.by_partition() == [("1", None, None, False), ("0", 100, 99, False)]
    tracker = expecting("0", "1", saved=tracker.to_json())
    assert tracker.advance({"0": 200}, 0) == MIN_TIMESTAMP
    assert tracker.advance({"1": 10}, 0) == 9
    # One that nobody expected has its turn from its first row on.
    assert tracker.advance({"1": 300, "2": 150}, 0) == 149


def test_an_expected_partition_is_idle_like_any_other():
    tracker = expecting("0", "1", timeout="10 seconds")
    for second in (1000, 1005):
        assert tracker.advance({"0": second}, second * SECOND, run="first") == MIN_TIMESTAMP
    assert tracker.advance({"0": 1010}, 1010 * SECOND, run="first") == 1009
    assert tracker.by_partition()[0] == ("1", None, None, True)
    # It comes with what is late by now, and counts from then on.
    assert tracker.advance({"0": 2000, "1": 7}, 1011 * SECOND, run="first") == 1009
    assert tracker.advance({"0": 2001}, 1012 * SECOND, run="first") == 1009
    assert tracker.advance({"1": 1500}, 1013 * SECOND, run="first") == 1499


def test_what_is_expected_may_change_with_a_start():
    saved = expecting("0").to_json()
    tracker = expecting("0", "1", saved=saved)
    tracker.advance({"0": 100}, 0)
    # Withdrawn before its first row, it does not hold the watermark for ever; given late, nothing goes back.
    tracker = expecting("0", saved=tracker.to_json())
    assert tracker.advance({"0": 101}, 0) == 100
    tracker = expecting("0", "1", "2", saved=tracker.to_json())
    assert tracker.advance({"0": 200}, 0) == 100
    assert tracker.advance({"1": 150, "2": 170}, 0) == 149


def test_expected_partitions_are_a_list_of_strings():
    strategy = WatermarkStrategy(delay=0).per_partition("p", ["a", "b"])
    assert repr(strategy).endswith(".per_partition('p', expected=['a', 'b'])")
    assert repr(strategy.per_partition("p", map(str, range(9)))).endswith(
        ".per_partition('p', expected=['0', '1', '2', '3', ...])"
    )
    assert strategy.per_partition("q").expected == ()
    for wrong in ("ab", [1]):
        with pytest.raises(InvalidPlanError, match="expected wants values of 'p' as a list of strings"):
            strategy.per_partition("p", wrong)


def test_partitions_that_had_no_rows_have_no_event_time_in_the_metrics():
    tracker, metrics = expecting("0"), GroupMetrics()
    tracker.take_in(GroupInput(seen={}, input_rows=1, invalid_rows=1))
    tracker.measure(GroupInput(), metrics)
    assert (metrics.max_event_time, metrics.watermark, metrics.partition_count) == (None, None, 1)


def test_the_newest_row_of_all_partitions_and_how_many_are_idle_are_in_the_metrics():
    tracker, metrics = idle_after("2 seconds"), GroupMetrics()
    for second in (1001, 1002, 1003):
        tracker.take_in(GroupInput(seen={"0": second}, input_rows=1, batch_time=second * SECOND, run="first"))
    tracker.measure(GroupInput(), metrics)
    assert (metrics.max_event_time, metrics.partition_count, metrics.idle_partitions) == (1003, 2, 1)
    assert (metrics.watermark_before, metrics.watermark) == (9, 1002)


@pytest.mark.parametrize(("timeout", "steps"), [(4, [0, 2, 4, 6]), (5, [0, 3, 6, 9])])
def test_a_step_of_the_clock_counts_for_half_the_timeout_at_most_and_one_back_for_nothing(timeout, steps):
    tracker = WatermarkTracker(WatermarkStrategy(delay=0, idle_timeout=timeout).per_partition("p"))
    tracker.advance({"0": 100, "1": 10}, 0)
    found = []
    for clock in (10, 20, 30, 40):
        tracker.advance({"0": 200}, clock)
        found.append(tracker.partitions["1"].silent)
    assert found == steps
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


def test_an_idle_partition_does_not_count_until_its_next_row():
    tracker = idle_after("10 seconds")
    for second in (1001, 1005, 1010):
        assert tracker.advance({"0": second}, second * SECOND, run="first") == 9
    assert tracker.advance({"0": 1011}, 1011 * SECOND, run="first") == 1010
    assert tracker.advance({"0": 2000, "1": 1500}, 1012 * SECOND, run="first") == 1499


def test_rows_end_the_silence():
    tracker = idle_after("10 seconds")
    for second in (1001, 1005, 1009):
        tracker.advance({"0": second}, second * SECOND, run="first")
    tracker.advance({"0": 1010, "1": 11}, 1010 * SECOND, run="first")
    for second in (1011, 1015, 1019):
        assert tracker.advance({"0": second}, second * SECOND, run="first") == 10


@pytest.mark.parametrize("down", [30, 59, 61, 86_400])
def test_the_time_that_the_query_was_down_is_not_silence(down):
    tracker = idle_after()
    for second in (1001, 1030, 1055):
        assert tracker.advance({"0": second}, second * SECOND, run="first") == 9
    tracker = WatermarkTracker.from_json(tracker.strategy, tracker.to_json())
    begin = 1055 + down
    for second in (begin, begin + 30, begin + 59):
        assert tracker.advance({"0": second}, second * SECOND, run="second") == 9
    assert tracker.advance({"0": begin + 60}, (begin + 60) * SECOND, run="second") == begin + 59


def test_of_idle_partitions_alone_the_furthest_ahead_counts():
    """Only micro-batches whose rows all lack an event time find every partition idle."""
    tracker = idle_after("10 seconds")
    invalid = [GroupInput(input_rows=1, invalid_rows=1, batch_time=clock * SECOND, run="first") for clock in (1005, 1010, 1015)]
    assert [tracker.take_in(batch) for batch in invalid] == [9, 9, 99]
    # Without any rows nobody counts, as Spark runs no micro-batch then.
    tracker = idle_after("10 seconds")
    assert [tracker.take_in(GroupInput(batch_time=clock * SECOND, run="first")) for clock in range(1000, 1100, 5)] == [9] * 20


def test_a_partition_that_was_idle_is_waited_for_again_after_a_restart():
    tracker = idle_after("10 seconds")
    for second in (1001, 1006, 1011):
        tracker.advance({"0": second}, second * SECOND, run="first")
    assert tracker.watermark == 1010
    assert tracker.advance({"0": 9000}, 9000 * SECOND, run="second") == 1010
    assert tracker.advance({"0": 9001, "1": 1500}, 9001 * SECOND, run="second") == 1499


def test_a_micro_batch_that_is_run_again_finds_the_same_partitions_idle():
    strategy = WatermarkStrategy(delay=0).per_partition("p").with_idleness("10 seconds")
    kept = idle_after("10 seconds")
    for second in (1001, 1006):
        kept.advance({"0": second}, second * SECOND, run="first")
    saved = kept.to_json()

    def given(run, planned_in):
        return GroupInput(seen={"0": 1011}, input_rows=1, batch_time=1011 * SECOND, run=run, planned_in=planned_in)

    for run in ("first", "second", "third"):
        again = WatermarkTracker.from_json(strategy, saved)
        assert again.take_in(given(run, "first")) == 1010
    planned_anew = WatermarkTracker.from_json(strategy, saved)
    assert planned_anew.take_in(given("second", "second")) == kept.watermark
    # Where nobody knows who planned it, the run that is at it stands for that.
    assert WatermarkTracker.from_json(strategy, saved).take_in(given("second", "")) == kept.watermark


@pytest.mark.parametrize("run", ["first", ""])
def test_one_slow_micro_batch_makes_nobody_idle(run):
    tracker = idle_after()
    tracker.run = run
    for second in (2000, 2060):
        assert tracker.advance({"0": second}, second * SECOND, run=run) == 9
    tracker.advance({"0": 3000}, 3000 * SECOND, run=run)
    assert tracker.watermark == 2999


def test_a_group_that_only_the_clock_wakes_up_agrees_with_the_others():
    tracker = idle_after("10 seconds")
    tracker.advance({"0": 200}, 1001 * SECOND, run="first")
    other = WatermarkTracker.from_json(tracker.strategy, tracker.to_json())
    for second in range(1002, 1030):
        assert other.take_in(GroupInput(batch_time=second * SECOND)) == 9
    for one in (tracker, other):
        one.take_in(GroupInput(seen={"0": 300}, batch_time=1030 * SECOND, run="first", input_rows=1))
    assert tracker == other


def test_idleness_given_to_an_old_checkpoint_begins_then():
    tracker = WatermarkTracker(WatermarkStrategy(delay=0).per_partition("p"))
    tracker.advance({"0": 100, "1": 10}, 0)
    idle = WatermarkTracker.from_json(tracker.strategy.with_idleness("10 seconds"), tracker.to_json())
    assert idle.advance({"0": 200}, 10**15) == 9
    assert idle.advance({"0": 200}, 10**15 + SECOND) == 9


def test_only_invalid_rows_are_silence_of_all():
    tracker = idle_after("2 seconds")
    for second in (1001, 1002, 1003):
        tracker.take_in(GroupInput(batch_time=second * SECOND, run="first", input_rows=3, invalid_rows=3))
    assert {known.silent for known in tracker.partitions.values()} == {2 * SECOND}


def test_no_watermarks_at_all():
    tracker = WatermarkTracker(WatermarkStrategy.no_watermarks())
    assert tracker.advance({"": 100}, 0) == MIN_TIMESTAMP


def bounded(column=None):
    strategy = WatermarkStrategy(delay=0)
    return strategy if column is None else strategy.per_partition(column)


@pytest.mark.parametrize(("before", "after"), [("p", None), (None, "p"), ("p", "q")])
def test_partitions_of_another_column_do_not_hold_it_for_ever(before, after):
    tracker = WatermarkTracker(bounded(before))
    tracker.advance({"" if before is None else "0": 100}, 0)
    again = WatermarkTracker.from_json(bounded(after), tracker.to_json())
    assert again.watermark == 99
    name = "" if after is None else "1"
    assert again.advance({name: 50}, 0) == 99
    assert again.advance({name: 5000}, 0) == 4999


def test_the_same_column_in_another_case_holds_it():
    tracker = WatermarkTracker(bounded("part"))
    tracker.advance({"0": 100, "1": 10}, 0)
    assert WatermarkTracker.from_json(bounded("Part"), tracker.to_json()).advance({"0": 5000}, 0) == 9


def test_it_survives_the_meta_record():
    strategy = WatermarkStrategy(delay=3).per_partition("p")
    tracker = WatermarkTracker(strategy)
    tracker.advance({"a": 100, "b": 7}, 5)
    again = WatermarkTracker.from_json(strategy, tracker.to_json())
    assert again == tracker


def test_silence_is_counted_only_where_partitions_may_be_idle():
    for timeout, silent in ((None, None), (10, 0)):
        tracker = WatermarkTracker(WatermarkStrategy(delay=0, idle_timeout=timeout).per_partition("p"))
        tracker.advance({"0": 100, "1": 10}, 0)
        tracker.advance({"0": 200}, 4)
        assert (tracker.silent_for("0"), tracker.silent_for("1")) == (None, silent)


# ------------------------------------------------------------------------------------------------ windows and panes


def test_what_was_closed_stays_closed():
    closing = ClosedWindows(lateness=5)
    assert [closing.at(time) for time in (MIN_TIMESTAMP, -7, 12, MAX_TIMESTAMP)] == [MIN_TIMESTAMP, -12, 7, MAX_TIMESTAMP]
    assert (closing.reach(12), closing.until, closing.at(11), closing.at(13)) == (7, 7, 7, 8)
    closing.lateness = 9
    assert (closing.reach(13), closing.until, closing.at(MIN_TIMESTAMP)) == (7, 7, 7)


def test_windows_go_when_the_lateness_is_over_or_at_the_end_of_time():
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
def test_how_far_windows_and_panes_are_over(time, ended, live, open_):
    """Of ``[10 * n, 10 * n + 20)`` over panes of ten: the last that has ended; the first pane of the next one, and that is not over."""
    policy = LatenessPolicy(PaneGrid.of(TWENTY_EVERY_TEN), ClosedWindows())
    found = last_ended(TWENTY_EVERY_TEN, time), policy.first_live_pane(time), policy.first_open_pane(time)
    assert found == (ended, live, open_)


def test_of_several_kinds_of_windows_the_one_that_begins_earliest_keeps_panes():
    policy = LatenessPolicy(PaneGrid.of(SlidingWindows(10, 10), CumulatingWindows(40, 10)), ClosedWindows())
    assert [policy.first_live_pane(time) for time in (8, 9, 38, 39, 49)] == [0, 0, 0, 4, 4]
    assert [policy.kept_from(time) for time in (MIN_TIMESTAMP, 38, 39)] == [MIN_TIMESTAMP, 0, 40]


def test_what_is_kept_must_be_as_much_as_open_windows_need():
    policy = LatenessPolicy(PaneGrid.of(TWENTY_EVERY_TEN), ClosedWindows())
    assert policy.kept_from(MAX_TIMESTAMP) == MAX_TIMESTAMP
    policy.check_kept(9, 19)
    policy.check_kept(10, 19)
    with pytest.raises(PlanMismatchError, match="would begin 1 microsecond before the first row that the saved state still has"):
        policy.check_kept(11, 19)


def test_which_panes_are_taken_and_which_rows_are_late():
    panes = np.array([-1, 0, 1, 2])
    policy = LatenessPolicy(PaneGrid.of(TWENTY_EVERY_TEN), ClosedWindows())
    assert [policy.taken(panes, time).tolist() for time in (MIN_TIMESTAMP, 9, 18, 19)] == [
        [True] * 4,
        [False, True, True, True],
        [False, True, True, True],
        [False, False, True, True],
    ]
    assert policy.too_late(panes, panes * 10, 19).tolist() == [True, True, False, False]
    # Two of every five instants lie in no window, those of them that time has passed are late.
    grid = PaneGrid.of(SlidingWindows(3, 5))
    times = np.arange(10)
    policy = LatenessPolicy(grid, ClosedWindows())
    assert np.flatnonzero(policy.taken(grid.panes_of(times), 2)).tolist() == [5, 6, 7]
    assert np.flatnonzero(policy.too_late(grid.panes_of(times), times, 2)).tolist() == [0, 1, 2]
    assert np.flatnonzero(policy.too_late(grid.panes_of(times), times, 3)).tolist() == [0, 1, 2, 3]
    assert np.flatnonzero(policy.too_late(grid.panes_of(times), times, MIN_TIMESTAMP)).tolist() == []
