"""One watermark out of what source partitions report."""

from panestream.engine.watermarks import WatermarkTracker
from panestream.windowing.time import MIN_TIMESTAMP
from panestream.windowing.watermarks import WatermarkStrategy

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


def test_the_slowest_partition_counts():
    tracker = WatermarkTracker(WatermarkStrategy(delay=0).per_partition("p"))
    assert tracker.advance({"0": 100, "1": 10}, 0) == 9
    assert tracker.advance({"0": 200}, 0) == 9
    assert tracker.advance({"1": 150}, 0) == 149


def test_a_new_slow_partition_does_not_turn_it_back():
    tracker = WatermarkTracker(WatermarkStrategy(delay=0).per_partition("p"))
    tracker.advance({"0": 100}, 0)
    assert tracker.advance({"0": 120, "1": 5}, 0) == 99


def test_an_idle_partition_does_not_count_until_its_next_row():
    tracker = WatermarkTracker(WatermarkStrategy(delay=0).per_partition("p").with_idleness("10 seconds"))
    tracker.advance({"0": 100, "1": 10}, 0)
    assert tracker.advance({"0": 200}, 9 * SECOND) == 9
    assert tracker.advance({"0": 300}, 10 * SECOND) == 299
    assert tracker.advance({"0": 400, "1": 350}, 11 * SECOND) == 349


def test_no_watermarks_at_all():
    tracker = WatermarkTracker(WatermarkStrategy.no_watermarks())
    assert tracker.advance({"": 100}, 0) == MIN_TIMESTAMP


def test_it_survives_the_meta_record():
    strategy = WatermarkStrategy(delay=3).per_partition("p")
    tracker = WatermarkTracker(strategy)
    tracker.advance({"a": 100, "b": 7}, 5)
    again = WatermarkTracker.from_json(strategy, tracker.to_json())
    assert again == tracker
