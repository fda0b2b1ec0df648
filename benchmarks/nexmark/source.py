"""The events as a Spark source, for streams and batches: ``spark.read(Stream).format("panestream_nexmark")``.

Rows go to Spark as Arrow record batches and are never Python tuples. Needs Spark 4.2 for streams (read limits). Options:

============================  =========================================================================================
events (needed)               number of events of all kinds
seed, rate, base_ms,          see :class:`~benchmarks.nexmark.generator.NexmarkSpec`
disorder_ms,
delayed_percent, delay_ms
kind                          person, auction or bid (default): the columns of that kind. Several, separated by commas: one
                              stream of them, with columns ``kind``, ``dateTime`` and e.g. ``person_id``
columns                       only these, separated by commas: what nobody reads need not be made (Spark does not tell a
                              Python source). ``n`` is the number of the event
partitions                    into how many tasks a batch is cut (default: the cores of the driver's machine)
events_per_batch              of a micro-batch (default: all)
============================  =========================================================================================
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from benchmarks.nexmark.generator import COLUMNS, CYCLE, HIDDEN, KINDS, NexmarkSpec, column_type, events, mixed

FORMAT = "panestream_nexmark"
_CHUNK = 2_000 * CYCLE
"""Events to make at once."""
_SPEC = ("events", "seed", "rate", "base_ms", "disorder_ms", "delayed_percent", "delay_ms")
_DDL = {pa.int64(): "bigint", pa.string(): "string", pa.timestamp("us", tz="UTC"): "timestamp"}


@dataclass(frozen=True)
class Request:
    """The request of one reader.

    Raises:
        ValueError: an option is missing, unknown or wrong.
    """

    spec: NexmarkSpec
    kinds: tuple[str, ...]
    columns: tuple[str, ...]
    partitions: int
    events_per_batch: int

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Request:
        """Read the options of a reader."""
        given = {name.lower(): value for name, value in options.items()}
        known = {*_SPEC, "kind", "columns", "partitions", "events_per_batch"}
        unknown = set(given) - known
        if unknown or "events" not in given:
            problem = f"no option {min(unknown)!r}" if unknown else "the option 'events' is missing"
            raise ValueError(f"{FORMAT}: {problem}; options are {', '.join(sorted(known))}")
        spec = NexmarkSpec(**{name: int(given[name]) for name in _SPEC if name in given})
        kinds = _listed(given.get("kind", "bid"), tuple(KINDS), "kind")
        columns = available(kinds)
        if "columns" in given:
            columns = _listed(given["columns"], (*columns, *HIDDEN), "column")
        else:
            columns = tuple(name for name in columns if name not in HIDDEN)
        partitions = int(given.get("partitions", os.cpu_count() or 1))
        return cls(spec, kinds, columns, partitions, int(given.get("events_per_batch", spec.events)))

    @property
    def types(self) -> dict[str, pa.DataType]:
        """Return Arrow types by column."""
        return {name: self._type(name) for name in self.columns}

    def _type(self, name: str) -> pa.DataType:
        if len(self.kinds) == 1:
            return column_type(self.kinds[0], name)
        if name == "kind":
            return pa.int64()
        if name in ("dateTime", "n"):
            return column_type("bid", name)
        return column_type(*name.split("_", 1))

    def cut(self, first: int, stop: int) -> list[Range]:
        """Return consecutive ranges of event numbers, one per task."""
        if first >= stop:
            return []
        edges = [first + (stop - first) * part // self.partitions for part in range(self.partitions + 1)]
        return [Range(low, high) for low, high in pairwise(edges) if low < high]

    def make(self, part: Range) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one task."""
        for low in range(part.first, part.stop, _CHUNK):
            high = min(low + _CHUNK, part.stop)
            if len(self.kinds) == 1:
                yield events(self.spec, low, high, self.kinds[0], self.columns)
            else:
                yield mixed(self.spec, low, high, self.kinds, self.columns)


def available(kinds: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of one kind, or of a stream of several kinds."""
    if len(kinds) == 1:
        return tuple(COLUMNS[kinds[0]])
    own = [f"{kind}_{name}" for kind in kinds for name in COLUMNS[kind] if name != "dateTime"]
    return ("kind", "dateTime", *own)


def _listed(text: str, known: Sequence[str], what: str) -> tuple[str, ...]:
    chosen = tuple(name.strip() for name in text.split(","))
    for name in chosen:
        if name not in known:
            raise ValueError(f"{FORMAT}: there is no {what} {name!r}; there are {', '.join(known)}")
    return chosen


class Range(InputPartition):
    """Events ``first`` to ``stop - 1``."""

    def __init__(self, first: int, stop: int) -> None:
        super().__init__((first, stop))
        self.first, self.stop = first, stop


class NexmarkSource(DataSource):
    """Registered with ``spark.dataSource.register(NexmarkSource)``."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return ", ".join(f"{name} {_DDL[kind]}" for name, kind in Request.of(self.options).types.items())

    def reader(self, schema: Any) -> DataSourceReader:
        return _BatchReader(Request.of(self.options))

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return _StreamReader(Request.of(self.options))


class _BatchReader(DataSourceReader):
    def __init__(self, request: Request) -> None:
        self.request = request

    def partitions(self) -> Sequence[InputPartition]:
        return self.request.cut(0, self.request.spec.events)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, Range)  # noqa: S101 - what `partitions` gave
        return self.request.make(partition)


class _StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """An offset is the number of the next event."""

    def __init__(self, request: Request) -> None:
        self.request = request

    def initialOffset(self) -> dict[str, int]:
        return {"n": 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self.request.events_per_batch)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        left = self.request.spec.events - start["n"]
        return {"n": start["n"] + (left if isinstance(limit, ReadAllAvailable) else min(left, self.request.events_per_batch))}

    def prepareForTriggerAvailableNow(self) -> None:
        """Do nothing, since all events exist from the start."""

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return self.request.cut(start["n"], end["n"])

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, Range)  # noqa: S101 - what `partitions` gave
        return self.request.make(partition)


def register(spark: SparkSession) -> None:
    """Register the format in a session."""
    spark.dataSource.register(NexmarkSource)
