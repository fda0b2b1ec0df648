"""How large a job file may be."""

from __future__ import annotations

MAX_BYTES = 1 << 18
"""Larger than any job file: somebody passed the data instead."""
MAX_DEPTH = 30
"""More than any job file nests tables and arrays."""
MAX_VALUES = 20_000
"""More keys and array elements than any job file has: PyYAML takes a tenth of a millisecond for each."""


def cut(message: str) -> str:
    """A parser's message, which may hold a whole line of the file."""
    return message if len(message) <= 200 else message[:197] + "..."


__all__ = ["MAX_BYTES", "MAX_DEPTH", "MAX_VALUES", "cut"]
