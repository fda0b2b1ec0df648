"""Variance and standard deviation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from panestream.windowing.aggregates.base import Expression, OfOne, text_of

__all__ = ["Stddev", "Var", "stddev", "var"]


@dataclass(frozen=True, slots=True, repr=False)
class Var(OfOne):
    """See :func:`var`."""

    function: ClassVar[str] = "var"
    merge_rule: ClassVar[str] = "count, mean and sum of squared deviations of parts are combined by Chan's formula"


@dataclass(frozen=True, slots=True, repr=False)
class Stddev(OfOne):
    """See :func:`stddev`."""

    function: ClassVar[str] = "stddev"
    merge_rule: ClassVar[str] = Var.merge_rule


def var(expr: Expression) -> Var:
    """Compute the sample variance (SQL ``var_samp``); null for fewer than two values."""
    return Var(text_of(expr))


def stddev(expr: Expression) -> Stddev:
    """Compute the sample standard deviation (SQL ``stddev_samp``); null for fewer than two values."""
    return Stddev(text_of(expr))
