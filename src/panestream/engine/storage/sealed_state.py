"""Seals on stored state: reading a damaged, stale, misplaced or missing value raises an error that names it.

Every value has a header of a few bytes: the format, a checksum over everything (including the header), its key group, space and
key, and the micro-batch that wrote it. That detects flipped and lost bytes, and misplaced values. A *stale* value, intact but not
the latest, is detected by other means, depending on the space:

* ``pages`` are rewritten under the same key. The meta record has the micro-batch and checksum of each page's last write.
* ``meta`` is a single record. A second record, its witness, holds its checksum. Neither can vanish, or be older, without the
  other. Further values there (broadcast state) are written once.
* The record holds the small values of all other spaces (:class:`~panestream.engine.storage.small_values.SmallValues`).
* All others hold values written once, under numbers that are never reused, so other versions of them do not exist.

So one value of a key group, or several, cannot be wrong without an error. No value tells that *everything* of a key group is
what it once was, or is gone. But all key groups write their state in the same micro-batches, so :func:`check_that_groups_agree`
finds it in the metrics of all of them, and :class:`StateAge` compares these with the last
committed micro-batch: that finds groups which were exchanged, and all groups put back together. Three cases are not found. If
the clock wakes groups one by one, a group may be as old as the last micro-batch with rows. If a run had micro-batches without
rows, all groups together may be as old as the first of these. If Spark's own writer went on after a run, so may they be as old as
the end of that run.

The checksum is CRC-32: it protects against accidents, not against an attacker who can write to the checkpoint. (No bytes of the
state are ever executed: see :mod:`panestream.engine.operators.row.codec` about pickles.)
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from panestream.engine.storage import payload
from panestream.engine.storage.small_values import SmallValues
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
META, PAGES = "meta", "pages"
_RECORD, _WITNESS = 0, 1
_ADVICE = "stop the query, and put back a copy of its checkpoint from before the damage, or start on a new checkpoint"


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
    >>> store.put("pages", 0, store.get("pages", 0).replace(b"some", b"same"))
    >>> state.get("pages", 0)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    panestream.errors.StateDamagedError: the state of key group 3 (sessions) is damaged: value 0 of 'pages'...
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
            f"the state of key group {self.group} ({self._operator}) is damaged: {name} {what}; {_ADVICE}",
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
        (checksum,) = _NUMBER.unpack(seen.body)
        if checksum != record.written.checksum:
            if record.written.micro_batch > seen.written.micro_batch:
                raise self._stale(META, _WITNESS, seen.written, record.written)
            raise self._stale(META, _RECORD, record.written, seen.written)
        self._last = self.last_written_before = record.written.micro_batch
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
        micro_batch, group, its_key, length = _PLACE.unpack_from(value, _HEAD.size)
        end = _HEAD.size + _PLACE.size + length
        its_space = value[_HEAD.size + _PLACE.size : end].decode()
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
        raise StateDamagedError(f"a key group's meta record is missing, or was not written by panestream; {_ADVICE}")
    _, group, _, _ = _PLACE.unpack_from(value, _HEAD.size)
    return int(group)


def check_that_groups_agree(groups: Sequence[Mapping[str, Any]]) -> None:
    """Raise StateDamagedError if metrics (as JSON) show that a key group's state is older than another's: restored or lost.

    >>> check_that_groups_agree([{"key_group": 0, "state_of": 14}, {"key_group": 1, "state_of": 14}])
    """
    newest = max(groups, key=lambda group: group["state_of"], default=None)
    for group in groups:
        if newest is not None and group["state_of"] < newest["state_of"]:
            raise damaged_as_a_whole(group, f"that of key group {newest['key_group']} is of micro-batch {newest['state_of']}")


def damaged_as_a_whole(group: Mapping[str, Any], expected: str, unless: str = "") -> StateDamagedError:
    """Return the error about a key group whose whole state is not what was last written.

    Args:
        group: its metrics.
        expected: what the state should be.
        unless: when the state is right all the same, as the end of the text.
    """
    what = f"is that of micro-batch {group['state_of']}" if group["state_of"] >= 0 else "is gone"
    return StateDamagedError(
        f"the state of key group {group['key_group']} is damaged: all of it {what}, where {expected}; {_ADVICE}{unless}",
        group=group["key_group"],
    )


_UNLESS = (
    ". But the state is right if start() was killed here and .main.writeStream then ended with micro-batches without rows: in "
    "that case take a savepoint of the checkpoint, and start(savepoint=...) on a new one"
)


@dataclass(slots=True)
class StateAge:
    """The minimum micro-batch that the state must have reached.

    Attributes:
        after: the last micro-batch that was committed.
        state_of: the state of each key group is then that of this micro-batch, or of a later one. None if that is unknown.
        is_woken: whether the clock wakes key groups one by one. Then some write their state later than others.
        is_told: whether Spark tells tasks the number of their micro-batch. In ``foreachBatch`` through Connect it does not, nor
            with ``PYSPARK_PIN_THREAD=false``: key groups count the micro-batches that have rows.
        is_comparable: whether the state names micro-batches as Spark numbers them. If not, key groups are compared with each
            other only.
        is_last_known: whether it is known that panestream's own run committed ``after``. If not, Spark's own writer may have.

    >>> age = StateAge(after=4, state_of=4)
    >>> age.check([{"key_group": 0, "state_of": 4}, {"key_group": 1, "state_of": 4}], 5)
    >>> age.check([{"key_group": 0, "state_of": 3}, {"key_group": 1, "state_of": 3}], 5)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    panestream.errors.StateDamagedError: the state of key group 0 is damaged: all of it is that of micro-batch 3, where...
    """

    after: int = -1
    state_of: int | None = None
    is_woken: bool = False
    is_told: bool = True
    is_comparable: bool = True
    is_last_known: bool = True

    def check(self, groups: Sequence[Mapping[str, Any]], batch_id: int) -> None:
        """Raise StateDamagedError if the metrics (as JSON) show a state too old, or newer than the micro-batch before."""
        if not self.is_woken:
            check_that_groups_agree(groups)
        if not (self.is_told and self.is_comparable):
            return
        # A group that has rows and is woken appears twice. A savepoint is restored by the first micro-batch itself.
        newest = batch_id if self.is_woken else max(batch_id - 1, 0)
        known = self.state_of if batch_id == self.after + 1 else None
        for group in groups:
            if known is not None and group["state_of"] < known:
                since = f"that of micro-batch {known}" if self.after == known else f"that of micro-batch {known} or a later one"
                raise damaged_as_a_whole(group, f"{since} is expected", "" if self.is_last_known else _UNLESS)
            if group["state_of"] > newest:
                raise damaged_as_a_whole(group, f"micro-batch {batch_id} comes only now")

    def advance(self, groups: Sequence[Mapping[str, Any]], batch_id: int) -> bool:
        """Record a finished micro-batch, and return whether all key groups have written their state."""
        has_written = any(not (self.is_woken and group["woken"]) for group in groups)
        if has_written:
            self.state_of, self.is_comparable = batch_id, self.is_told
        elif batch_id != self.after + 1:
            self.state_of = None
        self.after, self.is_last_known = batch_id, True
        return has_written
