"""Small values of a key group's state, which its meta record holds, so that one call of the store reads or writes them all.

In a small micro-batch most values have a few KiB at most, and a call costs as much as about 10 KiB. What the record takes in is
limited, because it is written as a whole.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

_COUNT = struct.Struct("<I")
_ENTRY = struct.Struct("<BqI")
"""Length of the space's name, key, length of the value. Name and value follow."""


@dataclass(slots=True)
class SmallValues:
    """The values that the meta record holds, by space and key.

    >>> small = SmallValues()
    >>> small.keep("panes", 7, b"some rows"), small.keep("panes", 8, bytes(5_000))
    (True, False)
    >>> again = SmallValues()
    >>> rest = again.read(small.to_bytes() + b"the rest", 0)
    >>> again.get("panes", 7), (small.to_bytes() + b"the rest")[rest:]
    (b'some rows', b'the rest')
    """

    MAX_BYTES: ClassVar[int] = 1 << 13
    """The largest size of a value."""
    MAX_ALL_BYTES: ClassVar[int] = 1 << 15
    """The largest size of all values together."""

    _values: dict[tuple[str, int], bytes] = field(default_factory=dict)
    _bytes: int = 0

    def get(self, space: str, key: int) -> bytes | None:
        """Return a value, or None if it is not here."""
        return self._values.get((space, key))

    def keep(self, space: str, key: int, value: bytes) -> bool:
        """Set a value if it is small and there is room for it. Otherwise it is not here afterwards. Return whether it is."""
        self.forget(space, key)
        if len(value) > self.MAX_BYTES or self._bytes + len(value) > self.MAX_ALL_BYTES:
            return False
        self._values[space, key] = value
        self._bytes += len(value)
        return True

    def forget(self, space: str, key: int) -> bool:
        """Remove a value. Return whether it was here."""
        value = self._values.pop((space, key), None)
        self._bytes -= len(value or b"")
        return value is not None

    def to_bytes(self) -> bytes:
        """Return all values for the record. Equal values give equal bytes."""
        return b"".join((_COUNT.pack(len(self._values)), *self._parts()))

    def _parts(self) -> Iterator[bytes]:
        for (space, key), value in sorted(self._values.items()):
            name = space.encode()
            yield from (_ENTRY.pack(len(name), key, len(value)), name, value)

    def read(self, record: bytes, at: int) -> int:
        """Read the values that stand from ``at`` on, and return where they end.

        Raises:
            ValueError: these bytes do not hold values.
        """
        try:
            (count,) = _COUNT.unpack_from(record, at)
            at += _COUNT.size
            for _ in range(count):
                length, key, size = _ENTRY.unpack_from(record, at)
                begin = at + _ENTRY.size + length
                at = begin + size
                self._values[record[begin - length : begin].decode(), key] = record[begin:at]
                self._bytes += size
        except struct.error as error:
            raise ValueError(f"small values are incomplete: {error}") from error
        if at > len(record):
            raise ValueError("the last small value is incomplete")
        return at
