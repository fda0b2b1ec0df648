"""Users' Python values as JSON, one text per value, for state tables in which every row must be readable by itself.

Pages store values as columns (:mod:`panestream.engine.operators.row.codec`), which are smaller and faster but cannot be split and
combined by key: a column of several types is a union with a single kind. Texts can, and people can read them. JSON values are
written as they are, all others under a tag::

    (1, [2.5, None])     {"$tuple": [1, [2.5, null]]}
    {"n": 3}             {"n": 3}
    {1: {"a"}}           {"$map": [[1, {"$set": ["a"]}]]}
    Row(price=3)         {"$row": [3]}
    Decimal("1.50")      {"$columns": "..."}

The last form contains one value encoded by the column codec, which handles every type allowed in state and pickles if the user
allowed it.
"""

from __future__ import annotations

import json
import math
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from panestream.engine.operators.row.codec import Codec
from panestream.engine.operators.row.columns import ColumnReader, ColumnWriter
from panestream.errors import StateFormatError

_SETS: dict[type, str] = {set: "$set", frozenset: "$frozenset"}
_MAPS: dict[type, str] = {dict: "$map", Counter: "$counter"}
_LARGEST = 1 << 256
"""Larger integers are not written as JSON numbers: people do not read them, and Python is slow to write them or refuses to."""


class ValueTexts:
    """Writes and reads values; ``codec`` handles those without JSON form."""

    def __init__(self, codec: Codec, element_type: type | None = None) -> None:
        self._codec = codec
        self._element_type = element_type
        self._readers: dict[str, Callable[[Any], Any]] = {
            "$tuple": lambda items: tuple(map(self._value, items)),
            "$set": lambda items: set(map(self._value, items)),
            "$frozenset": lambda items: frozenset(map(self._value, items)),
            "$map": lambda pairs: dict(self._pairs(pairs)),
            "$counter": lambda pairs: Counter(dict(self._pairs(pairs))),
            "$row": self._row,
            "$columns": self._from_columns,
        }

    def write(self, values: Sequence[Any], name: str) -> list[str]:
        """Return a text per value, or raise InvalidPlanError if state cannot hold one; ``name`` is its column, for errors."""
        return [_text(self._json(value, name)) for value in values]

    def read(self, texts: Iterable[str]) -> list[Any]:
        """Return the values that were given to :meth:`write`.

        Raises StateFormatError for texts of another format, and InvalidPlanError for pickles that are not allowed.
        """
        return [self._value(json.loads(text)) for text in texts]

    # -- writing -------------------------------------------------------------------------------------------------------

    def _json(self, value: Any, name: str) -> Any:
        kind = type(value)
        if _has_json(value):
            return value
        if kind in (list, tuple, self._element_type):
            items = [self._json(item, name) for item in value]
            return items if kind is list else {"$tuple" if kind is tuple else "$row": items}
        if kind in _SETS:
            return {_SETS[kind]: sorted((self._json(item, name) for item in value), key=repr)}
        if kind in _MAPS:
            if kind is dict and all(type(key) is str and not key.startswith("$") and _has_json(key) for key in value):
                return {key: self._json(item, name) for key, item in value.items()}
            return {_MAPS[kind]: [[self._json(key, name), self._json(item, name)] for key, item in value.items()]}
        writer = ColumnWriter(self._codec)
        writer.values(name, [value])
        return {"$columns": b64encode(writer.finish({"name": name})).decode()}

    # -- reading -------------------------------------------------------------------------------------------------------

    def _value(self, found: Any) -> Any:
        if isinstance(found, list):
            return list(map(self._value, found))
        if not isinstance(found, dict):
            return found
        tag = next(iter(found), "")
        if not tag.startswith("$"):
            return {key: self._value(item) for key, item in found.items()}
        reader = self._readers.get(tag)
        if reader is None:
            raise StateFormatError(f"the saved state holds a value under the tag {tag!r}, which this version does not know")
        return reader(found[tag])

    def _pairs(self, pairs: Iterable[Any]) -> Iterable[tuple[Any, Any]]:
        return ((self._value(key), self._value(item)) for key, item in pairs)

    def _row(self, items: Iterable[Any]) -> Any:
        if self._element_type is None:
            raise StateFormatError("the saved state holds rows of the input: it must be read with the columns that they have")
        make: Callable[[Iterable[Any]], Any] = self._element_type._make  # type: ignore[attr-defined]
        return make(map(self._value, items))

    def _from_columns(self, text: str) -> Any:
        reader = ColumnReader(b64decode(text), self._codec)
        return reader.values(reader.header["name"])[0]


def state_texts(text: str) -> list[tuple[str, str]]:
    """Return the keys of a JSON dict with string keys, each with the text of its value, without decoding the values.

    >>> state_texts('{"seen": {"$set": ["a"]}, "last": 3}')
    [('seen', '{"$set": ["a"]}'), ('last', '3')]
    """
    found = json.loads(text)
    pairs = found["$map"] if "$map" in found else found.items()
    return [(str(name), _text(value)) for name, value in pairs]


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": "))


def _has_json(value: Any) -> bool:
    """Return whether a scalar survives JSON unchanged; NaN and lone surrogates do not."""
    kind = type(value)
    if kind is str:
        try:
            value.encode()
        except UnicodeError:
            return False
        return True
    return value is None or kind is bool or (kind is int and abs(value) < _LARGEST) or (kind is float and math.isfinite(value))


__all__ = ["ValueTexts", "state_texts"]
