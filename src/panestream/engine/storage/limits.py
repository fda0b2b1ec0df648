"""Limits of a worker's memory, and the errors beyond them, which name the oversized data and the way out."""

from __future__ import annotations

from typing import Any

from panestream.errors import MemoryLimitError

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
        f"a key group would take {shown(size)} of what its rows look back to into memory at once; the limit is {shown(most)}. "
        "Take shorter look-backs, aggregates that keep less (no lists, no distinct values), or more key groups "
        "(.options(key_groups=n), "
        f"on a new checkpoint or from a savepoint); or {_RAISE}"
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
