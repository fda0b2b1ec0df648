"""Seals on stored state: reading a damaged, stale, misplaced or missing value raises an error that names it.

Every value has a header of a few bytes: the format, a checksum over everything (including the header), its key group, space and
key, and the micro-batch that wrote it. That detects flipped and lost bytes, and misplaced values. A *stale* value, intact but not
the latest, is detected by other means, depending on the space:

* ``pages`` are rewritten under the same key. The meta record has the micro-batch and checksum of each page's last write.
* ``meta`` is a single record. A second record, its witness, holds its checksum. Neither can vanish, or be older, without the
  other. Further values there (broadcast state) are written once.
* The record holds the small values of all other spaces (:class:`SmallValues`).
* All others hold values written once, under numbers that are never reused, so other versions of them do not exist.

So one value of a key group, or several, cannot be wrong without an error. If *all* values of a key group are old, or gone, no
seal shows it: :mod:`panestream.engine.storage.state_age` does.

The checksum is CRC-32: it protects against accidents, not against an attacker who can write to the checkpoint. (No bytes of the
state are ever executed: see :mod:`panestream.engine.operators.row.codec` about pickles.)
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple
from zlib import crc32

import numpy as np

from panestream.engine.storage import payload
from panestream.engine.storage.state import STORED_BYTES, State, value_too_large
from panestream.errors import StateDamagedError, StateFormatError

_MAGIC = b"PST"
_HEAD = struct.Struct("<3sBI")
"""Magic, format, checksum. All future formats keep these, so that a newer format differs from a damaged value."""
SEAL_VERSION = 3
"""The format of values with seals. Since version 3 the meta record holds small values; version 2 is read, too."""
_WITHOUT_SMALL = 2
_PLACE = struct.Struct("<qiqB")
"""Micro-batch, key group, key, length of the space's name, which follows."""
_UNSEALED = b"\xff\xff\xff\xff"
"""The first bytes of an Arrow stream."""
_NUMBER = struct.Struct("<I")
_ENTRY = struct.Struct("<BqI")
"""A small value in the record: length of its space's name, key, and its own length. Name and value follow."""
META, PAGES = "meta", "pages"
_RECORD, _WITNESS = 0, 1
RESTORE_ADVICE = "stop the query, and put back a copy of its checkpoint from before the damage, or start on a new checkpoint"


class WrittenValue(NamedTuple):
    """The micro-batch of a value's last write, and its checksum."""

    micro_batch: int
    checksum: int


class Opened(NamedTuple):
    """A value without its seal."""

    body: bytes
    written: WrittenValue
    version: int


@dataclass(slots=True)
class CountingState:
    """A store that passes calls on and counts them and their bytes."""

    inner: State
    gets: int = 0
    puts: int = 0
    removes: int = 0
    bytes_read: int = 0
    bytes_written: int = 0

    @property
    def micro_batch(self) -> int | None:
        return self.inner.micro_batch

    def get(self, space: str, key: int) -> bytes | None:
        value = self.inner.get(space, key)
        self.gets += 1
        self.bytes_read += len(value) if value is not None else 0
        return value

    def put(self, space: str, key: int, value: bytes) -> None:
        self.inner.put(space, key, value)
        self.puts += 1
        self.bytes_written += len(value)

    def remove(self, space: str, key: int) -> None:
        self.inner.remove(space, key)
        self.removes += 1

    @property
    def calls(self) -> int:
        return self.gets + self.puts + self.removes


@dataclass(slots=True)
class SmallValues:
    """The values that the meta record holds, by space and key, so that one call reads or writes them all.

    In a small micro-batch most values have a few KiB at most, and a call costs as much as about 10 KiB. What the record takes in
    is limited, because it is written as a whole.

    >>> small = SmallValues()
    >>> small.keep("panes", 7, b"some rows"), small.keep("panes", 8, bytes(9_000))
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
        return b"".join((_NUMBER.pack(len(self._values)), *self._parts()))

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
            (count,) = _NUMBER.unpack_from(record, at)
            at += _NUMBER.size
            for _ in range(count):
                length, key, size = _ENTRY.unpack_from(record, at)
                begin = at + _ENTRY.size + length
                at = begin + size
                self._values[record[begin - length : begin].decode(), key] = record[begin:at]
        except struct.error as error:
            raise ValueError(f"small values are incomplete: {error}") from error
        if at > len(record):
            raise ValueError("the last small value is incomplete")
        self._bytes = sum(map(len, self._values.values()))
        return at


class SealedState:
    """The state of one key group with seals: writes are sealed, and reads are checked.

    The store below sees sealed bytes, and two more calls per micro-batch for the witness. An operator reads the record ``("meta",
    0)`` first, and writes it last if it has written anything. ``counted`` is the store with its counters, and
    ``last_written_before`` the micro-batch that wrote the state before this one, or -1.

    >>> from panestream.engine.storage.state import MemoryState
    >>> store = MemoryState()
    >>> state = SealedState(store, 3, "sessions")
    >>> state.put("pages", 0, b"some rows")
    >>> state.put("meta", 0, b"the index")
    >>> state = SealedState(store, 3, "sessions")
    >>> state.get("meta", 0), state.get("pages", 0)
    (b'the index', b'some rows')
    >>> store.put("meta", 0, store.get("meta", 0).replace(b"some", b"same"))
    >>> SealedState(store, 3, "sessions").get("meta", 0)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    panestream.errors.StateDamagedError: the state of key group 3 (sessions) is damaged: the meta record has a wrong checksum...
    """

    def __init__(self, store: State, group: int, operator: str) -> None:
        """Wrap a store without reading it; ``operator`` is the name in errors."""
        self.counted = CountingState(store)
        self.group = group
        self._operator = operator
        self._last = -1
        self.last_written_before = -1
        self._pages: dict[int, WrittenValue] = {}
        self._small = SmallValues()

    @property
    def micro_batch(self) -> int:
        """The number of the current micro-batch: the store's, or one more than that of the last write."""
        number = self.counted.micro_batch
        return self._last + 1 if number is None else number

    def get(self, space: str, key: int) -> bytes | None:
        """Return the value; None only for the record of a new key group.

        A missing or altered value raises StateDamagedError, one of another panestream version StateFormatError.
        """
        if (space, key) == (META, _RECORD):
            return self._record()
        small = self._small.get(space, key)
        if small is not None:
            return small
        found = self._opened(space, key, self.counted.get(space, key))
        if space == PAGES:
            expected = self._pages.get(key)
            if expected is None:
                raise self.damaged(space, key, "is not among those that the meta record knows")
            if found.written.checksum != expected.checksum:
                raise self._stale(space, key, found.written, expected)
        return found.body

    def put(self, space: str, key: int, value: bytes) -> None:
        record = (space, key) == (META, _RECORD)
        if space != META and self._small.keep(space, key, value):
            if key in self._pages and space == PAGES:
                self._remove(space, key)
            return
        written = self._put(space, key, b"".join((self._index(), self._small.to_bytes(), value)) if record else value)
        if space == PAGES:
            self._pages[key] = written
        if record:
            self._put(META, _WITNESS, _NUMBER.pack(written.checksum))
            self._last = written.micro_batch

    def remove(self, space: str, key: int) -> None:
        """Remove a value, or raise StateDamagedError if it is missing."""
        if not self._small.forget(space, key):
            self._remove(space, key)

    def _remove(self, space: str, key: int) -> None:
        try:
            self.counted.remove(space, key)
        except KeyError:
            raise self.damaged(space, key, "is missing") from None
        if space == PAGES:
            self._pages.pop(key, None)

    def damaged(self, space: str, key: int, what: str) -> StateDamagedError:
        """Return the error about a value; ``what`` is the fault, in words that follow the value's name."""
        name = "the meta record" if (space, key) == (META, _RECORD) else f"value {key} of {space!r}"
        return StateDamagedError(
            f"the state of key group {self.group} ({self._operator}) is damaged: {name} {what}; {RESTORE_ADVICE}",
            group=self.group,
            space=space,
            key=key,
        )

    # -- the record ----------------------------------------------------------------------------------------------------

    def _record(self) -> bytes | None:
        value, witness = self.counted.get(META, _RECORD), self.counted.get(META, _WITNESS)
        if value is None and witness is None:
            return None
        # The record comes first, because one of another format may lack a witness.
        record = self._opened(META, _RECORD, value)
        seen = self._opened(META, _WITNESS, witness)
        if seen.body != _NUMBER.pack(record.written.checksum):
            if record.written.micro_batch > seen.written.micro_batch:
                raise self._stale(META, _WITNESS, seen.written, record.written)
            raise self._stale(META, _RECORD, record.written, seen.written)
        self._last = self.last_written_before = record.written.micro_batch
        self._small = SmallValues()
        try:
            at = self._read_index(record.body)
            at = self._small.read(record.body, at) if record.version > _WITHOUT_SMALL else at
        except (ValueError, struct.error) as error:
            raise self.damaged(META, _RECORD, f"has an unreadable beginning ({error})") from error
        return record.body[at:]

    def _read_index(self, record: bytes) -> int:
        """Read the record's index of the pages, and return where it ends."""
        (pages,) = _NUMBER.unpack_from(record)
        columns, at = [], _NUMBER.size
        for kind in ("<i8", "<i8", "<u4"):
            column = np.frombuffer(record, kind, pages, at)
            columns.append(column.tolist())
            at += column.nbytes
        self._pages = {key: WrittenValue(*written) for key, *written in zip(*columns, strict=True)}
        return at

    def _index(self) -> bytes:
        """Return the record's index of the pages, ordered by key so that a rerun gives the same bytes."""
        pages = sorted(self._pages.items())
        keys = np.array([key for key, _ in pages], "<i8")
        batches = np.array([written.micro_batch for _, written in pages], "<i8")
        checksums = np.array([written.checksum for _, written in pages], "<u4")
        return b"".join((_NUMBER.pack(len(pages)), keys.tobytes(), batches.tobytes(), checksums.tobytes()))

    # -- seals ---------------------------------------------------------------------------------------------------------

    def _put(self, space: str, key: int, body: bytes) -> WrittenValue:
        if len(body) > STORED_BYTES:
            what = f"value {key} of {space!r} in the state of key group {self.group} ({self._operator})"
            raise value_too_large(what, len(body))
        micro_batch, name = self.micro_batch, space.encode()
        place = _PLACE.pack(micro_batch, self.group, key, len(name)) + name
        checksum = crc32(body, crc32(place, crc32(_HEAD.pack(_MAGIC, SEAL_VERSION, 0)[:4])))
        self.counted.put(space, key, b"".join((_HEAD.pack(_MAGIC, SEAL_VERSION, checksum), place, body)))
        return WrittenValue(micro_batch, checksum)

    def _opened(self, space: str, key: int, value: bytes | None) -> Opened:
        if value is None:
            raise self.damaged(space, key, "is missing")
        if len(value) < _HEAD.size or not value.startswith(_MAGIC):
            # The first format had payloads without seals.
            older = payload.format_of(value) if value.startswith(_UNSEALED) else None
            if older is not None:
                raise self._of_format(older)
            raise self.damaged(space, key, "was not written by panestream")
        _, version, checksum = _HEAD.unpack_from(value)
        if crc32(memoryview(value)[_HEAD.size :], crc32(value[:4])) != checksum:
            raise self.damaged(space, key, "has a wrong checksum: bytes of it were changed, or are missing")
        if version not in (_WITHOUT_SMALL, SEAL_VERSION):
            raise self._of_format(version)
        if len(value) < _HEAD.size + _PLACE.size:
            raise self.damaged(space, key, "is too short")
        micro_batch, group, its_key, length = _PLACE.unpack_from(value, _HEAD.size)
        end = _HEAD.size + _PLACE.size + length
        its_space = value[_HEAD.size + _PLACE.size : end].decode(errors="replace")
        if (group, its_space, its_key) != (self.group, space, key):
            raise self.damaged(space, key, f"is another one: value {its_key} of {its_space!r} of key group {group}")
        return Opened(value[end:], WrittenValue(micro_batch, checksum), version)

    def _stale(self, space: str, key: int, found: WrittenValue, expected: WrittenValue) -> StateDamagedError:
        when = f"it was written in micro-batch {found.micro_batch}, where that of micro-batch {expected.micro_batch} is expected"
        return self.damaged(space, key, f"is stale: {when}")

    def _of_format(self, version: int) -> StateFormatError:
        return payload.wrong_format(f"the state of key group {self.group} ({self._operator})", version, SEAL_VERSION)


def group_in(value: bytes) -> int:
    """Return the key group number in a sealed value, which only :class:`SealedState` verifies, or raise StateDamagedError.

    >>> from panestream.engine.storage.state import MemoryState
    >>> store = MemoryState()
    >>> SealedState(store, 3, "sessions").put("meta", 0, b"the index")
    >>> group_in(store.get("meta", 0))
    3
    """
    if len(value) < _HEAD.size + _PLACE.size or not value.startswith(_MAGIC):
        raise StateDamagedError(f"a key group's meta record is missing, or was not written by panestream; {RESTORE_ADVICE}")
    _, group, _, _ = _PLACE.unpack_from(value, _HEAD.size)
    return int(group)
