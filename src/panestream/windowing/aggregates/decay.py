"""Sums and means in which older rows count less."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from panestream.errors import InvalidPlanError
from panestream.windowing.aggregates.base import Expression, OfOne, check_expression, text_of
from panestream.windowing.time import Duration, format_duration, to_micros


@dataclass(frozen=True, slots=True, repr=False)
class OfDecay(OfOne):
    """An aggregate that halves the weight of a row with every ``half_life``."""

    half_life: str

    keeps_values: ClassVar[bool] = False
    merge_rule: ClassVar[str] = "sums of parts are aged to the latest row of all, and added"

    def __post_init__(self) -> None:
        check_expression(self.expr, self.function, "expr")
        if self.micros <= 0:
            raise InvalidPlanError(
                f"agg.{self.function}: half_life must be longer than 0, got {self.half_life!r}; "
                f"write agg.{self.function}({self.expr!r}, '10 minutes')"
            )

    @property
    def micros(self) -> int:
        """The half-life in microseconds."""
        return to_micros(self.half_life, f"agg.{self.function}: half_life")

    def _default_name(self) -> str:
        return f"{self.function}({self.expr}, {self.half_life})"


@dataclass(frozen=True, slots=True, repr=False)
class DecayedSum(OfDecay):
    """See :func:`decayed_sum`."""

    function: ClassVar[str] = "decayed_sum"


@dataclass(frozen=True, slots=True, repr=False)
class DecayedMean(OfDecay):
    """See :func:`decayed_mean`."""

    function: ClassVar[str] = "decayed_mean"


def decayed_sum(expr: Expression, half_life: Duration) -> DecayedSum:
    """Sum values that count half as much with every ``half_life`` of age; double, null without values.

    The age of a row is its distance in event time from the latest row of the window and key that has a value. So the order of
    arrival does not matter, and a late row only adds to the sum. Multiply by ``power(2, -age / half_life)`` in SQL for the value
    at another instant, such as the end of the window. State has three numbers per pane. Infinity and NaN do not decay.

    ``half_life`` is a duration, such as ``"10 minutes"``. It raises InvalidDurationError if it is not one, and InvalidPlanError
    if it is not longer than 0.

    >>> decayed_sum("amount", "1 hour")
    agg.decayed_sum('amount', '1 hour')
    """
    return DecayedSum(text_of(expr), _text(half_life))


def decayed_mean(expr: Expression, half_life: Duration) -> DecayedMean:
    """Average values that count half as much with every ``half_life`` of age; double, null without values.

    This is an exponentially weighted moving average that depends on event time rather than on the number of rows. Otherwise as
    :func:`decayed_sum`, with which it shares state.

    >>> decayed_mean("latency_ms", "30 seconds").name
    'decayed_mean(latency_ms, 30 seconds)'
    """
    return DecayedMean(text_of(expr), _text(half_life))


def _text(half_life: Duration) -> str:
    """Return a duration in one notation, so that equal half-lives make equal recipes."""
    return format_duration(to_micros(half_life, "half_life"))


__all__ = ["DecayedMean", "DecayedSum", "decayed_mean", "decayed_sum"]
