"""Numbers with a fraction where a column has whole ones: Arrow would cut the fraction off without a word."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

_FRACTIONS = (float, np.floating)


def with_fraction(values: Sequence[Any], type_: pa.DataType) -> Any | None:
    """The first number with a fraction that would lose it in a column of this type, at whatever depth; None: there is none.

    >>> with_fraction([1, 2.0, None, 2.5], pa.int64()), with_fraction([[1], [2, 0.5]], pa.list_(pa.int32()))
    (2.5, 0.5)
    """
    if pa.types.is_integer(type_):
        if not any(issubclass(kind, _FRACTIONS) for kind in set(map(type, values))):
            return None
        return next((one for one in values if isinstance(one, _FRACTIONS) and not float(one).is_integer()), None)
    if not _has_integers(type_):
        return None
    there = [value for value in values if value is not None]
    if pa.types.is_map(type_):
        pairs = [pair for value in there for pair in (value.items() if isinstance(value, dict) else value)]
        parts = [([pair[0] for pair in pairs], type_.key_type), ([pair[1] for pair in pairs], type_.item_type)]
    elif pa.types.is_struct(type_):
        parts = [
            ([value.get(field.name) if isinstance(value, dict) else value[place] for value in there], field.type)
            for place, field in enumerate(type_)
        ]
    else:
        parts = [(list(chain.from_iterable(there)), type_.value_type)]
    return next((found for found in (with_fraction(*part) for part in parts) if found is not None), None)


def _has_integers(type_: pa.DataType) -> bool:
    if pa.types.is_map(type_):
        return _has_integers(type_.key_type) or _has_integers(type_.item_type)
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return _has_integers(type_.value_type)
    if pa.types.is_struct(type_):
        return any(_has_integers(field.type) for field in type_)
    return bool(pa.types.is_integer(type_))


__all__ = ["with_fraction"]
