"""The events of the benchmark: the formula that Flink's own benchmark uses, so that figures can stand side by side.

64-bit unsigned arithmetic, ``i = 0, 1, 2, …``::

    mix(x): z = x * 0x9E3779B97F4A7C15;  z = (z ^ (z >>> 30)) * 0xBF58476D1CE4E5B9
            z = (z ^ (z >>> 27)) * 0x94D049BB133111EB;  mix = z ^ (z >>> 31)
    r1 = mix(2i+1), r2 = mix(2i+2)
    key   = (r1 >>> 1) % keys
    value = (r2 >>> 33) % 1000
    ts    = 1700000000000 + i*1000/rate - (r2 & 0xFFFFFF) % (disorder+1)      ms, integer division

No event is late for a watermark that is ``disorder`` behind the largest ``ts``, unless a share of late events is requested. Then
``ts`` is less by ``(mix(3i+1) >>> 20) % late`` for events with ``(r2 >>> 24 & 0x1FF) * 100 < percent * 512``.

Events are written to Parquet once, so that no contestant has the cost of making them. A batch has as many files as Spark reads in
parallel. Their modification times differ, because a streaming source reads files in that order.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

EPOCH_MS = 1_700_000_000_000
SCHEMA = "key bigint, value bigint, ts timestamp, batch bigint"
"""Of the files."""
_MASK = 2**64 - 1
_CHUNK = 1 << 20


@dataclass(frozen=True)
class EventSpec:
    """The events, and their cut into micro-batches.

    Attributes:
        rows_per_batch: rows of one micro-batch.
        batches: the number of micro-batches.
        keys: the number of distinct keys.
        rate: events per second of event time.
        disorder_ms: the maximum shuffle of event times in ms, which is the watermark's delay.
        files_per_batch: the number of files of a batch. Event ``i`` goes to file ``i % files_per_batch``.
        late_percent: the approximate percentage of late events.
        late_ms: an exclusive upper bound of the lateness in ms.
    """

    rows_per_batch: int
    batches: int
    keys: int = 10_000
    rate: int = 10_000
    disorder_ms: int = 1_000
    files_per_batch: int = 2
    late_percent: int = 0
    late_ms: int = 0

    @property
    def rows(self) -> int:
        return self.rows_per_batch * self.batches


class Event(NamedTuple):
    """One event; ``ts`` in ms since the epoch."""

    key: int
    value: int
    ts: int


def reference_event(i: int, spec: EventSpec) -> Event:
    """Return event ``i`` with plain Python integers, which is slow and shows the formula above.

    >>> reference_event(0, EventSpec(1, 1))
    Event(key=3767, value=317, ts=1699999999878)
    """
    r1, r2 = _reference_mix(2 * i + 1), _reference_mix(2 * i + 2)
    ts = EPOCH_MS + i * 1000 // spec.rate - (r2 & 0xFFFFFF) % (spec.disorder_ms + 1)
    if (r2 >> 24 & 0x1FF) * 100 < spec.late_percent * 512:
        ts -= (_reference_mix(3 * i + 1) >> 20) % spec.late_ms
    return Event((r1 >> 1) % spec.keys, (r2 >> 33) % 1000, ts)


def _reference_mix(x: int) -> int:
    z = x * 0x9E3779B97F4A7C15 & _MASK
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & _MASK
    return z ^ z >> 31


def mix(x: np.ndarray[Any, np.dtype[np.uint64]]) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """Apply the generator's mixing function to arrays of unsigned 64-bit integers."""
    z = x * np.uint64(0x9E3779B97F4A7C15)  # wraps, as it should
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def events(first: int, stop: int, spec: EventSpec, step: int = 1) -> dict[str, np.ndarray[Any, np.dtype[np.int64]]]:
    """Events ``range(first, stop, step)`` as int64 columns ``key``, ``value``, ``ts`` (ms), ``batch`` (in which they come)."""
    i = np.arange(first, stop, step, dtype=np.uint64)
    r1, r2 = mix(i * np.uint64(2) + np.uint64(1)), mix(i * np.uint64(2) + np.uint64(2))
    back = ((r2 & np.uint64(0xFFFFFF)) % np.uint64(spec.disorder_ms + 1)).astype(np.int64)
    if spec.late_percent:
        late = (r2 >> np.uint64(24) & np.uint64(0x1FF)) * np.uint64(100) < np.uint64(spec.late_percent * 512)
        back[late] += (mix(i[late] * np.uint64(3) + np.uint64(1)) >> np.uint64(20)).astype(np.int64) % spec.late_ms
    return {
        "key": ((r1 >> np.uint64(1)) % np.uint64(spec.keys)).astype(np.int64),
        "value": ((r2 >> np.uint64(33)) % np.uint64(1000)).astype(np.int64),
        "ts": EPOCH_MS + (i * np.uint64(1000) // np.uint64(spec.rate)).astype(np.int64) - back,
        "batch": (i // np.uint64(spec.rows_per_batch)).astype(np.int64),
    }


def chunks(spec: EventSpec) -> Iterator[dict[str, np.ndarray[Any, np.dtype[np.int64]]]]:
    """Yield all events of ``spec``, about a million at a time."""
    for first in range(0, spec.rows, _CHUNK):
        yield events(first, min(first + _CHUNK, spec.rows), spec)


def all_events(spec: EventSpec) -> dict[str, np.ndarray[Any, np.dtype[np.int64]]]:
    """Return all events of ``spec`` at once, for answers that need to sort them."""
    return events(0, spec.rows, spec)


def write(spec: EventSpec, folder: Path) -> Path:
    """Write the events as Parquet (``SCHEMA``) below ``folder``, unless they exist.

    Returns:
        the folder to read. Its name identifies the spec.
    """
    # Increase the number if the content of files changes, so that files of an older version are not read.
    target = folder / "-".join(["v2", *(f"{name}{value}" for name, value in sorted(asdict(spec).items()))])
    done = target / "_spec.json"
    if done.exists():
        return target
    target.mkdir(parents=True, exist_ok=True)
    for batch in range(spec.batches):
        start = batch * spec.rows_per_batch
        for part in range(spec.files_per_batch):
            columns = events(start + part, start + spec.rows_per_batch, spec, spec.files_per_batch)
            table = pa.table(
                {
                    "key": columns["key"],
                    "value": columns["value"],
                    "ts": pa.array(columns["ts"] * 1000).cast(pa.timestamp("us", tz="UTC")),
                    "batch": columns["batch"],
                }
            )
            path = target / f"batch{batch:05d}-part{part:02d}.parquet"
            pq.write_table(table, path)
            # Times are a second apart. Spark orders files by modification time, and some file systems store whole seconds only.
            order = 1_600_000_000 + batch * spec.files_per_batch + part
            os.utime(path, (order, order))
    done.write_text(json.dumps(asdict(spec)))  # "_…" is hidden from Spark
    return target
