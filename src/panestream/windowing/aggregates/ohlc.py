"""The first, largest, smallest and last value together, as charts of prices show them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from panestream.windowing.aggregates.base import Expression, OfOneCompared, text_of


@dataclass(frozen=True, slots=True, repr=False)
class Ohlc(OfOneCompared):
    """See :func:`ohlc`."""

    function: ClassVar[str] = "ohlc"
    merge_rule: ClassVar[str] = "first and last by event time, and the smallest and largest of the parts"

    @property
    def struct_fields(self) -> tuple[str, ...]:
        return ("open", "high", "low", "close")


def ohlc(expr: Expression) -> Ohlc:
    """Return a struct of the first, largest, smallest and last value that is not null: ``open``, ``high``, ``low``, ``close``.

    First and last are by event time and, if equal, by arrival, as with :func:`first` and :func:`last`. NaN is larger than any
    other number. The result is null without values. It shares state with ``min``, ``max``, ``first`` and ``last`` of the
    expression if the latter two ignore nulls.

    >>> ohlc("price")
    agg.ohlc('price')
    """
    return Ohlc(text_of(expr))


__all__ = ["Ohlc", "ohlc"]
