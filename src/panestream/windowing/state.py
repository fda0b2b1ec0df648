"""State that triggers and window functions keep: descriptors that name it, and handles that read and write it.

A trigger keeps state per key and window (:meth:`TriggerContext.get_partitioned_state`); a process function keeps it per key
and window, or per key (:class:`KeyedStateStore`). ``None`` is not a value but the absence of one, as in Flink.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from panestream.windowing.aggregate_function import AggregateFunction
from panestream.windowing.signatures import REDUCING_STATE, check_function, check_methods

StateValues = dict[str, Any]
"""Where handles keep their values: one entry per descriptor name. The engine owns it and persists it."""


@dataclass(frozen=True, slots=True)
class ValueStateDescriptor:
    """Names one value. Flink: ``ValueStateDescriptor`` (which also wants a type)."""

    name: str

    def bind(self, values: StateValues) -> ValueState:
        """The handle on the value of this name among ``values``."""
        return ValueState(values, self.name)


@dataclass(frozen=True, slots=True)
class ReducingStateDescriptor:
    """Names one value that grows by a reduce function. Flink: ``ReducingStateDescriptor``.

    Attributes:
        name: unique among the states of one trigger or function.
        reduce_function: takes the value so far and the one that is added; must be associative where windows merge.
    """

    name: str
    reduce_function: Callable[[Any, Any], Any]

    def __post_init__(self) -> None:
        check_function(self.reduce_function, REDUCING_STATE)

    def bind(self, values: StateValues) -> ReducingState:
        """The handle on the value of this name among ``values``."""
        return ReducingState(values, self.name, self.reduce_function)


@dataclass(frozen=True, slots=True)
class ListStateDescriptor:
    """Names a list. Flink: ``ListStateDescriptor``."""

    name: str

    def bind(self, values: StateValues) -> ListState:
        """The handle on the list of this name among ``values``."""
        return ListState(values, self.name)


@dataclass(frozen=True, slots=True)
class MapStateDescriptor:
    """Names a map. Flink: ``MapStateDescriptor``."""

    name: str

    def bind(self, values: StateValues) -> MapState:
        """The handle on the map of this name among ``values``."""
        return MapState(values, self.name)


@dataclass(frozen=True, slots=True)
class AggregatingStateDescriptor:
    """Names an accumulator. Flink: ``AggregatingStateDescriptor``."""

    name: str
    aggregate_function: AggregateFunction

    def __post_init__(self) -> None:
        if isinstance(self.aggregate_function, AggregateFunction):
            check_methods(self.aggregate_function, AggregateFunction)

    def bind(self, values: StateValues) -> AggregatingState:
        """The handle on the accumulator of this name among ``values``."""
        return AggregatingState(values, self.name, self.aggregate_function)


class _State:
    __slots__ = ("_name", "_values")

    def __init__(self, values: StateValues, name: str) -> None:
        self._values = values
        self._name = name

    def clear(self) -> None:
        """Forgets what is there; nothing happens where there is nothing."""
        self._values.pop(self._name, None)


class ValueState(_State):
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
        """The value, or None where there is none."""
        return self._values.get(self._name)

    def update(self, value: Any) -> None:
        """Sets the value; None clears it."""
        if value is None:
            self.clear()
        else:
            self._values[self._name] = value


class ReducingState(_State):
    """One value that grows.

    >>> state = ReducingStateDescriptor("largest", max).bind({})
    >>> state.add(3)
    >>> state.add(1)
    >>> state.get()
    3
    """

    __slots__ = ("_reduce",)

    def __init__(self, values: StateValues, name: str, reduce_function: Callable[[Any, Any], Any]) -> None:
        super().__init__(values, name)
        self._reduce = reduce_function

    def get(self) -> Any:
        """The value so far, or None where nothing was added."""
        return self._values.get(self._name)

    def add(self, value: Any) -> None:
        """Adds one value."""
        known = self._values.get(self._name)
        self._values[self._name] = value if known is None else self._reduce(known, value)


class ListState(_State):
    """A list, in the order of adding."""

    __slots__ = ()

    def get(self) -> list[Any]:
        """A copy of the list; empty where nothing was added."""
        return list(self._values.get(self._name, ()))

    def add(self, value: Any) -> None:
        """Appends one value."""
        self._values.setdefault(self._name, []).append(value)

    def add_all(self, values: Iterable[Any]) -> None:
        """Appends values."""
        self.update([*self.get(), *values])

    def update(self, values: Iterable[Any]) -> None:
        """Replaces the list; an empty one clears it."""
        replaced = list(values)
        if replaced:
            self._values[self._name] = replaced
        else:
            self.clear()


class MapState(_State):
    """A map, in the order of insertion."""

    __slots__ = ()

    def get(self, key: Any, default: Any = None) -> Any:
        """The value of ``key``, or ``default``."""
        return self._values.get(self._name, {}).get(key, default)

    def put(self, key: Any, value: Any) -> None:
        """Sets the value of ``key``."""
        self._values.setdefault(self._name, {})[key] = value

    def contains(self, key: Any) -> bool:
        """Whether ``key`` has a value."""
        return key in self._values.get(self._name, {})

    def remove(self, key: Any) -> None:
        """Forgets ``key``; nothing happens where it has no value."""
        entries = self._values.get(self._name, {})
        entries.pop(key, None)
        if not entries:
            self.clear()

    def items(self) -> Iterator[tuple[Any, Any]]:
        """The entries, in the order in which their keys came."""
        return iter(list(self._values.get(self._name, {}).items()))

    def is_empty(self) -> bool:
        """Whether there are no entries."""
        return not self._values.get(self._name)


class AggregatingState(_State):
    """An accumulator of an :class:`~panestream.windowing.functions.AggregateFunction`."""

    __slots__ = ("_function",)

    def __init__(self, values: StateValues, name: str, function: AggregateFunction) -> None:
        super().__init__(values, name)
        self._function = function

    def get(self) -> Any:
        """The result so far, or None where nothing was added."""
        return self._function.get_result(self._values[self._name]) if self._name in self._values else None

    def add(self, value: Any) -> None:
        """Adds one value."""
        known = self._values[self._name] if self._name in self._values else self._function.create_accumulator()
        self._values[self._name] = self._function.add(value, known)


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
        """One value."""
        return descriptor.bind(self._values)

    def get_reducing_state(self, descriptor: ReducingStateDescriptor) -> ReducingState:
        """One value that grows by a reduce function."""
        return descriptor.bind(self._values)

    def get_list_state(self, descriptor: ListStateDescriptor) -> ListState:
        """A list."""
        return descriptor.bind(self._values)

    def get_map_state(self, descriptor: MapStateDescriptor) -> MapState:
        """A map."""
        return descriptor.bind(self._values)

    def get_aggregating_state(self, descriptor: AggregatingStateDescriptor) -> AggregatingState:
        """An accumulator."""
        return descriptor.bind(self._values)


__all__ = [
    "AggregatingState",
    "AggregatingStateDescriptor",
    "KeyedStateStore",
    "ListState",
    "ListStateDescriptor",
    "MapState",
    "MapStateDescriptor",
    "ReducingState",
    "ReducingStateDescriptor",
    "ValueState",
    "ValueStateDescriptor",
]
