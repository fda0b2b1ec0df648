"""State of triggers and window functions: descriptors that name it, and handles that read and write it.

It is stored per key and window, or for process functions also per key. As in Flink, ``None`` means that there is no value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from panestream.windowing.aggregate_function import AggregateFunction
from panestream.windowing.signatures import REDUCING_STATE, check_function, check_methods

StateValues = dict[str, Any]
"""The values of handles by descriptor name. The engine owns and persists them."""


@dataclass(frozen=True, slots=True)
class ValueStateDescriptor:
    """Names one value. Flink: ``ValueStateDescriptor`` (which also wants a type).

    Examples:
        >>> ValueStateDescriptor("seen")
        ValueStateDescriptor(name='seen')
    """

    name: str

    def bind(self, values: StateValues) -> ValueState:
        """Return the handle on the value with this name."""
        return ValueState(values, self.name)


@dataclass(frozen=True, slots=True)
class ReducingStateDescriptor:
    """Names one value that grows by a reduce function. Flink: ``ReducingStateDescriptor``.

    ``reduce_function`` combines the current value with an added one, and must be associative if windows merge.

    Examples:
        >>> ReducingStateDescriptor("largest", max)
        ReducingStateDescriptor(name='largest', reduce_function=<built-in function max>)
    """

    name: str
    reduce_function: Callable[[Any, Any], Any]

    def __post_init__(self) -> None:
        check_function(self.reduce_function, REDUCING_STATE)

    def bind(self, values: StateValues) -> ReducingState:
        """Return the handle on the value with this name."""
        return ReducingState(values, self.name, self.reduce_function)


@dataclass(frozen=True, slots=True)
class ListStateDescriptor:
    """Names a list. Flink: ``ListStateDescriptor``.

    Examples:
        >>> ListStateDescriptor("prices")
        ListStateDescriptor(name='prices')
    """

    name: str

    def bind(self, values: StateValues) -> ListState:
        """Return the handle on the list with this name."""
        return ListState(values, self.name)


@dataclass(frozen=True, slots=True)
class MapStateDescriptor:
    """Names a map. Flink: ``MapStateDescriptor``.

    Examples:
        >>> MapStateDescriptor("pages")
        MapStateDescriptor(name='pages')
    """

    name: str

    def bind(self, values: StateValues) -> MapState:
        """Return the handle on the map with this name."""
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
        """Return the handle on the accumulator with this name."""
        return AggregatingState(values, self.name, self.aggregate_function)


class _State:
    __slots__ = ("_name", "_values")

    def __init__(self, values: StateValues, name: str) -> None:
        self._values = values
        self._name = name

    def clear(self) -> None:
        """Delete the value, if there is one."""
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
        """Return the value, or None."""
        return self._values.get(self._name)

    def update(self, value: Any) -> None:
        """Set the value; None clears it."""
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
        """Return the value so far, or None."""
        return self._values.get(self._name)

    def add(self, value: Any) -> None:
        """Add one value."""
        known = self._values.get(self._name)
        self._values[self._name] = value if known is None else self._reduce(known, value)


class ListState(_State):
    """A list, in the order of adding."""

    __slots__ = ()

    def get(self) -> list[Any]:
        """Return a copy of the list, which may be empty."""
        return list(self._values.get(self._name, ()))

    def add(self, value: Any) -> None:
        """Append one value."""
        self._values.setdefault(self._name, []).append(value)

    def add_all(self, values: Iterable[Any]) -> None:
        """Append values."""
        self.update([*self.get(), *values])

    def update(self, values: Iterable[Any]) -> None:
        """Replace the list; an empty list clears it."""
        replaced = list(values)
        if replaced:
            self._values[self._name] = replaced
        else:
            self.clear()


class MapState(_State):
    """A map, in the order of insertion."""

    __slots__ = ()

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the value of ``key``, or ``default``."""
        return self._values.get(self._name, {}).get(key, default)

    def put(self, key: Any, value: Any) -> None:
        """Set the value of ``key``."""
        self._values.setdefault(self._name, {})[key] = value

    def contains(self, key: Any) -> bool:
        """Return whether ``key`` has a value."""
        return key in self._values.get(self._name, {})

    def remove(self, key: Any) -> None:
        """Delete the value of ``key``, if there is one."""
        entries = self._values.get(self._name, {})
        entries.pop(key, None)
        if not entries:
            self.clear()

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Return the entries in the order of insertion."""
        return iter(list(self._values.get(self._name, {}).items()))

    def is_empty(self) -> bool:
        """Return whether there are no entries."""
        return not self._values.get(self._name)


class AggregatingState(_State):
    """An accumulator of an :class:`~panestream.windowing.functions.AggregateFunction`."""

    __slots__ = ("_function",)

    def __init__(self, values: StateValues, name: str, function: AggregateFunction) -> None:
        super().__init__(values, name)
        self._function = function

    def get(self) -> Any:
        """Return the result so far, or None."""
        return self._function.get_result(self._values[self._name]) if self._name in self._values else None

    def add(self, value: Any) -> None:
        """Add one value."""
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
    "ReducingState",
    "ReducingStateDescriptor",
    "ValueState",
    "ValueStateDescriptor",
]
