"""Keys that a map holds twice. Arrow keeps such maps, while a dict and Spark's own functions have each key once."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from panestream.engine.kernels.grouping import encode_keys

ONE_KEY = "return a dict, or each key once"
"""The way out."""


class KeyHeldTwice(NamedTuple):
    """A key that a map holds twice.

    Attributes:
        key: the key.
        pairs: of the map.
    """

    key: Any
    pairs: list[Any]


def key_held_twice(column: pa.Array) -> KeyHeldTwice | None:
    """Return the first key that a map of a column holds twice, at any depth, or None if there is none.

    Keys are equal as in Spark: 0.0 and -0.0 are, and so are two NaN.

    >>> key_held_twice(pa.array([[("a", 1)], [("b", 2), ("b", 3)]], pa.map_(pa.string(), pa.int64())))
    KeyHeldTwice(key='b', pairs=[('b', 2), ('b', 3)])
    """
    type_ = column.type
    if not pa.types.is_nested(type_):
        return None
    if pa.types.is_struct(type_):
        parts = column.flatten()
    elif pa.types.is_map(type_):
        twice = _of_maps(column)
        if twice is not None:
            return twice
        parts = [column.keys, column.items]
    elif hasattr(column, "flatten"):
        parts = [column.flatten()]
    else:
        return None
    return next((twice for part in parts if (twice := key_held_twice(part)) is not None), None)


def _of_maps(column: pa.MapArray) -> KeyHeldTwice | None:
    offsets = column.offsets.to_numpy()
    lengths = np.where(column.is_valid().to_numpy(zero_copy_only=False), np.diff(offsets), 0)
    if not len(lengths) or lengths.max() < 2:
        return None
    rows = np.repeat(np.arange(len(lengths)), lengths)
    places = np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths - offsets[:-1], lengths)
    keys = column.keys.take(pa.array(places))
    try:
        codes = encode_keys([keys], len(keys)).codes.astype(np.int64)
    except pa.ArrowNotImplementedError:  # keys of lists, say, which Arrow cannot hash
        codes = np.unique(list(map(repr, keys.to_pylist())), return_inverse=True)[1].reshape(-1)
    numbered = rows * (codes.max() + 1) + codes
    order = np.argsort(numbered, kind="stable")
    again = np.flatnonzero(numbered[order][1:] == numbered[order][:-1])
    if not len(again):
        return None
    first = int(order[again + 1].min())
    pairs = column.slice(int(rows[first]), 1).to_pylist()[0]
    return KeyHeldTwice(keys[first].as_py(), pairs if isinstance(pairs, list) else list(pairs.items()))


__all__ = ["ONE_KEY", "KeyHeldTwice", "key_held_twice"]
