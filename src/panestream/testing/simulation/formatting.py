"""Rows of outputs as plain values that can be compared and printed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pyarrow as pa

from panestream.testing.simulation.disk import OutputRow


class Micros(int):
    """Microseconds since 1970, printed as a time.

    >>> Micros(90_500_000), Micros(-1), Micros(60) == 60
    (1970-01-01 00:01:30.500000, 1969-12-31 23:59:59.999999, True)
    """

    __slots__ = ()

    def __repr__(self) -> str:
        try:
            time = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=int(self))
        except OverflowError:  # before the year 1 or after 9999
            return str(int(self))
        return time.replace(tzinfo=None).isoformat(" ")


class Written(str):
    """A function's result as text, since it may not be hashable; printed without extra quotes.

    >>> ("ann", Written("('a', 1)"))
    ('ann', ('a', 1))
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def plain_rows(table: pa.Table, as_time: Callable[[int], int] = int) -> list[OutputRow]:
    """Return the rows of an output as comparable plain values; ``as_time`` converts the microseconds of instants."""
    columns = []
    for column in table.columns:
        if pa.types.is_timestamp(column.type):
            columns.append([time if time is None else as_time(time) for time in column.cast(pa.int64()).to_pylist()])
        else:
            columns.append([_fixed(value) for value in column.to_pylist()])
    return list(zip(*columns, strict=True))


def _fixed(value: Any) -> Any:
    """Return lists as tuples, and structs as tuples of names and values."""
    if isinstance(value, list):
        return tuple(_fixed(item) for item in value)
    if isinstance(value, dict):
        return tuple((name, _fixed(item)) for name, item in value.items())
    return value
