"""Dates and times as Arrow columns that come back exactly as they were, with time zones and folds."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa

from panestream.engine.kernels.python_values import instants, python_values
from panestream.errors import StateFormatError

_MICRO = dt.timedelta(microseconds=1)
_NAIVE, _UTC = pa.timestamp("us"), pa.timestamp("us", "UTC")


def datetime_column(values: Sequence[Any]) -> tuple[pa.Array, list[Any]] | None:
    """Encode datetimes (or None) as a column and its kind, or return None if a time zone cannot be written.

    Nearly all are naive, or all are UTC. Others are stored as naive time, zone number and fold.
    """
    present = [value for value in values if value is not None]
    if not any(value.fold for value in present):
        first = present[0].tzinfo
        if (first is None or first is dt.timezone.utc) and all(value.tzinfo is first for value in present):
            return (pa.array(values, _NAIVE), ["datetime"]) if first is None else (instants(values, _UTC), ["utc"])
    # Compare zones by repr: zones with different names may be equal.
    zones = {repr(value.tzinfo): value.tzinfo for value in present}
    numbers_of = {text: number for number, text in enumerate(zones)}
    names = [_name_of(zone) for zone in zones.values()]
    if not all(names):
        return None
    times = pa.array([None if value is None else value.replace(tzinfo=None) for value in values], _NAIVE)
    numbers = pa.array([0 if value is None else numbers_of[repr(value.tzinfo)] for value in values], pa.int16())
    folds = pa.array([value is not None and bool(value.fold) for value in values], pa.bool_())
    return pa.StructArray.from_arrays([times, numbers, folds], ["time", "zone", "fold"]), ["zoned", [], names]


def datetimes(array: pa.Array, kind: list[Any]) -> list[Any]:
    """Decode a column of :func:`datetime_column`."""
    if kind[0] != "zoned":
        return python_values(array)
    zones = [_zone_of(name) for name in kind[2]]
    columns = (python_values(array.field(0)), array.field(1).to_pylist(), array.field(2).to_pylist())
    return [
        None if time is None else time.replace(tzinfo=zones[number], fold=int(fold))
        for time, number, fold in zip(*columns, strict=True)
    ]


def _name_of(zone: dt.tzinfo | None) -> list[Any] | None:
    """Return a zone in JSON, or None if JSON cannot express it."""
    if zone is None:
        return ["none"]
    if type(zone) is dt.timezone:
        offset, *name = zone.__getinitargs__()  # type: ignore[attr-defined]  # as pickle and copy see it
        return ["fixed", offset // _MICRO, *name]
    if type(zone) is ZoneInfo and zone.key is not None:
        return ["zone", zone.key]
    return None


def _zone_of(name: list[Any]) -> dt.tzinfo | None:
    if name[0] == "none":
        return None
    try:
        if name[0] == "zone":
            return ZoneInfo(name[1])
        return dt.timezone(dt.timedelta(microseconds=name[1]), *name[2:])
    except (LookupError, TypeError, ValueError, OverflowError, OSError) as error:
        raise StateFormatError(
            f"the state holds times in the time zone {name!r}, which is not known here ({error}): pip install tzdata brings all"
        ) from error
