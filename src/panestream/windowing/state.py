"""State of triggers and window functions: descriptors that name it, and handles that read and write it.

It is stored per key and window, or for process functions also per key. As in Flink, ``None`` means that there is no value.

State with a time to live keeps when it expires in an entry of its own, beside the value. So a handle without one costs nothing
more, and expired state can be removed without its descriptor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from panestream.errors import InvalidPlanError
from panestream.windowing.aggregate_function import AggregateFunction
from panestream.windowing.signatures import REDUCING_STATE, check_function, check_methods
from panestream.windowing.time import Duration, to_micros

StateValues = dict[str, Any]
"""The values of handles by descriptor name. The engine owns and persists them."""
EXPIRES = " (expires)"
"""The end of the name of the entry that has the time at which a value, or each of its parts, expires."""


@dataclass(frozen=True, slots=True)
class StateTtlConfig:
    """How long state lives after it was last written, on the clock. Flink: ``StateTtlConfig``.

    For descriptors of keyed process functions. Each value of a list and each entry of a map has its own time. Expired state is
    never returned. It is deleted when a row or a timer touches its page of keys.

    Attributes:
        ttl: the time to live in engine units; :meth:`of` takes a duration.
        update_on_read: whether reading also starts the time again. Flink: ``OnReadAndWrite``.

    >>> ValueStateDescriptor("seen", StateTtlConfig.of("1 hour")).ttl
    StateTtlConfig(ttl=3600000000, update_on_read=False)
    """

    ttl: int
    update_on_read: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.ttl, int) or self.ttl <= 0:
            raise InvalidPlanError(f"the time to live must be positive, got {self.ttl!r}: write StateTtlConfig.of('1 hour')")

    @classmethod
    def of(cls, ttl: Duration, *, update_on_read: bool = False) -> StateTtlConfig:
        """Return the configuration for a duration, e.g. ``"1 hour"``."""
        return cls(to_micros(ttl, "time to live"), update_on_read)


@dataclass(frozen=True, slots=True)
class ValueStateDescriptor:
    """Names one value. Flink: ``ValueStateDescriptor`` (which also wants a type).

    Examples:
        >>> ValueStateDescriptor("seen")
        ValueStateDescriptor(name='seen', ttl=None)
    """

    name: str
    ttl: StateTtlConfig | None = None

    def bind(self, values: StateValues, now: int | None = None) -> ValueState:
        """Return the handle on the value with this name."""
        return ValueState(values, self.name, self.ttl, now)


@dataclass(frozen=True, slots=True)
class ReducingStateDescriptor:
    """Names one value that grows by a reduce function. Flink: ``ReducingStateDescriptor``.

    ``reduce_function`` combines the current value with an added one, and must be associative if windows merge.

    Examples:
        >>> ReducingStateDescriptor("largest", max)
        ReducingStateDescriptor(name='largest', reduce_function=<built-in function max>, ttl=None)
    """

    name: str
    reduce_function: Callable[[Any, Any], Any]
    ttl: StateTtlConfig | None = None

    def __post_init__(self) -> None:
        check_function(self.reduce_function, REDUCING_STATE)

    def bind(self, values: StateValues, now: int | None = None) -> ReducingState:
        """Return the handle on the value with this name."""
        return ReducingState(values, self.name, self.reduce_function, self.ttl, now)


@dataclass(frozen=True, slots=True)
class ListStateDescriptor:
    """Names a list. Flink: ``ListStateDescriptor``.

    Examples:
        >>> ListStateDescriptor("prices")
        ListStateDescriptor(name='prices', ttl=None)
    """

    name: str
    ttl: StateTtlConfig | None = None

    def bind(self, values: StateValues, now: int | None = None) -> ListState:
        """Return the handle on the list with this name."""
        return ListState(values, self.name, self.ttl, now)


@dataclass(frozen=True, slots=True)
class MapStateDescriptor:
    """Names a map. Flink: ``MapStateDescriptor``.

    Examples:
        >>> MapStateDescriptor("pages")
        MapStateDescriptor(name='pages', ttl=None)
    """

    name: str
    ttl: StateTtlConfig | None = None

    def bind(self, values: StateValues, now: int | None = None) -> MapState:
        """Return the handle on the map with this name."""
        return MapState(values, self.name, self.ttl, now)


@dataclass(frozen=True, slots=True)
class AggregatingStateDescriptor:
    """Names an accumulator. Flink: ``AggregatingStateDescriptor``.

    >>> class Total(AggregateFunction):
    ...     def create_accumulator(self): return 0
    ...     def add(self, value, accumulator): return accumulator + value
    ...     def get_result(self, accumulator): return accumulator
    ...     def merge(self, left, right): return left + right
    >>> total = KeyedStateStore({}).get_aggregating_state(AggregatingStateDescriptor("total", Total()))
    >>> total.add(3), total.add(8), total.get()
    (None, None, 11)
    """

    name: str
    aggregate_function: AggregateFunction
    ttl: StateTtlConfig | None = None

    def __post_init__(self) -> None:
        if isinstance(self.aggregate_function, AggregateFunction):
            check_methods(self.aggregate_function, AggregateFunction)

    def bind(self, values: StateValues, now: int | None = None) -> AggregatingState:
        """Return the handle on the accumulator with this name."""
        return AggregatingState(values, self.name, self.aggregate_function, self.ttl, now)


class _State:
    __slots__ = ("_name", "_ttl", "_until", "_values")

    def __init__(self, values: StateValues, name: str, ttl: StateTtlConfig | None, now: int | None) -> None:
        self._values = values
        self._name = name
        self._ttl = ttl
        if ttl is None:
            return
        if now is None:
            raise InvalidPlanError(
                f"the state {name!r} has a time to live, which only the state of a KeyedProcessFunction has. Windows delete "
                "their state when they end: leave out ttl, or clear the state yourself"
            )
        self._until = now + ttl.ttl
        if name in values and name + EXPIRES not in values:
            self._renew()  # the state is older than its time to live
        drop_expired(values, name, now)

    def _renew(self) -> None:
        """Start the time to live again, of the whole value."""
        self._values[self._name + EXPIRES] = self._expiry_of(self._values[self._name])

    def _expiry_of(self, held: Any) -> Any:
        return self._until

    def _was_read(self, ttl: StateTtlConfig) -> None:
        if ttl.update_on_read and self._name in self._values:
            self._renew()


class _WritableState(_State):
    __slots__ = ()

    def clear(self) -> None:
        """Delete the value, if there is one."""
        self._values.pop(self._name, None)
        if self._ttl is not None:
            self._values.pop(self._name + EXPIRES, None)


def drop_expired(values: StateValues, name: str, now: int) -> None:
    """Delete the value ``name``, or its parts, that expired at or before ``now``.

    >>> values = {"seen": {"a": 1, "b": 2}, "seen (expires)": {"a": 10, "b": 20}}
    >>> drop_expired(values, "seen", 10)
    >>> values
    {'seen': {'b': 2}, 'seen (expires)': {'b': 20}}
    """
    expiry = values.get(name + EXPIRES)
    if isinstance(expiry, dict):
        held = values[name]
        for key in [key for key, until in expiry.items() if until <= now]:
            del held[key], expiry[key]
        left = bool(expiry)
    elif isinstance(expiry, list):
        kept = [at for at, until in enumerate(expiry) if until > now]
        left = bool(kept)
        if len(kept) < len(expiry):
            values[name], values[name + EXPIRES] = [values[name][at] for at in kept], [expiry[at] for at in kept]
    else:
        left = expiry is None or expiry > now
    if not left:
        del values[name], values[name + EXPIRES]


class ValueState(_WritableState):
    """One value.

    >>> state = ValueStateDescriptor("last").bind({})
    >>> state.value() is None
    True
    >>> state.update(7)
    >>> state.value()
    7
    """

    __slots__ = ()

    def value(self) -> Any:
        """Return the value, or None."""
        if self._ttl is not None:
            self._was_read(self._ttl)
        return self._values.get(self._name)

    def update(self, value: Any) -> None:
        """Set the value; None clears it."""
        if value is None:
            self.clear()
            return
        self._values[self._name] = value
        if self._ttl is not None:
            self._renew()


class ReducingState(_WritableState):
    """One value that grows.

    >>> state = ReducingStateDescriptor("largest", max).bind({})
    >>> state.add(3)
    >>> state.add(1)
    >>> state.get()
    3
    """

    __slots__ = ("_reduce",)

    def __init__(
        self,
        values: StateValues,
        name: str,
        reduce_function: Callable[[Any, Any], Any],
        ttl: StateTtlConfig | None,
        now: int | None,
    ) -> None:
        super().__init__(values, name, ttl, now)
        self._reduce = reduce_function

    def get(self) -> Any:
        """Return the value so far, or None."""
        if self._ttl is not None:
            self._was_read(self._ttl)
        return self._values.get(self._name)

    def add(self, value: Any) -> None:
        """Add one value."""
        known = self._values.get(self._name)
        self._values[self._name] = value if known is None else self._reduce(known, value)
        if self._ttl is not None:
            self._renew()


class ListState(_WritableState):
    """A list, in the order of adding.

    >>> prices = KeyedStateStore({}).get_list_state(ListStateDescriptor("prices"))
    >>> prices.add_all([3, 8])
    >>> prices.get()
    [3, 8]
    """

    __slots__ = ()

    def get(self) -> list[Any]:
        """Return a copy of the list, which may be empty."""
        if self._ttl is not None:
            self._was_read(self._ttl)
        return list(self._values.get(self._name, ()))

    def add(self, value: Any) -> None:
        """Append one value."""
        self._values.setdefault(self._name, []).append(value)
        if self._ttl is not None:
            self._values.setdefault(self._name + EXPIRES, []).append(self._until)

    def add_all(self, values: Iterable[Any]) -> None:
        """Append values."""
        for value in values:
            self.add(value)

    def update(self, values: Iterable[Any]) -> None:
        """Replace the list; an empty list clears it."""
        replaced = list(values)
        if not replaced:
            self.clear()
            return
        self._values[self._name] = replaced
        if self._ttl is not None:
            self._renew()

    def _expiry_of(self, held: Any) -> list[int]:
        return [self._until] * len(held)


class ReadOnlyMapState(_State):
    """A map, in the order of insertion. Flink: ``ReadOnlyBroadcastState``.

    >>> limits = ReadOnlyMapState({"limits": {"price": 9}}, "limits", None, None)
    >>> limits.get("price"), limits.contains("size"), list(limits.items()), limits.is_empty()
    (9, False, [('price', 9)], False)
    """

    __slots__ = ()

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the value of ``key``, or ``default``."""
        if self._ttl is not None:
            self._entry_was_read(key, self._ttl)
        return self._values.get(self._name, {}).get(key, default)

    def contains(self, key: Any) -> bool:
        """Return whether ``key`` has a value."""
        if self._ttl is not None:
            self._entry_was_read(key, self._ttl)
        return key in self._values.get(self._name, {})

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Return the entries in the order of insertion."""
        if self._ttl is not None:
            self._was_read(self._ttl)
        return iter(list(self._values.get(self._name, {}).items()))

    def is_empty(self) -> bool:
        """Return whether there are no entries."""
        return not self._values.get(self._name)

    def _entry_was_read(self, key: Any, ttl: StateTtlConfig) -> None:
        if ttl.update_on_read and key in self._values.get(self._name, ()):
            self._values[self._name + EXPIRES][key] = self._until

    def _expiry_of(self, held: Any) -> dict[Any, int]:
        return dict.fromkeys(held, self._until)


class MapState(_WritableState, ReadOnlyMapState):
    """A map, in the order of insertion.

    >>> pages = KeyedStateStore({}).get_map_state(MapStateDescriptor("pages"))
    >>> pages.put("home", 2)
    >>> pages.get("home"), pages.get("basket", 0)
    (2, 0)
    """

    __slots__ = ()

    def put(self, key: Any, value: Any) -> None:
        """Set the value of ``key``."""
        self._values.setdefault(self._name, {})[key] = value
        if self._ttl is not None:
            self._values.setdefault(self._name + EXPIRES, {})[key] = self._until

    def remove(self, key: Any) -> None:
        """Delete the value of ``key``, if there is one."""
        entries = self._values.get(self._name, {})
        entries.pop(key, None)
        if not entries:
            self.clear()
        elif self._ttl is not None:
            self._values[self._name + EXPIRES].pop(key, None)


class AggregatingState(_WritableState):
    """An accumulator of an :class:`~panestream.windowing.functions.AggregateFunction`.

    >>> import panestream as pst
    >>> class Longest(pst.AggregateFunction):
    ...     def create_accumulator(self):
    ...         return ""
    ...     def add(self, value, accumulator):
    ...         return max(value, accumulator, key=len)
    ...     def get_result(self, accumulator):
    ...         return len(accumulator)
    ...     def merge(self, left, right):
    ...         return max(left, right, key=len)
    >>> state = KeyedStateStore({}).get_aggregating_state(AggregatingStateDescriptor("longest", Longest()))
    >>> state.add("home"), state.add("basket"), state.get()
    (None, None, 6)
    """

    __slots__ = ("_function",)

    def __init__(
        self, values: StateValues, name: str, function: AggregateFunction, ttl: StateTtlConfig | None, now: int | None
    ) -> None:
        super().__init__(values, name, ttl, now)
        self._function = function

    def get(self) -> Any:
        """Return the result so far, or None."""
        if self._ttl is not None:
            self._was_read(self._ttl)
        return self._function.get_result(self._values[self._name]) if self._name in self._values else None

    def add(self, value: Any) -> None:
        """Add one value."""
        known = self._values[self._name] if self._name in self._values else self._function.create_accumulator()
        self._values[self._name] = self._function.add(value, known)
        if self._ttl is not None:
            self._renew()


class KeyedStateStore:
    """The states of one window, or of one key. Flink: ``KeyedStateStore``.

    >>> store = KeyedStateStore({})
    >>> store.get_state(ValueStateDescriptor("seen")).update(3)
    >>> store.get_state(ValueStateDescriptor("seen")).value()
    3
    """

    __slots__ = ("_values",)

    def __init__(self, values: StateValues) -> None:
        self._values = values

    def get_state(self, descriptor: ValueStateDescriptor) -> ValueState:
        """Return the state with one value."""
        return descriptor.bind(self._values)

    def get_reducing_state(self, descriptor: ReducingStateDescriptor) -> ReducingState:
        """Return the state with one value that grows by a reduce function."""
        return descriptor.bind(self._values)

    def get_list_state(self, descriptor: ListStateDescriptor) -> ListState:
        """Return the state with a list."""
        return descriptor.bind(self._values)

    def get_map_state(self, descriptor: MapStateDescriptor) -> MapState:
        """Return the state with a map."""
        return descriptor.bind(self._values)

    def get_aggregating_state(self, descriptor: AggregatingStateDescriptor) -> AggregatingState:
        """Return the state with an accumulator."""
        return descriptor.bind(self._values)


__all__ = [
    "AggregatingState",
    "AggregatingStateDescriptor",
    "KeyedStateStore",
    "ListState",
    "ListStateDescriptor",
    "MapState",
    "MapStateDescriptor",
    "ReadOnlyMapState",
    "ReducingState",
    "ReducingStateDescriptor",
    "StateTtlConfig",
    "ValueState",
    "ValueStateDescriptor",
]
