"""What a source partition saw of event times: from the reports of all, every key group finds the same watermark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from panestream.engine.kernels.columns import one_chunk
from panestream.engine.kernels.python_values import RowType
from panestream.windowing.watermarks import WatermarkGenerator, WatermarkOutput


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
