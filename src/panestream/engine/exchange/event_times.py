"""The event times of a source partition: checks for unusable ones, their error message, and the progress of the others.

From the reports of all source partitions every key group derives the same watermark.
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
    """Return which rows have a usable event time, or None if all have."""
    bounds = pc.min_max(times)
    smallest, largest_seen = bounds["min"].as_py(), bounds["max"].as_py()
    in_range = smallest is None or (smallest > -LARGEST_TIME and largest_seen < LARGEST_TIME)
    if in_range and not times.null_count:
        return None
    largest = pa.scalar(LARGEST_TIME, pa.int64())
    within = pc.and_(pc.less(times, largest), pc.greater(times, pc.negate(largest)))
    return pc.fill_null(within, False)


class SaysEventTime(Protocol):
    """The properties of a query that an error about unusable event times needs."""

    @property
    def event_time(self) -> str | None:
        """The event time as the user wrote it."""

    @property
    def way_out(self) -> str:
        """The advice about such rows."""

    @property
    def invalid_tag(self) -> str | None:
        """The output for such rows, or None if they fail the query."""


def complaint(plan: SaysEventTime, what: str, value: str) -> str:
    """Return the message about unusable event times; ``what`` has the rows' number and verb, ``value`` one of their values."""
    zones = _unknown_zones(plan.event_time or "")
    hint = f" There is no time zone {zones[0]!r}; {did_you_mean(zones[0], zoneinfo.available_timezones())}" if zones else ""
    return (
        f"{what} no usable event time in {plan.event_time!r} (null, unreadable, or after the year 140,000): {value}."
        f"{hint} {plan.way_out}"
    )


def instant(micros: int) -> str:
    """Format an instant.

    >>> instant(253402300799_000_000)
    '9999-12-31T23:59:59Z'
    """
    return f"{np.datetime64(micros, 'us')}".removesuffix(".000000") + "Z"


def _unknown_zones(text: str) -> list[str]:
    known = zoneinfo.available_timezones()
    return [zone for zone in _ZONE.findall(text) if known and zone not in known]


@dataclass(slots=True)
class TimesSeen:
    """The largest event times of some rows, and the watermarks of user-defined generators.

    ``largest`` has one time per partition with its own watermark, or a single time under ``""``.
    """

    new_generator: Callable[[], WatermarkGenerator] | None
    largest: dict[str, int] = field(default_factory=dict)
    _generators: dict[str, WatermarkGenerator] = field(default_factory=dict)
    _emitted: dict[str, WatermarkOutput] = field(default_factory=dict)

    def add(self, times: pa.ChunkedArray, partition: pa.ChunkedArray | None, rows: Callable[[], pa.Table]) -> None:
        """Record the event times of some rows, per ``partition`` if not None. Only generators need the whole rows."""
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
        """Return the watermarks of the generators at the end of a micro-batch. Call it only once."""
        for name, generator in self._generators.items():
            generator.on_periodic_emit(self._emitted[name])
        return {name: output.watermark for name, output in self._emitted.items() if output.watermark is not None}

    def _generate(
        self, new: Callable[[], WatermarkGenerator], times: pa.ChunkedArray, partition: pa.ChunkedArray | None, rows: pa.Table
    ) -> None:
        """Pass every row to the generator of its source partition, which is new in every micro-batch."""
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
