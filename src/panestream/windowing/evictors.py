"""Evictors remove elements of a window when it fires.

The window stores all other elements, and each firing runs reduce and aggregate over them. Evicted elements do not return.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from panestream.errors import InvalidWindowError
from panestream.windowing.signatures import DELTA_EVICTOR, check_function
from panestream.windowing.time import Duration, check_micros, format_duration, to_micros
from panestream.windowing.triggers.count import is_count
from panestream.windowing.windows import Window


class TimestampedValue(NamedTuple):
    """An element and its event time in microseconds. Flink: ``TimestampedValue``.

    Examples:
        >>> TimestampedValue(5, 1_000_000).value
        5
    """

    value: Any
    timestamp: int


Elements = Sequence[TimestampedValue]
"""The contents of a window in the order of arrival."""


class EvictorContext(Protocol):
    """The watermark and the clock for an evictor. Flink: ``Evictor.EvictorContext``.

    Examples:
        >>> import panestream as pst
        >>> class BeforeWatermark(pst.evictors.Evictor):
        ...     def evict_before(self, elements, size, window, ctx):
        ...         return [each for each in elements if each.timestamp <= ctx.get_current_watermark()]
        >>> minutes = pst.TumblingEventTimeWindows.of("1 minute")
        >>> def count(key, window, rows):
        ...     return [len(rows)]
        >>> harness = pst.testing.WindowTestHarness(minutes, evictor=BeforeWatermark(), apply=count)
        >>> harness.process_element(3, "5 seconds", key="ann")
        >>> harness.process_watermark("1 minute")
        >>> [result.value for result in harness.extract_output()]
        [1]
    """

    def get_current_watermark(self) -> int:
        """Return the watermark in microseconds."""

    def get_current_processing_time(self) -> int:
        """Return the processing time in microseconds."""


class Evictor(ABC):  # noqa: B024 - either method alone makes an evictor
    """Selects the elements of a firing window that stay. Flink: ``Evictor``, which removes through an iterator instead.

    Define at least one of the two methods. Subclasses are frozen dataclasses.

    >>> class KeepPaid(Evictor):
    ...     def evict_before(self, elements, size, window, ctx):
    ...         return [element for element in elements if element.value["paid"]]
    """

    __slots__ = ()

    def evict_before(self, elements: Elements, size: int, window: Window, ctx: EvictorContext) -> Elements:
        """Return the elements that stay for the window's function, by default all. The function is called even if none stays.

        ``elements`` are the ``size`` elements in the order of arrival, and must not be changed. ``ctx`` has watermark and clock.
        """
        return elements

    def evict_after(self, elements: Elements, size: int, window: Window, ctx: EvictorContext) -> Elements:
        """Return the elements that stay after the window's function, like :meth:`evict_before`, which selected ``elements``."""
        return elements


@dataclass(frozen=True, slots=True, repr=False)
class _BuiltIn(Evictor):
    """An evictor that applies the same rule before or after the function."""

    @abstractmethod
    def _stay(self, elements: Elements) -> Elements:
        """Return the elements that stay."""

    @property
    @abstractmethod
    def _after(self) -> bool:
        """Apply the rule after the function."""

    def evict_before(self, elements: Elements, size: int, window: Window, ctx: EvictorContext) -> Elements:
        return elements if self._after or not elements else self._stay(elements)

    def evict_after(self, elements: Elements, size: int, window: Window, ctx: EvictorContext) -> Elements:
        return self._stay(elements) if self._after and elements else elements


@dataclass(frozen=True, slots=True, repr=False)
class CountEvictor(_BuiltIn):
    """Keeps the last ``max_count`` elements in the order of **arrival**. Flink: ``CountEvictor``.

    >>> CountEvictor.of(100)
    CountEvictor.of(100)
    """

    max_count: int
    do_evict_after: bool = False

    def __post_init__(self) -> None:
        if not is_count(self.max_count):
            raise InvalidWindowError(f"CountEvictor keeps a number of elements: an integer >= 0, got {self.max_count!r}")

    @classmethod
    def of(cls, max_count: int, do_evict_after: bool = False) -> CountEvictor:
        """Keep ``max_count`` elements."""
        return cls(max_count, do_evict_after)

    @property
    def _after(self) -> bool:
        return self.do_evict_after

    def _stay(self, elements: Elements) -> Elements:
        return elements[max(0, len(elements) - self.max_count) :]

    def __repr__(self) -> str:
        return f"CountEvictor.of({self.max_count!r}{_option(self.do_evict_after)})"


@dataclass(frozen=True, slots=True, repr=False)
class TimeEvictor(_BuiltIn):
    """Keeps elements of the last ``size`` before the largest event time in the window. Flink: ``TimeEvictor``.

    Exactly ``size`` older is evicted, so a size of 0 evicts everything. Event time is used in processing-time windows too.

    >>> TimeEvictor.of("10 seconds", do_evict_after=True)
    TimeEvictor.of('10 seconds', do_evict_after=True)
    """

    size: int
    do_evict_after: bool = False

    def __post_init__(self) -> None:
        check_micros("TimeEvictor.of('10 seconds')", self.size)
        if self.size < 0:
            raise InvalidWindowError(f"the size of TimeEvictor must not be negative, got {format_duration(self.size)!r}")

    @classmethod
    def of(cls, size: Duration, do_evict_after: bool = False) -> TimeEvictor:
        """Keep elements that are less than ``size`` older than the newest."""
        return cls(to_micros(size, "size"), do_evict_after)

    @property
    def _after(self) -> bool:
        return self.do_evict_after

    def _stay(self, elements: Elements) -> Elements:
        cutoff = max(timestamp for _, timestamp in elements) - self.size
        return [element for element in elements if element[1] > cutoff]

    def __repr__(self) -> str:
        return f"TimeEvictor.of({format_duration(self.size)!r}{_option(self.do_evict_after)})"


@dataclass(frozen=True, slots=True, repr=False)
class DeltaEvictor(_BuiltIn):
    """Keeps elements **less** than ``threshold`` from the last to arrive, which 0 evicts too. Flink: ``DeltaEvictor``.

    >>> DeltaEvictor.of(5.0, lambda element, last: last - element).threshold
    5.0
    """

    threshold: float
    delta_function: Callable[[Any, Any], float]
    do_evict_after: bool = False

    def __post_init__(self) -> None:
        check_function(self.delta_function, DELTA_EVICTOR, error=InvalidWindowError)

    @classmethod
    def of(cls, threshold: float, delta_function: Callable[[Any, Any], float], do_evict_after: bool = False) -> DeltaEvictor:
        """Evict elements with ``delta_function(element, last) >= threshold``."""
        return cls(threshold, delta_function, do_evict_after)

    @property
    def _after(self) -> bool:
        return self.do_evict_after

    def _stay(self, elements: Elements) -> Elements:
        last, delta, threshold = elements[-1].value, self.delta_function, self.threshold
        return [element for element in elements if not delta(element.value, last) >= threshold]

    def __repr__(self) -> str:
        return f"DeltaEvictor.of({self.threshold!r}, {self.delta_function!r}{_option(self.do_evict_after)})"


def _option(do_evict_after: bool) -> str:
    return ", do_evict_after=True" if do_evict_after else ""


__all__ = [
    "CountEvictor",
    "DeltaEvictor",
    "Evictor",
    "EvictorContext",
    "TimeEvictor",
    "TimestampedValue",
]
