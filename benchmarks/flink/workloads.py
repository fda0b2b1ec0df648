"""The workloads that panestream, native Spark and Flink run side by side, and their right answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.cases import Case, Checks, SortedSessions, SumCount
from benchmarks.events import EventSpec, all_events

FLINK_BACKENDS = {"flink heap": "hashmap", "flink rocksdb": "rocksdb"}
"""Contestants that make the events in the process that sums them."""
FLINK_ON_FILES = {f"{name}, same files": backend for name, backend in FLINK_BACKENDS.items()}
"""Contestants that read the Parquet files which Spark reads."""
LIMITS = {"transfer in": "benchmarks.flink.transfer_in", "transfer there and back": "benchmarks.flink.transfer_back"}
"""Limits that send rows to Python (and back) without any work on them, each with its module."""


@dataclass(frozen=True)
class Sessions(Case):
    """Sum and count per session of a key."""

    gap_ms: int

    contestants = {"panestream": "benchmarks.flink.panestream_job", "native": "benchmarks.flink.native"}  # noqa: RUF012

    @property
    def span_ms(self) -> int:
        return 10 * self.gap_ms

    @property
    def gap(self) -> str:
        return f"{self.gap_ms} milliseconds"

    def expected(self, spec: EventSpec, bound_ms: int | None) -> Checks:
        """By sorting."""
        sessions = SortedSessions.of(spec, self.gap_ms)
        closed, sums = sessions.closed(bound_ms), np.add.reduceat(sessions.value, sessions.first)
        return Checks(int(closed.sum()), int(sums[closed].sum()), int(sessions.count[closed].sum()))


@dataclass(frozen=True)
class CountWindows(Case):
    """Sum and count of every n events of a key. The order of arrival decides which events these are."""

    every: int

    contestants = {"panestream": "benchmarks.flink.panestream_job"}  # noqa: RUF012 - Spark refuses count windows on streams

    @property
    def span_ms(self) -> int:
        return 0

    def expected(self, spec: EventSpec, bound_ms: int | None) -> Checks:
        """Return rows and counts. The total is not defined, and is 0."""
        full = int((np.bincount(all_events(spec)["key"]) // self.every).sum())
        return Checks(full, 0, full * self.every)


@dataclass(frozen=True)
class OverElements(SumCount):
    """Sum and count by a function that gets all rows of the window.

    Attributes:
        shape: the input of the function. ``process`` gets a list of rows and a context. ``stateless`` gets the same, and declares
            that it has no state. ``apply`` gets a list of rows. ``apply_arrow`` gets one Arrow table for all windows that fire.
            Flink's function is like ``process``, without state.
    """

    shape: str = "apply"

    contestants = {"panestream": "benchmarks.flink.panestream_job"}  # noqa: RUF012 - nothing of the kind in native Spark


@dataclass(frozen=True)
class Workload:
    """One line of the comparison.

    Attributes:
        name: the name in the figures.
        title: a description.
        case: the windows.
        flink: arguments of the Flink program.
        rows: the contestants, with the number of events that each processes in about ten seconds. A rate does not depend on this
            number if it is large enough, and the slowest contestant would take hours for the fastest one's events.
        keys: the number of distinct keys.
        rate: events per second of event time.
    """

    name: str
    title: str
    case: Case
    flink: Mapping[str, Any]
    rows: Mapping[str, int]
    keys: int = 10_000
    rate: int = 10_000

    @property
    def contestants(self) -> tuple[str, ...]:
        """Who takes part."""
        everybody = (*self.case.contestants, *FLINK_BACKENDS, *FLINK_ON_FILES, *LIMITS)
        return tuple(name for name in everybody if name in self.rows)

    def spec(self, rows: int, rows_per_batch: int, cores: int) -> EventSpec:
        """Return the specification of at least this many events, in micro-batches of the same size."""
        batches = max(1, -(-rows // rows_per_batch))
        return EventSpec(-(-rows // batches), batches, self.keys, self.rate, files_per_batch=cores)


def sliding(name: str, title: str, size_ms: int, slide_ms: int, rows: Mapping[str, int], **shape: int) -> Workload:
    """Return a workload of sum and count of aligned windows."""
    flink = {"kind": "aggregate", "size": size_ms, "slide": slide_ms}
    return Workload(name, title, SumCount(name, size_ms, slide_ms), flink, rows, **shape)


def _rows(panestream: int, native: int | None, heap: int, rocksdb: int) -> dict[str, int]:
    spark = {"panestream": panestream} if native is None else {"panestream": panestream, "native": native}
    return {**spark, "flink heap": heap, "flink rocksdb": rocksdb}


def _where_the_source_counts(panestream: int, native: int | None, heap: int, rocksdb: int) -> dict[str, int]:
    """Return contestants for workloads dominated by reading and transfer, including those that read files, and the limits."""
    on_files = dict(zip(FLINK_ON_FILES, (panestream, rocksdb), strict=True))
    return {**_rows(panestream, native, heap, rocksdb), **on_files, **dict.fromkeys(LIMITS, panestream)}


_MILLION = 1_000_000
WORKLOADS = {
    workload.name: workload
    for workload in (
        sliding(
            "a", "tumbling 10 s", 10_000, 10_000,
            _where_the_source_counts(10 * _MILLION, 10 * _MILLION, 5 * _MILLION, 2 * _MILLION),
        ),
        sliding("b", "sliding 60 s / 1 s", 60_000, 1_000, _rows(5 * _MILLION, _MILLION, 300_000, 60_000)),
        Workload(
            "c", "session, gap 2 s", Sessions("c", 2_000), {"kind": "session", "size": 2_000},
            _rows(5 * _MILLION, 5 * _MILLION, 3 * _MILLION, 500_000),
        ),
        sliding(
            "d", "sliding 1 h / 10 s", 3_600_000, 10_000, _rows(2 * _MILLION, 100_000, 100_000, 30_000), keys=1_000, rate=100
        ),
        Workload(
            "e", "every 100 events", CountWindows("e", 100), {"kind": "count", "size": 100},
            _where_the_source_counts(5 * _MILLION, None, 5 * _MILLION, _MILLION),
        ),
        *(
            Workload(
                name, f"tumbling 10 s, {shown} over all elements", OverElements(name, 10_000, 10_000, shape),
                {"kind": "elements", "size": 10_000},
                _where_the_source_counts(5 * _MILLION, None, 5 * _MILLION, 2 * _MILLION),
            )
            for name, shape, shown in (
                ("f", "apply", "apply"), ("f-arrow", "apply_arrow", "apply_arrow"), ("f-process", "process", "process"),
                ("f-stateless", "stateless", "process(stateless=True)"),
            )
        ),
    )
}  # fmt: skip
