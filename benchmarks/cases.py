"""What is asked of every contestant, and what the right answer is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.events import EventSpec, chunks


@dataclass(frozen=True)
class Case:
    """One windowed query: per key and window the sum of ``value`` and the count of rows, when the watermark closes it.

    Attributes:
        name: how figures call it.
        size_ms: length of a window.
        slide_ms: a window starts every so many ms; equal to the size: tumbling.
    """

    name: str
    size_ms: int
    slide_ms: int

    @property
    def size(self) -> str:
        return f"{self.size_ms} milliseconds"

    @property
    def slide(self) -> str:
        return f"{self.slide_ms} milliseconds"


CASES = {case.name: case for case in (Case("sliding", 60_000, 1_000), Case("tumbling", 10_000, 10_000))}


@dataclass(frozen=True)
class Checks:
    """What must come out over all windows that end at a bound or before: rows, and over them the sum of sums and of counts."""

    rows: int
    total: int
    events: int


def closed_bound_ms(spec: EventSpec, case: Case) -> int:
    """The last window end (ms) that every contestant must have reached by the end of the input, at the latest.

    Watermarks differ by a millisecond from engine to engine, and Spark's own lags a batch; but all have passed the largest event
    time less the disorder, and a window end before that.
    """
    largest = max(int(chunk["ts"].max()) for chunk in chunks(spec))
    return (largest - spec.disorder_ms - 2) // case.slide_ms * case.slide_ms


def expected(spec: EventSpec, case: Case, bound_ms: int) -> Checks:
    """The answer by counting into a keys by slides table and adding up its columns: no window, no watermark, no Spark."""
    first = min(int(chunk["ts"].min()) for chunk in chunks(spec)) // case.slide_ms
    slides = bound_ms // case.slide_ms - first
    sums = np.zeros((spec.keys, slides), np.int64)
    counts = np.zeros((spec.keys, slides), np.int64)
    for chunk in chunks(spec):
        slide = chunk["ts"] // case.slide_ms - first
        inside = slide < slides
        cell = chunk["key"][inside] * slides + slide[inside]
        counts += np.bincount(cell, minlength=counts.size).reshape(counts.shape)
        # Exact: a float holds integers up to 2**53, and a cell's sum is far from it.
        sums += np.bincount(cell, chunk["value"][inside], counts.size).astype(np.int64).reshape(counts.shape)
    per_window = case.size_ms // case.slide_ms
    windows = _trailing(counts, per_window)
    return Checks(int(np.count_nonzero(windows)), int(_trailing(sums, per_window).sum()), int(windows.sum()))


def _trailing(cells: np.ndarray[Any, np.dtype[np.int64]], width: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """For every column the sum of it and the ``width - 1`` columns before it."""
    running = np.cumsum(cells, axis=1)
    running[:, width:] -= running[:, :-width].copy()
    return running
