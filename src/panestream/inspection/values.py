"""Values of Arrow tables as JSON."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from panestream.windowing.time import iso, micros_in

Json = Any
"""A value that ``json.dumps`` accepts."""
_UNITS = {"s": 1_000_000, "ms": 1_000, "us": 1}


def json_of(value: Any) -> Json:
    """Return a ``pyarrow.Scalar`` as JSON.

    Times and dates are ISO 8601 (times with a Z if the column has a zone). Decimals, durations, infinities and NaN become text,
    and bytes become base64.
    """
    if not value.is_valid:
        return None
    kind, types = value.type, pa.types
    if types.is_timestamp(kind) and kind.unit in _UNITS:
        text = iso(value.value * _UNITS[kind.unit])
        return text if text is None or kind.tz is not None else text.removesuffix("Z")
    if types.is_floating(kind):
        number = float(value.as_py())
        return number if math.isfinite(number) else str(number)
    if types.is_struct(kind):
        return {field.name: json_of(value[place]) for place, field in enumerate(kind)}
    if types.is_map(kind):
        return [[json_of(entry[0]), json_of(entry[1])] for entry in value.values] if value.values is not None else []
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return [json_of(each) for each in value.values]
    found = value.as_py()
    if isinstance(found, bytes):
        return base64.b64encode(found).decode()
    return found if isinstance(found, (bool, int, str)) else str(found)


def row_of(table: pa.Table, row: int) -> dict[str, Json]:
    """Return a row of a table as JSON."""
    return {name: json_of(table.column(name)[row]) for name in table.column_names}


def text_of(value: Json) -> str:
    """Return a JSON value for people: unambiguous text as it is, and everything else as JSON.

    >>> text_of("ann"), text_of(None), text_of("null"), text_of(""), text_of({"a": 1.5})
    ('ann', 'null', '"null"', '""', '{"a": 1.5}')
    """
    clear = isinstance(value, str) and value == value.strip() and value not in ("", "null")
    return str(value) if clear else json.dumps(value, ensure_ascii=False)


def key_text(key: Mapping[str, Json] | None) -> str:
    """Return a key for people.

    >>> key_text({"user": "ann"}), key_text({"user": "ann", "shop": None})
    ('ann', 'user=ann shop=null')
    """
    if not key:
        return "all rows"
    if len(key) == 1:
        return text_of(next(iter(key.values())))
    return " ".join(f"{name}={text_of(value)}" for name, value in key.items())


__all__ = ["Json", "iso", "json_of", "key_text", "micros_in", "row_of", "text_of"]
