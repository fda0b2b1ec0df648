"""Shared helpers of random tests on Spark: the harness's rows and windows by the public API, and the output in the engine's form."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta, timezone

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import panestream as pst
from panestream.engine.plan import WindowQuery
from tests.comparison.harness import Place, Row

SCHEMA = "key string, ts timestamp, v bigint, x double, u bigint"
EPOCH = datetime(2026, 1, 1, tzinfo=timezone.utc)
EPOCH_MICROS = int(EPOCH.timestamp()) * 1_000_000
PLACES = ("key", "window", "window_start", "window_end")


def in_our_time(rows: Iterable[Row]) -> list[Row]:
    """Move rows of a random stream to times that are easy to convert to timestamps."""
    return [(row[0], row[1] + EPOCH_MICROS, *row[2:]) for row in rows]


def instant(micros: int) -> datetime:
    """Return the timestamp of such a time."""
    return EPOCH + timedelta(microseconds=micros - EPOCH_MICROS)


def with_timestamps(rows: Iterable[Row]) -> list[Row]:
    """Return rows with timestamps for Spark."""
    return [(row[0], instant(row[1]), *row[2:]) for row in rows]


def windowed_by(
    df: DataFrame,
    windowing: WindowQuery,
    delay: int,
    *,
    per_partition: str | None = None,
    arrival_order: Sequence[str] = (),
) -> pst.datastream.WindowedStream:
    """Build the windows of a random query by the public API."""
    strategy = pst.WatermarkStrategy.for_bounded_out_of_orderness(timedelta(microseconds=delay))
    strategy = strategy if per_partition is None else strategy.per_partition(per_partition)
    stream = pst.stream(df).assign_timestamps("ts", strategy)
    stream = stream.arrival_order(*arrival_order) if arrival_order else stream
    windowed = stream.key_by("key").window(windowing.assigner)
    if windowing.trigger is not None:
        windowed = windowed.trigger(windowing.trigger)
    if windowing.evictor is not None:
        windowed = windowed.evictor(windowing.evictor)
    if windowing.allowed_lateness:
        windowed = windowed.allowed_lateness(timedelta(microseconds=windowing.allowed_lateness))
    return windowed


def fired(rows: DataFrame) -> list[tuple[Place, tuple]]:
    """Return the rows of the main output as (place, values), with window bounds as integers, like ``harness.rows_of``."""
    places = [name for name in PLACES if name in rows.columns]
    bounds = {name: F.unix_micros(name) for name in places if name.startswith("window_")}
    found = [row.asDict(recursive=True) for row in rows.withColumns(bounds).collect()]
    return [
        (tuple(row[name] for name in places), tuple(value for name, value in row.items() if name not in places)) for row in found
    ]


def by_place(rows: Iterable[tuple[Place, tuple]]) -> dict[Place, tuple]:
    """Return the values of each place. Count windows may have several."""
    places: dict[Place, tuple] = {}
    for place, values in sorted(rows, key=str):
        places[place] = (*places.get(place, ()), values)
    return places
