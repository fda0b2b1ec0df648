"""The interface of a state store, and the in-memory store.

The state of a key group is a set of *spaces*, each a map from int64 to bytes. A call costs 40 to 140 microseconds on Spark,
independent of its size up to some KiB, so the number of calls matters
(:class:`~panestream.engine.storage.sealed_state.CountingState` counts them).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol


class State(Protocol):
    """The state of one key group: named maps from integer to bytes. It cannot list keys, so an operator keeps its own index."""

    @property
    def micro_batch(self) -> int | None:
        """The number of the current micro-batch as counted by the store's owner, or None if unknown."""

    def get(self, space: str, key: int) -> bytes | None:
        """Return the value, or None if it does not exist."""

    def put(self, space: str, key: int, value: bytes) -> None:
        """Set a value."""

    def remove(self, space: str, key: int) -> None:
        """Remove a value, which must exist."""


@dataclass(slots=True)
class MemoryState:
    """State in a dict: for batch, for tests, and for the harness. ``dict(state.values)`` is a snapshot."""

    values: dict[tuple[str, int], bytes] = field(default_factory=dict)

    @property
    def micro_batch(self) -> int | None:
        return None

    def get(self, space: str, key: int) -> bytes | None:
        return self.values.get((space, key))

    def put(self, space: str, key: int, value: bytes) -> None:
        self.values[space, key] = value

    def remove(self, space: str, key: int) -> None:
        del self.values[space, key]
