"""The event times of a source partition: those that cannot be used, what the error says of them, and how far the others are.

From the reports of all source partitions every key group finds the same watermark.
"""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panestream.engine.kernels.columns import one_chunk
from panestream.engine.kernels.python_values import RowType
from panestream.errors import did_you_mean
from panestream.windowing.watermarks import WatermarkGenerator, WatermarkOutput

LARGEST_TIME = 2**62
"""Event times beyond this (about the years ±144,000 in microseconds) are invalid: arithmetic with them could overflow."""
_ZONE = re.compile(r"\b[A-Z][a-z]{2,}/[A-Z]\w+(?:/[A-Z]\w+)?\b")


def usable_times(times: pa.Array) -> pa.Array | None:
    """Which rows have an event time that can be used; None: all."""
    bounds = pc.min_max(times)
    smallest, largest_seen = bounds["min"].as_py(), bounds["max"].as_py()
    in_range = smallest is None or (smallest > -LARGEST_TIME and largest_seen < LARGEST_TIME)
    if in_range and not times.null_count:
        return None
    largest = pa.scalar(LARGEST_TIME, pa.int64())
    within = pc.and_(pc.less(times, largest), pc.greater(times, pc.negate(largest)))
    return pc.fill_null(within, False)


class SaysEventTime(Protocol):
    """What must be known of a query to complain about rows without usable event time."""

    @property
    def event_time(self) -> str | None:
        """The event time as the user wrote it."""

    @property
    def way_out(self) -> str:
        """What to do about such rows."""

    @property
    def invalid_tag(self) -> str | None:
        """Where such rows go; None: they fail the query."""


def complaint(plan: SaysEventTime, what: str, value: str) -> str:
    """The message of rows without usable event time.

    Args:
        plan: the query.
        what: how many rows.
        value: what one of them has there.
    """
    zones = _unknown_zones(plan.event_time or "")
    hint = f" There is no time zone {zones[0]!r}; {did_you_mean(zones[0], zoneinfo.available_timezones())}" if zones else ""
    return (
        f"{what} no usable event time in {plan.event_time!r} (null, not readable as a time, or beyond the year 140,000): {value}."
        f"{hint} {plan.way_out}"
    )


def instant(micros: int) -> str:
    """An instant in words.

    >>> instant(253402300799_000_000)
    '9999-12-31T23:59:59Z'
    """
    return f"{np.datetime64(micros, 'us')}".removesuffix(".000000") + "Z"


def _unknown_zones(text: str) -> list[str]:
    known = zoneinfo.available_timezones()
    return [zone for zone in _ZONE.findall(text) if known and zone not in known]


@dataclass(slots=True)
class TimesSeen:
    """The largest event times of some rows, and what the user's own generators say of them.

    Attributes:
        new_generator: makes the user's generator of watermarks; None: the strategy has none.
        largest: the largest event time of each partition whose watermark is its own; ``""`` where all have one.
    """

    new_generator: Callable[[], WatermarkGenerator] | None
    largest: dict[str, int] = field(default_factory=dict)
    _generators: dict[str, WatermarkGenerator] = field(default_factory=dict)
    _emitted: dict[str, WatermarkOutput] = field(default_factory=dict)

    def add(self, times: pa.ChunkedArray, partition: pa.ChunkedArray | None, rows: Callable[[], pa.Table]) -> None:
        """Takes note of some rows.

        Args:
            times: their event times.
            partition: the column whose values have watermarks of their own, or None.
            rows: gives them whole, which only generators need.
        """
        if partition is None:
            largest = {"": pc.max(times).as_py()}
        else:
            by_partition = pa.table({"partition": partition, "time": times})
            maxima = by_partition.group_by("partition").aggregate([("time", "max")])
            names = map(_name, maxima.column("partition").to_pylist())
            largest = dict(zip(names, maxima.column("time_max").to_pylist(), strict=True))
        for name, time in largest.items():
            self.largest[name] = max(time, self.largest.get(name, time))
        if self.new_generator is not None:
            self._generate(self.new_generator, times, partition, rows())

    def watermarks(self) -> dict[str, int]:
        """What the generators say at the end of a micro-batch; to be asked once."""
        for name, generator in self._generators.items():
            generator.on_periodic_emit(self._emitted[name])
        return {name: output.watermark for name, output in self._emitted.items() if output.watermark is not None}

    def _generate(
        self, new: Callable[[], WatermarkGenerator], times: pa.ChunkedArray, partition: pa.ChunkedArray | None, rows: pa.Table
    ) -> None:
        """Shows every row to the user's own generator of its source partition: new in every micro-batch."""
        elements = RowType(rows.schema).rows(rows)
        instants = one_chunk(times).to_pylist()
        names = [""] * len(instants) if partition is None else map(_name, partition.to_pylist())
        for name, time, element in zip(names, instants, elements, strict=True):
            if name not in self._generators:
                self._generators[name] = new()
                self._emitted[name] = WatermarkOutput()
            self._generators[name].on_event(element, time, self._emitted[name])


def _name(partition: str | None) -> str:
    return "" if partition is None else partition
