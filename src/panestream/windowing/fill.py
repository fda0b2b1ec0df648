"""Rows for windows without rows: which values they have, and for how long a key without rows still gets them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING

from panestream.errors import InvalidPlanError, did_you_mean
from panestream.windowing.aggregates import Aggregate, ApproxCountDistinct, Count, CountDistinct, CountIf, Sum
from panestream.windowing.time import Duration, format_duration, to_micros

if TYPE_CHECKING:
    import pyarrow as pa

ZERO, NULL, LAST, LINEAR = METHODS = ("zero", "null", "last", "linear")
"""The methods by which a result of a window without rows gets its value."""
MOST_KEYS = 10_000
"""The largest number of listed keys, since each task gets them with the plan."""
_ADDED_UP: tuple[type[Aggregate], ...] = (Count, CountDistinct, ApproxCountDistinct, CountIf, Sum)


@dataclass(frozen=True, eq=False)
class ListedKeys:
    """Keys that are filled even if they never have a row.

    Attributes:
        table: the key columns, and the column ``hash``: its remainder by the number of key groups is the key group of a key.
    """

    table: pa.Table

    @cached_property
    def digest(self) -> str:
        """A text that differs for other keys."""
        return sha256(repr(self.table.to_pydict()).encode()).hexdigest()

    def __repr__(self) -> str:
        return f"{self.table.num_rows:,} listed keys"


@dataclass(frozen=True, slots=True)
class Fill:
    """How windows without rows are filled.

    Attributes:
        method: one of :data:`METHODS`, for all results.
        results: pairs of a result's name and its own method.
        max_gap: how long after its last window with rows a key is still filled, in engine units, or None without limit.

    >>> Fill.of("last", {"clicks": "zero"}, "1 day")
    Fill(method='last', results=(('clicks', 'zero'),), max_gap=86400000000)
    """

    method: str
    results: tuple[tuple[str, str], ...] = ()
    max_gap: int | None = None

    def __post_init__(self) -> None:
        for method in (self.method, *(method for _, method in self.results)):
            if method not in METHODS:
                raise InvalidPlanError(f"fill has no method {method!r}: write one of {', '.join(METHODS)}")
        if self.max_gap is not None and self.max_gap <= 0:
            raise InvalidPlanError("max_gap must be longer than nothing: without .fill(...) no window without rows is emitted")

    @staticmethod
    def of(method: str, results: Mapping[str, str] | None = None, max_gap: Duration | None = None) -> Fill:
        """Return the recipe, with the duration in any notation."""
        if results is not None and not isinstance(results, Mapping):
            raise InvalidPlanError(f"results of fill wants methods by result, such as {{'clicks': 'zero'}}, got {results!r}")
        longest = None if max_gap is None else to_micros(max_gap, "max_gap")
        return Fill(method, tuple((results or {}).items()), longest)

    @property
    def waits(self) -> bool:
        """True if a window without rows waits for the next window of its key with rows."""
        return LINEAR in (self.method, *(method for _, method in self.results))

    def methods_of(self, names: Mapping[str, pa.DataType]) -> tuple[str, ...]:
        """Return the method of each result, by its name and type.

        Raises:
            InvalidPlanError: a name is unknown, or a result that is to be interpolated is not a floating-point number.
        """
        own = dict(self.results)
        for name in own:
            if name not in names:
                raise InvalidPlanError(f"fill: there is no result {name!r}; {did_you_mean(name, list(names))}")
        found = tuple(own.get(name, self.method) for name in names)
        for (name, kind), method in zip(names.items(), found, strict=True):
            if method == LINEAR and str(kind) not in ("double", "float"):
                raise InvalidPlanError(
                    f"fill: {name!r} is {kind}, and values between two of them are fractions: aggregate a double, such as "
                    f"agg.sum('double(price)'), or choose another method for it, results={{{name!r}: 'last'}}"
                )
        return found

    @property
    def described(self) -> str:
        """The line of ``explain()``."""
        own = "".join(f", {name} by {method}" for name, method in self.results)
        most = "" if self.max_gap is None else f", for at most {format_duration(self.max_gap)}"
        return f"windows without rows are filled by {self.method}{own}{most}"


def is_added_up(aggregate: Aggregate) -> bool:
    """Return whether an aggregate is a count or a sum, whose value of no rows is zero.

    >>> from panestream import agg
    >>> is_added_up(agg.sum("price")), is_added_up(agg.max("price"))
    (True, False)
    """
    return isinstance(aggregate, _ADDED_UP)
