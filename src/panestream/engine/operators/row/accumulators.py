"""Declared aggregates row by row, in plain Python: what each keeps of the rows it has seen, and what that stands for.

Slower than the columnar kernels and independent of them, so each can be held against the other. What is kept is plain values
only, which rest in state as they are.
"""

from __future__ import annotations

import decimal
import math
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Sequence
from operator import itemgetter
from typing import Any

import pyarrow as pa

from panestream.errors import AggregateOverflowError

Row = tuple[Any, ...]
"""The values of the aggregates' inputs and, last, the event time."""

_EXACT = decimal.Context(prec=200)
_LARGEST = 2**63 - 1


class Accumulator(ABC):
    """One aggregate. States are handed in and out; :meth:`add` and :meth:`merge` may change and return what they were given."""

    def start(self) -> Any:
        """The state of no rows."""
        return None

    @abstractmethod
    def add(self, state: Any, row: Row) -> Any:
        """The state with one more row."""

    @abstractmethod
    def merge(self, a: Any, b: Any) -> Any:
        """Two states in one; the rows of ``a`` count as earlier."""

    @abstractmethod
    def result(self, state: Any) -> Any:
        """What the user sees. The state goes on being used, so no list of it may be handed out."""


class Order:
    """How values compare: NaN is larger than any other number.

    Args:
        type_: of the values.
    """

    def __init__(self, type_: pa.DataType) -> None:
        self._floats = pa.types.is_floating(type_)

    def less(self, a: Any, b: Any) -> bool:
        """Whether ``a`` is smaller than ``b``."""
        if self._floats and (math.isnan(a) or math.isnan(b)):
            return not math.isnan(a)  # the one who is NaN is the larger, and two are equal
        return bool(a < b)


class Counting(Accumulator):
    """Rows; or, given a place, the values there that are not null."""

    def __init__(self, at: int | None) -> None:
        self._at = at

    def start(self) -> Any:
        return 0

    def add(self, state: Any, row: Row) -> Any:
        return state + 1 if self._at is None or row[self._at] is not None else state

    def merge(self, a: Any, b: Any) -> Any:
        return a + b

    def result(self, state: Any) -> Any:
        return state


class Summing(Accumulator):
    """Sum and number of values, exact for integers and decimals.

    Args:
        at: the place of the value.
        type_: its type.
        result_type: what the sum must fit, or its mean.
        call: what the user wrote, for errors.
        mean: whether the mean is asked for, or the sum.
    """

    def __init__(self, at: int, type_: pa.DataType, result_type: pa.DataType, call: str, mean: bool) -> None:
        self._at = at
        self._result_type = result_type
        self._call = call
        self._mean = mean
        self._decimals = pa.types.is_decimal(type_)
        self._zero: Any = 0.0 if pa.types.is_floating(type_) else decimal.Decimal(0) if self._decimals else 0

    def start(self) -> Any:
        return self._zero, 0

    def add(self, state: Any, row: Row) -> Any:
        value = row[self._at]
        if value is None:
            return state
        total, count = state
        return (_EXACT.add(total, value) if self._decimals else total + value), count + 1

    def merge(self, a: Any, b: Any) -> Any:
        return (_EXACT.add(a[0], b[0]) if self._decimals else a[0] + b[0]), a[1] + b[1]

    def result(self, state: Any) -> Any:
        total, count = state
        if not count:
            return None
        if self._decimals:
            return self._decimal(_EXACT.divide(total, decimal.Decimal(count)) if self._mean else total)
        if self._mean:
            return total / count
        if type(total) is int and not -_LARGEST - 1 <= total <= _LARGEST:
            raise self._overflow(
                "cast the expression to a wider type, e.g. to decimal(38, 0), or to double where rounding does no harm"
            )
        return total

    def _decimal(self, value: decimal.Decimal) -> decimal.Decimal:
        scale, precision = self._result_type.scale, self._result_type.precision
        rounded = value.quantize(decimal.Decimal(1).scaleb(-scale), decimal.ROUND_HALF_UP, _EXACT)
        if rounded.copy_abs() >= decimal.Decimal(1).scaleb(precision - scale, _EXACT):
            raise self._overflow("cast the expression to a decimal with fewer digits after the point, or to double")
        return rounded

    def _overflow(self, hint: str) -> AggregateOverflowError:
        return AggregateOverflowError(f"{self._call} left the range of {self._result_type}: {hint}")


class Extreme(Accumulator):
    """The smallest value, or the largest."""

    def __init__(self, at: int, type_: pa.DataType, largest: bool) -> None:
        self._at = at
        self._order = Order(type_)
        self._largest = largest
        self._floats = pa.types.is_floating(type_)

    def add(self, state: Any, row: Row) -> Any:
        return self.merge(state, row[self._at])

    def merge(self, a: Any, b: Any) -> Any:
        if a is None or b is None:
            return b if a is None else a
        return b if (self._order.less(a, b) if self._largest else self._order.less(b, a)) else a

    def result(self, state: Any) -> Any:
        return state + 0.0 if self._floats and state is not None else state  # there is one zero in SQL


class Spread(Accumulator):
    """Variance or standard deviation of a sample: count, mean and sum of squared deviations (Welford 1962, Chan et al. 1979)."""

    def __init__(self, at: int, root: bool) -> None:
        self._at = at
        self._root = root

    def start(self) -> Any:
        return 0, 0.0, 0.0

    def add(self, state: Any, row: Row) -> Any:
        value = row[self._at]
        if value is None:
            return state
        number = float(value)
        return self.merge(state, (1, number, number - number))  # of infinity: NaN, as its distance from any mean

    def merge(self, a: Any, b: Any) -> Any:
        (n_a, mean_a, m2_a), (n_b, mean_b, m2_b) = a, b
        if not n_a or not n_b:
            return b if not n_a else a
        n, off = n_a + n_b, mean_b - mean_a
        mean = mean_a * (n_a / n) + mean_b * (n_b / n) if math.isinf(off) else mean_a + off * (n_b / n)
        return n, mean, m2_a + m2_b + off * (n_a * n_b / n) * off

    def result(self, state: Any) -> Any:
        n, _, m2 = state
        if n < 2:
            return None
        return math.sqrt(m2 / (n - 1)) if self._root else m2 / (n - 1)


class Picking(Accumulator):
    """Values of the row that is first or last by something.

    Args:
        values: the places of the values.
        by: the place of what is compared.
        by_type: its type.
        largest: whether the row with the largest ``by`` is picked, or with the smallest.
        time: the place of the event time: of equals the earliest; None: it is what is compared.
        last_of_equals: whether of equals (in time, too) the last is picked, or the first.
        skip_nulls: leave out rows whose value is null.
        fields: the names of the values, where they are a struct.
    """

    def __init__(
        self,
        values: Sequence[int],
        by: int,
        by_type: pa.DataType,
        *,
        largest: bool,
        time: int | None = None,
        last_of_equals: bool = False,
        skip_nulls: bool = False,
        fields: Sequence[str] | None = None,
    ) -> None:
        self._values = tuple(values)
        self._by = by
        self._order = Order(by_type)
        self._largest = largest
        self._time = by if time is None else time
        self._last_of_equals = last_of_equals
        self._skip_nulls = skip_nulls
        self._fields = fields

    def add(self, state: Any, row: Row) -> Any:
        if row[self._by] is None or (self._skip_nulls and row[self._values[0]] is None):
            return state
        return self.merge(state, (row[self._by], row[self._time], *(row[at] for at in self._values)))

    def merge(self, a: Any, b: Any) -> Any:
        if a is None or b is None:
            return b if a is None else a
        smaller, larger = self._order.less(b[0], a[0]), self._order.less(a[0], b[0])
        better, worse = (larger, smaller) if self._largest else (smaller, larger)
        if not better and not worse and a[1] != b[1]:
            return a if a[1] < b[1] else b
        return b if better or (self._last_of_equals and not worse) else a

    def result(self, state: Any) -> Any:
        if state is None:
            return None
        return state[2] if self._fields is None else dict(zip(self._fields, state[2:], strict=True))


class Distinct(Accumulator):
    """The number of distinct values. There is one zero and, kept as None, one NaN."""

    def __init__(self, at: int, type_: pa.DataType) -> None:
        self._at = at
        self._floats = pa.types.is_floating(type_)

    def start(self) -> Any:
        return set()

    def add(self, state: Any, row: Row) -> Any:
        value = row[self._at]
        if value is not None:
            state.add((None if math.isnan(value) else value + 0.0) if self._floats else value)
        return state

    def merge(self, a: Any, b: Any) -> Any:
        return a | b

    def result(self, state: Any) -> Any:
        return len(state)


class Collecting(Accumulator):
    """All values with their times, in the order of arrival."""

    def __init__(self, at: int) -> None:
        self._at = at

    def start(self) -> Any:
        return []

    def add(self, state: Any, row: Row) -> Any:
        if row[self._at] is not None:
            state.append((row[-1], row[self._at]))
        return state

    def merge(self, a: Any, b: Any) -> Any:
        return a + b

    def result(self, state: Any) -> Any:
        return [value for _, value in sorted(state, key=itemgetter(0))]


class Top(Accumulator):
    """The best rows, best first: ``(by, time, value)``."""

    def __init__(self, at: int, by: int, by_type: pa.DataType, k: int) -> None:
        self._at = at
        self._by = by
        self._order = Order(by_type)
        self._k = k

    def start(self) -> Any:
        return []

    def add(self, state: Any, row: Row) -> Any:
        if row[self._by] is not None and row[self._at] is not None:
            self._insert(state, (row[self._by], row[-1], row[self._at]))
        return state

    def _insert(self, state: list[Row], new: Row) -> None:
        place = len(state)
        while place and self._is_better(new, state[place - 1]):
            place -= 1
        if place < self._k:
            state.insert(place, new)
            del state[self._k :]

    def _is_better(self, a: Row, b: Row) -> bool:
        if self._order.less(b[0], a[0]):
            return True
        return bool(a[1] < b[1]) and not self._order.less(a[0], b[0])

    def merge(self, a: Any, b: Any) -> Any:
        for one in b:
            self._insert(a, tuple(one))
        return a

    def result(self, state: Any) -> Any:
        return [value for _, _, value in state]


class Weighted(Accumulator):
    """The sums of value times weight, and of weight."""

    def __init__(self, at: int, weight: int) -> None:
        self._at = at
        self._weight = weight

    def start(self) -> Any:
        return 0.0, 0.0

    def add(self, state: Any, row: Row) -> Any:
        value, weight = row[self._at], row[self._weight]
        if value is None or weight is None:
            return state
        return state[0] + float(value) * float(weight), state[1] + float(weight)

    def merge(self, a: Any, b: Any) -> Any:
        return a[0] + b[0], a[1] + b[1]

    def result(self, state: Any) -> Any:
        return state[0] / state[1] if state[1] else None


class Bins(Accumulator):
    """How many values lie between the edges."""

    def __init__(self, at: int, type_: pa.DataType, edges: Sequence[Any]) -> None:
        self._at = at
        # Floats are compared as such; an edge of 0.1 means a tenth to all others.
        self._edges = [float(edge) if pa.types.is_floating(type_) else decimal.Decimal(str(edge)) for edge in edges]

    def start(self) -> Any:
        return [0] * (len(self._edges) + 1)

    def add(self, state: Any, row: Row) -> Any:
        value = row[self._at]
        if value is not None:
            state[-1 if value != value else bisect_right(self._edges, value)] += 1  # noqa: PLR0124 - the test for NaN
        return state

    def merge(self, a: Any, b: Any) -> Any:
        return [one + other for one, other in zip(a, b, strict=True)]

    def result(self, state: Any) -> Any:
        return list(state)
