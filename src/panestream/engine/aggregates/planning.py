"""From recipes to partial aggregates and results: SQL's types, nulls and errors, and the sharing of partials."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from panestream.engine.aggregates.partial_aggregate import PartialAggregate
from panestream.engine.kernels.columns import Ints
from panestream.engine.kernels.ordering import is_orderable
from panestream.errors import AggregateOverflowError, InvalidPlanError, did_you_mean
from panestream.windowing.aggregates import Aggregate


@dataclass(frozen=True, slots=True)
class Result(ABC):
    """One result column.

    ``call`` is the user's call, for errors; ``partials`` are the numbers of the partials that it is computed from.
    """

    name: str
    call: str
    type: pa.DataType
    partials: tuple[int, ...]

    takes_partials: ClassVar[bool] = False
    """True if it is computed from merged partials, rather than finalized ones."""

    @abstractmethod
    def finish(self, partials: Sequence[Sequence[pa.Array]], rows: Ints) -> pa.Array:
        """Return the column from the columns of each of its partials, one row per key and window.

        ``rows`` is the number of input rows of each. Raises AggregateOverflowError if a result does not fit its type.
        """

    def overflow(self, hint: str) -> AggregateOverflowError:
        """Return the error for a result that does not fit its type."""
        return AggregateOverflowError(f"{self.call} (column {self.name!r}) left the range of {self.type}: {hint}")


class FirstColumn(Result):
    """A partial's first column: min, max, first, last, min_by, max_by, lists, and other complete partials."""

    __slots__ = ()

    def finish(self, partials: Sequence[Sequence[pa.Array]], rows: Ints) -> pa.Array:
        return partials[0][0]


@dataclass(slots=True)
class AggregationPlanner:
    """Collects the inputs, partial aggregates and results of a list of aggregates.

    ``aggregates`` are all planned ones by result name, because one may report on another.
    """

    types: Mapping[str, pa.DataType]
    aggregates: Mapping[str, Aggregate] = field(default_factory=dict)
    inputs: list[str] = field(default_factory=list)
    partials: list[PartialAggregate] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    _numbers: dict[object, int] = field(default_factory=dict)

    def source(self, expr: str) -> int:
        """Return the number of an expression."""
        return self._number_of(expr, self.inputs)

    def type_of(self, expr: str) -> pa.DataType:
        """Return the type of an expression; for a dictionary, the type of its values."""
        if expr not in self.types:
            raise InvalidPlanError(f"no type is known for the expression {expr!r}; {did_you_mean(expr, self.types)}")
        type_ = self.types[expr]
        return type_.value_type if pa.types.is_dictionary(type_) else type_

    def partial(self, partial: PartialAggregate) -> int:
        """Return the number of a partial aggregate; equal ones are shared."""
        try:
            return self._number_of(partial, self.partials)
        except TypeError:  # it contains a user callable without a hash
            if partial not in self.partials:
                self.partials.append(partial)
            return self.partials.index(partial)

    def _number_of(self, value: Any, known: list[Any]) -> int:
        """Return the place of a value in a list, adding a new value. Lookup is by hash, because there may be thousands."""
        number = self._numbers.setdefault(value, len(known))
        if number == len(known):
            known.append(value)
        return number

    def result(self, kind: Callable[..., Result], aggregate: Aggregate, type_: pa.DataType, *partials: int, **more: Any) -> None:
        """Add the result column of an aggregate: ``kind`` of type ``type_``, from partial numbers, with further attributes."""
        self.results.append(kind(aggregate.name, repr(aggregate), type_, partials, **more))

    def ordered(self, aggregate: Aggregate, expr: str) -> pa.DataType:
        """Return the type of an expression, or raise InvalidPlanError if its values cannot be ordered."""
        type_ = self.type_of(expr)
        if not is_orderable(type_):
            raise unsupported(aggregate, expr, type_, "an orderable type (number, string, binary, boolean, date or timestamp)")
        return type_

    def number(self, aggregate: Aggregate, expr: str) -> pa.DataType:
        """Return the type of an expression, or raise InvalidPlanError if its values are not numbers."""
        type_ = self.type_of(expr)
        types = pa.types
        if types.is_signed_integer(type_) or types.is_float32(type_) or types.is_float64(type_) or types.is_decimal128(type_):
            return type_
        raise unsupported(aggregate, expr, type_, "a number (integer, decimal, float or double)")


def check_key(name: str, type_: pa.DataType) -> None:
    """Raise InvalidPlanError if a key's values cannot be hashed."""
    if pa.types.is_struct(type_):
        for part in type_:
            check_key(f"{name}.{part.name}", part.type)
        return
    if not is_hashable(type_):
        raise InvalidPlanError(
            f"key {name!r} has the type {type_}, which cannot be grouped by; cast it, e.g. to string with to_json"
        )


def is_hashable(type_: pa.DataType) -> bool:
    """Return whether Arrow can hash the values of a type."""
    if pa.types.is_dictionary(type_):
        type_ = type_.value_type
    try:
        pc.dictionary_encode(pa.array([], type_), null_encoding="encode")
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        return False
    return True


def unsupported(aggregate: Aggregate, expr: str, type_: pa.DataType, wanted: str) -> InvalidPlanError:
    """Return the error for an expression of a type that an aggregate does not support."""
    return InvalidPlanError(f"{aggregate!r} cannot take {expr!r} of type {type_}: it needs {wanted}; cast the expression")
