"""The interface of a state store, the in-memory store, and the limits of memory with their errors.

The state of a key group is a set of *spaces*, each a map from int64 to bytes. A call costs 40 to 140 microseconds on Spark,
independent of its size up to some KiB, so the number of calls matters
(:class:`~panestream.engine.storage.sealed_state.CountingState` counts them).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from panestream.errors import MemoryLimitError


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


MOST_BYTES = 1 << 30
"""The default limit of a query (``.memory_limit`` sets another)."""
STORED_BYTES = (1 << 31) - (1 << 20)
"""The largest value in state: its way to the state store (Protocol Buffers, Java's arrays) is limited to two gigabytes."""
_RAISE = "raise the limit, .options(memory_limit=bytes), where workers have several times as much memory"


def micro_batch_too_large(group: int, most: int) -> MemoryLimitError:
    """Return the error about the rows of a micro-batch for one key group."""
    return MemoryLimitError(
        f"key group {group} has more than {shown(most)} of rows in one micro-batch. Read less at a time "
        "(maxFilesPerTrigger of files, maxOffsetsPerTrigger of Kafka), take more key groups (.options(key_groups=n), on a new "
        f"checkpoint or from a savepoint), or {_RAISE}"
    )


def batch_too_large(group: int, most: int) -> MemoryLimitError:
    """Return the error about the rows of a batch for one key group."""
    return MemoryLimitError(
        f"key group {group} has more than {shown(most)} of rows in this batch. Take more key groups (.options(key_groups=n)), "
        f"or {_RAISE}"
    )


def window_too_large(key: Any, window: str, rows: int, size: int, most: int) -> MemoryLimitError:
    """Return the error about a window that a user function needs at once; ``rows`` belong to ``key``, ``size`` to all rows."""
    return MemoryLimitError(
        f"the window {window} is too large for a function over its rows: {shown(size)} would be taken into memory at once, of "
        f"which the key {key!r} has {rows:,} rows; the limit is {shown(most)}. Keep aggregates, not rows (.aggregate with "
        "declared aggregates or an AggregateFunction), take smaller windows, or spread the keys over more key groups; "
        f"or {_RAISE}"
    )


def look_back_too_large(size: int, most: int) -> MemoryLimitError:
    """Return the error about the rows of a look-back, which are read at once for all keys of a key group."""
    return MemoryLimitError(
        f"the look-backs of a key group need {shown(size)} of memory at once; the limit is {shown(most)}. "
        "Take shorter look-backs, aggregates that keep less (no lists, no distinct values), or more key groups "
        "(.options(key_groups=n), "
        f"on a new checkpoint or from a savepoint); or {_RAISE}"
    )


def filled_too_large(rows: int, size: int, most: int) -> MemoryLimitError:
    """Return the error about windows without rows that a key group would emit at once."""
    return MemoryLimitError(
        f"a key group would emit {rows:,} windows without rows ({shown(size)}) at once; the limit is {shown(most)}. Fill keys "
        "for a limited time, .fill(..., max_gap='1 day'), take larger windows or more key groups (.options(key_groups=n)); "
        f"or {_RAISE}"
    )


def value_too_large(what: str, size: int) -> MemoryLimitError:
    """Return the error about a value too large for any state store."""
    return MemoryLimitError(
        f"{what} would be {shown(size)}, and a value in state can have {shown(STORED_BYTES)}. It holds what one micro-batch "
        "brought, or the accumulators of keys that lie together: read less at a time, take more key groups, or keep less for "
        "each key"
    )


def shown(size: int) -> str:
    """Format a number of bytes.

    >>> shown(1 << 30), shown(1_500_000), shown(12)
    ('1.00 GiB', '1.43 MiB', '12 bytes')
    """
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB")):
        if size >= unit:
            return f"{size / unit:,.2f} {name}"
    return f"{size:,} bytes"
