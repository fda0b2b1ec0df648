"""Equality of keys, and hashes of keys that are the same in every process."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import pickle
import struct
import zlib
from collections.abc import Iterable
from typing import Any

from panestream.errors import InvalidPlanError

_NAN = math.nan
_BY_REPR = (type(None), bool, int, float, bytes, dt.date, dt.datetime, dt.time, dt.timedelta, decimal.Decimal)
_LENGTH = struct.Struct("<I")


def canonical_key(key: Any) -> Any:
    """Return the representative of all equal keys: NaN equals NaN, and 0.0 equals -0.0, as in Spark's grouping."""
    if type(key) is float:
        return _NAN if key != key else key + 0.0  # noqa: PLR0124 - the test for NaN
    if type(key) is tuple:
        return tuple(map(canonical_key, key))
    return key


def hashable(key: Any) -> Any:
    """Return a struct or array, which Arrow supplies as a dict or list, as a tuple that can be a key.

    >>> hashable({"shop": 1, "tags": ["a", "b"]})
    (1, ('a', 'b'))
    """
    if isinstance(key, (dict, list)):
        return tuple(map(hashable, key.values() if isinstance(key, dict) else key))
    return key


def stable_hash(key: Any, pickled: bool = False) -> int:
    """Return a hash of a canonical key that is the same in every process; Python salts its own per process.

    Raises InvalidPlanError for keys of users' classes unless ``pickled``.

    >>> stable_hash(("user", 7))
    3392436975
    """
    if type(key) is str:
        return zlib.crc32(b"s" + key.encode("utf-8", "surrogatepass"))
    return zlib.crc32(canonical_bytes(key, pickled))


def canonical_bytes(value: Any, pickled: bool = False) -> bytes:
    """Return bytes that are the same for equal values of one type in every process. They are compared and hashed, never read.

    Raises InvalidPlanError for values of users' classes unless ``pickled``.
    """
    kind = type(value)
    if kind is str:
        return b"s" + str(value).encode("utf-8", "surrogatepass")
    if kind is tuple:
        return _joined(canonical_bytes(part, pickled) for part in value)
    if kind in _BY_REPR:
        return repr(value).encode()
    if kind is frozenset:
        return b"f" + _joined(sorted(canonical_bytes(part, pickled) for part in value))
    if pickled:
        return pickle.dumps(value, protocol=4)
    raise InvalidPlanError(
        f"{value!r} of the type {kind.__module__}.{kind.__qualname__} cannot be a key, nor rest in a set: take numbers, strings, "
        "dates or tuples of such; or allow pickles with .options(allow_pickled_state=True), if nobody else can write to the "
        "checkpoint"
    )


def _joined(parts: Iterable[bytes]) -> bytes:
    return b"".join(piece for part in parts for piece in (_LENGTH.pack(len(part)), part))
