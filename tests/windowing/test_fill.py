"""Recipes for windows without rows: checks of methods, names, types and durations."""

from __future__ import annotations

import pyarrow as pa
import pytest

from panestream.errors import InvalidDurationError, InvalidPlanError
from panestream.windowing.fill import Fill

TYPES = {"n": pa.int64(), "mean": pa.float64()}


def test_results_have_the_common_method_or_their_own():
    assert Fill.of("last", {"n": "zero"}).methods_of(TYPES) == ("zero", "last")


def test_only_interpolation_waits_for_the_next_window():
    assert not Fill.of("last").waits
    assert Fill.of("null", {"mean": "linear"}).waits


def test_repr_rebuilds_the_recipe():
    fill = Fill.of("zero", {"n": "null"}, "1 hour")
    assert repr(fill) == "Fill(method='zero', results=(('n', 'null'),), max_gap=3600000000)"
    assert fill.described == "windows without rows are filled by zero, n by null, for at most 1 hour"


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (lambda: Fill.of("mean"), InvalidPlanError, "fill has no method 'mean': write one of zero, null, last, linear"),
        (lambda: Fill.of("zero", {"n": 3}), InvalidPlanError, "no method 3"),
        (lambda: Fill.of("zero", ["n"]), InvalidPlanError, "methods by result"),
        (lambda: Fill.of("zero", max_gap="0 seconds"), InvalidPlanError, "max_gap must be longer"),
        (lambda: Fill.of("zero", max_gap="soon"), InvalidDurationError, "max_gap"),
        (lambda: Fill.of("zero", {"m": "last"}).methods_of(TYPES), InvalidPlanError, "there is no result 'm'"),
        (lambda: Fill.of("linear").methods_of(TYPES), InvalidPlanError, "'n' is int64, and values between"),
    ],
)
def test_wrong_recipe_is_refused(wrong, error, message):
    with pytest.raises(error, match=message):
        wrong()
