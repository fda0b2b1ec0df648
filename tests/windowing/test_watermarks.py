"""Watermark strategies: their values, repr and refusals. Also the output of user-defined generators."""

from __future__ import annotations

from datetime import timedelta

import pytest

from panestream.errors import InvalidDurationError, InvalidPlanError, InvalidWindowError
from panestream.windowing.watermarks import _SHOWN as SHOWN
from panestream.windowing.watermarks import WatermarkGenerator, WatermarkOutput, WatermarkStrategy


def test_watermark_output_keeps_the_maximum():
    output = WatermarkOutput()
    assert output.watermark is None
    seen = []
    for timestamp in (-5, 7, 3, 8):
        output.emit_watermark(timestamp)
        seen.append(output.watermark)
    assert seen == [-5, 7, 7, 8]


BOUNDED = WatermarkStrategy.for_bounded_out_of_orderness("5 seconds")


class Markers(WatermarkGenerator):
    def on_event(self, element, timestamp, output):
        output.emit_watermark(timestamp)


GENERATED = WatermarkStrategy.for_generator(Markers)


@pytest.mark.parametrize(
    ("strategy", "written"),
    [
        (WatermarkStrategy.no_watermarks(), "no_watermarks()"),
        (WatermarkStrategy.for_monotonous_timestamps(), "for_monotonous_timestamps()"),
        (WatermarkStrategy(1), "for_bounded_out_of_orderness('1 microsecond')"),
        (BOUNDED, "for_bounded_out_of_orderness('5 seconds')"),
        (BOUNDED.per_partition("p"), "for_bounded_out_of_orderness('5 seconds').per_partition('p')"),
        (
            BOUNDED.per_partition("p", ["a", "b"]),
            "for_bounded_out_of_orderness('5 seconds').per_partition('p', expected=['a', 'b'])",
        ),
        (
            BOUNDED.per_partition("p").with_idleness("1 minute").max_ahead("1 hour").closing_after("30 seconds"),
            "for_bounded_out_of_orderness('5 seconds').per_partition('p').with_idleness('1 minute').max_ahead('1 hour').closing_after('30 seconds')",
        ),
        (
            BOUNDED.max_ahead("0 seconds", of="rows"),
            "for_bounded_out_of_orderness('5 seconds').max_ahead('0 seconds', of='rows')",
        ),
    ],
)
def test_repr_rebuilds_a_watermark_strategy(strategy, written):
    assert repr(strategy) == f"WatermarkStrategy.{written}"
    assert eval(repr(strategy)) == strategy


def test_repr_shortens_many_expected_partitions():
    few, many = ([f"{number:02}" for number in range(count)] for count in (SHOWN, SHOWN + 1))
    assert repr(BOUNDED.per_partition("p", few)).endswith(f"'{SHOWN - 1:02}'])")
    assert repr(BOUNDED.per_partition("p", many)).endswith(f"'{SHOWN - 1:02}', ...])")
    assert repr(WatermarkStrategy.for_generator(Markers)) == "WatermarkStrategy.for_generator(Markers)"


def test_watermark_strategies_hold_their_settings():
    assert WatermarkStrategy.for_monotonous_timestamps() == WatermarkStrategy(0)
    assert WatermarkStrategy.for_bounded_out_of_orderness("0 seconds") == WatermarkStrategy(0)
    assert WatermarkStrategy.no_watermarks() == WatermarkStrategy(None)
    assert BOUNDED.with_idleness("1 us").idle_timeout == 1
    assert BOUNDED.closing_after("1 ms").closes_after == 1000
    assert (BOUNDED.max_ahead("0 seconds").max_ahead_by, BOUNDED.max_ahead("1 us", of="rows").max_ahead_of) == (0, "rows")
    assert GENERATED.closing_after("1 second").closes_after == 1_000_000
    assert BOUNDED.per_partition("p", ["a"]).expected == ("a",)


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda: WatermarkStrategy.for_generator(Markers()), "needs a WatermarkGenerator class or a function that makes one"),
        (lambda: WatermarkStrategy.for_generator(3), "needs a WatermarkGenerator class or a function that makes one, got 3"),
        (lambda: WatermarkStrategy.for_bounded_out_of_orderness("-1 us"), "must not be negative, got '-1 us'"),
        (lambda: BOUNDED.per_partition(""), "per_partition needs the name of a column, got ''"),
        (lambda: BOUNDED.per_partition(3), "per_partition needs the name of a column, got 3"),
        (lambda: BOUNDED.per_partition("p", "ab"), "expected needs values of 'p' as a list of strings, got 'ab'"),
        (lambda: BOUNDED.per_partition("p", ["a", 3]), "expected needs values of 'p' as a list of strings"),
        (lambda: BOUNDED.with_idleness("0 seconds"), "the idleness timeout must be positive, got '0 seconds'"),
        (lambda: BOUNDED.closing_after("0 seconds"), "needs a positive time of whole milliseconds"),
        (lambda: BOUNDED.closing_after("-1 ms"), "needs a positive time of whole milliseconds"),
        (lambda: BOUNDED.closing_after("1 us"), "needs a positive time of whole milliseconds"),
        (lambda: WatermarkStrategy.no_watermarks().closing_after("1 second"), "no_watermarks.. does not have one"),
        (lambda: BOUNDED.max_ahead("-1 us"), "max_ahead must not be negative, got '-1 us'"),
        (lambda: BOUNDED.max_ahead("1 hour", of="row"), "max_ahead is of 'clock' or of 'rows', got of='row'"),
        (lambda: WatermarkStrategy.of_sides({"left": BOUNDED, "right": GENERATED}, "s"), "does not support watermark generators"),
        (
            lambda: WatermarkStrategy.of_sides({"left": BOUNDED, "right": BOUNDED.closing_after("1 second")}, "s"),
            "give it to both streams, or to neither",
        ),
    ],
)
def test_invalid_watermark_strategies_are_refused(build, said):
    with pytest.raises(InvalidPlanError, match=said):
        build()


@pytest.mark.parametrize("given", [("5 minutes",), (None, None, "5 minutes"), (5.0,), (0, None, None, None, "1 hour")])
def test_constructor_refuses_durations(given):
    with pytest.raises(InvalidWindowError, match=r"[Ww]rite WatermarkStrategy\.for_bounded_out_of_orderness\('5 minutes'\)"):
        WatermarkStrategy(*given)


def test_duration_in_place_of_a_strategy_bounds_the_disorder():
    assert WatermarkStrategy.given_as("5 seconds") == BOUNDED
    assert WatermarkStrategy.given_as(timedelta(seconds=5)) == BOUNDED
    assert WatermarkStrategy.given_as(GENERATED) is GENERATED
    with pytest.raises(InvalidPlanError, match=r"a WatermarkStrategy, or how late rows may be, .*, got 5"):
        WatermarkStrategy.given_as(5)
    with pytest.raises(InvalidDurationError, match="max_out_of_orderness 'soon' cannot be read"):
        WatermarkStrategy.given_as("soon")


def test_strategies_of_two_sides_are_combined():
    left = BOUNDED.per_partition("p", ["0", "1"]).max_ahead("1 hour", of="rows")
    right = WatermarkStrategy.for_bounded_out_of_orderness("9 seconds")
    both = WatermarkStrategy.of_sides({"left": left, "right": right}, "s")
    assert (both.delay, both.partition_column, both.expected) == (9_000_000, "s", ("left/0", "left/1", "right"))
    assert [both.of_partition(partition) for partition in ("left", "left/0", "right", "other")] == [left, left, right, both]
    assert both.limits_ahead is True
    assert both.uses_processing_time is False
    assert repr(both) == f"left: {left!r}; right: {right!r}"
    assert WatermarkStrategy.of_sides({"left": left, "right": WatermarkStrategy.no_watermarks()}, "s").delay is None
    closing = {"left": BOUNDED.closing_after("1 second"), "right": right.closing_after("2 seconds")}
    assert WatermarkStrategy.of_sides(closing, "s").closes_after == 2_000_000
    assert WatermarkStrategy.of_sides({"left": BOUNDED, "right": BOUNDED}, "s").closes_after is None


@pytest.mark.parametrize(
    ("strategy", "clock", "ahead"),
    [
        (BOUNDED, False, False),
        (BOUNDED.with_idleness("1 second"), True, False),
        (BOUNDED.max_ahead("1 second"), True, True),
        (BOUNDED.max_ahead("1 second", of="rows"), False, True),
        (WatermarkStrategy.of_sides({"a": BOUNDED, "b": BOUNDED.max_ahead("1 second")}, "s"), True, True),
        (WatermarkStrategy.of_sides({"a": BOUNDED, "b": BOUNDED}, "s"), False, False),
    ],
)
def test_strategies_declare_use_of_clock_and_limits(strategy, clock, ahead):
    assert (strategy.uses_processing_time, strategy.limits_ahead) == (clock, ahead)
