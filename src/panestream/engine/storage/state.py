"""What an operator may ask of a state store, and the in-memory one.

The state of a key group is a set of *spaces*, each a map from int64 to bytes. A call costs 40 to 140 microseconds on Spark
whatever its size up to some KiB, so operators are judged by the number of their calls, which
:class:`~panestream.engine.storage.sealed_state.CountingState` counts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol


class State(Protocol):
    """The state of one key group: named maps from integer to bytes. There is no listing: an operator keeps its own index."""

    @property
    def micro_batch(self) -> int | None:
        """The number of the micro-batch at hand, as the store's owner counts them; None: it does not say."""

    def get(self, space: str, key: int) -> bytes | None:
        """The value, or None where there is none."""

    def put(self, space: str, key: int, value: bytes) -> None:
        """Sets the value."""

    def remove(self, space: str, key: int) -> None:
        """Removes the value; it must exist."""


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
