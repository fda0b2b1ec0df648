"""The cost of a micro-batch as a sum of terms, each a quantity of work times a price, with prices fitted to measurements.

A price is never negative. The fit minimizes relative errors, so that a micro-batch of 400 ms counts like one of 40 s.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from benchmarks.catalog import SUM_COUNT_CASES
from benchmarks.groups import Configuration

Floats = npt.NDArray[np.float64]
DISORDER = 1.0
"""The disorder of the benchmark's events in seconds."""


@dataclass(frozen=True)
class Work:
    """The total work of a micro-batch. It is computed and not measured, for equally frequent keys in random order.

    Attributes:
        rows: input rows.
        cells: partial sums that cross the shuffle, one for each reading task, key and pane.
        results: output rows, one for each key and window.
        kept: stored partial sums.
        payloads: pieces that cross the shuffle, one for each reading task and key group.
        panes: the panes of the input rows.
    """

    rows: float
    cells: float
    results: float
    kept: float
    payloads: float
    panes: float

    @classmethod
    def of(cls, one: Configuration) -> Work:
        """Of a configuration."""
        case = SUM_COUNT_CASES[one.query]
        size, slide, seconds = case.size_ms / 1000, case.slide_ms / 1000, one.rows / one.rate
        panes = max(1.0, (seconds + DISORDER) / slide)
        cells = one.files * panes * _distinct(one.keys, one.rows / one.files / panes)
        fired = seconds / slide
        kept = size / slide * _distinct(one.keys, one.rate * slide)
        return cls(one.rows, cells, fired * _distinct(one.keys, one.rate * size), kept, one.files * one.groups, panes)


def _distinct(keys: float, rows: float) -> float:
    """Return the expected number of distinct keys of some rows."""
    return -keys * math.expm1(-rows / keys)


TERMS = {
    "micro-batch": "whatever it has to do: planning, logs, the driver",
    "key group": "its state opened and committed, its operator made, most of it waiting: for each that a core takes",
    "key group, processor": "the work in that: for each, by the processors of the machines",
    "payload": "a piece of the exchange, packed by each task that reads for each key group, and opened there: by the processors",
    "row": "read, judged, added up before the shuffle: by the processors",
    "cell": "a partial sum of key and pane that crosses the shuffle and is written: by the processors",
    "result": "a key and window that leaves: by the processors",
    "pane": "of a key group, taken in and put together: for each of those that a core takes",
}
"""The terms with a price, and their descriptions.

One of Spark's cores runs one task at a time. The task waits for its Python worker, which in turn waits for Java. These are two
processes, so such a core uses more than one processor, and two cores saturate a machine with two processors. So some prices are
for serial work of a core, and others for work that all processors share.
"""


def terms(one: Configuration, processors: int = 1) -> Floats:
    """Return the quantity of each term in a micro-batch.

    Args:
        one: the micro-batch.
        processors: the processors of the machines, at least the number of Spark's cores.
    """
    work, keeping = Work.of(one), min(one.cores, one.groups)
    # Count whole key groups, because three on two cores take as long as four.
    turns, shared = math.ceil(one.groups / keeping), max(one.cores, processors)
    amounts = (one.groups, work.payloads, work.rows, work.cells, work.results)
    return np.array([1.0, turns, *(amount / shared for amount in amounts), turns * work.panes])


def non_negative(matrix: Floats, wanted: Floats) -> Floats:
    """Solve least squares without negative coefficients (Lawson and Hanson's active set).

    >>> non_negative(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), np.array([2.0, -1.0, 1.0])).tolist()
    [1.5, 0.0]
    """
    # Scale the columns, because terms differ by nine orders of magnitude.
    size = np.linalg.norm(matrix, axis=0)
    size[size == 0] = 1.0
    scaled = matrix / size
    found, used = np.zeros(scaled.shape[1]), np.zeros(scaled.shape[1], np.bool_)
    for _ in range(10 * scaled.shape[1]):
        gain = scaled.T @ (wanted - scaled @ found)
        gain[used] = -np.inf
        best = int(np.argmax(gain))
        if gain[best] <= 1e-10 * np.linalg.norm(wanted):
            break
        used[best] = True
        while used.any():
            solved = np.zeros_like(found)
            solved[used] = np.linalg.lstsq(scaled[:, used], wanted, rcond=None)[0]
            if (solved[used] > 0).all():
                found = solved
                break
            falling = used & (solved <= 0)
            step = np.min(found[falling] / np.maximum(found[falling] - solved[falling], 1e-300))
            found = found + step * (solved - found)
            used &= found > 1e-14
            found[~used] = 0.0
    prices: Floats = found / size
    return prices


@dataclass(frozen=True)
class Model:
    """The prices of :data:`TERMS` in milliseconds, and the number of processors of the measured machine."""

    prices: Floats
    processors: int = 1

    @classmethod
    def fit(cls, of: Sequence[Configuration], ms: Sequence[float], processors: int = 1, free: Sequence[int] = ()) -> Model:
        """Fit the prices to measured milliseconds by the least squares of relative errors.

        Args:
            of: the measured configurations.
            ms: their times.
            processors: the processors of the machine.
            free: the indices of terms with a price of 0.
        """
        wanted = np.asarray(ms, np.float64)
        matrix = np.array([terms(each, processors) for each in of]) / wanted[:, None]
        matrix[:, list(free)] = 0.0
        return cls(non_negative(matrix, np.ones(len(wanted))), processors)

    def error(self, of: Sequence[Configuration], ms: Sequence[float]) -> float:
        """Return the root of the mean square of relative errors."""
        return math.sqrt(sum((self.ms(each) / took - 1) ** 2 for each, took in zip(of, ms, strict=True)) / len(ms))

    def parts(self, of: Configuration) -> dict[str, float]:
        """Return the milliseconds of a micro-batch, by term."""
        return dict(zip(TERMS, (terms(of, self.processors) * self.prices).tolist(), strict=True))

    def ms(self, of: Configuration) -> float:
        """The milliseconds of a micro-batch."""
        return sum(self.parts(of).values())


def without_each(of: Sequence[Configuration], ms: Sequence[float], processors: int = 1) -> list[Model]:
    """Return a model for each point, fitted to all other points."""
    return [Model.fit([*of[:at], *of[at + 1 :]], [*ms[:at], *ms[at + 1 :]], processors) for at in range(len(of))]


def as_good(of: Sequence[Configuration], ms: Sequence[float], processors: int = 1) -> list[Model]:
    """Return the models without some of the terms that are about as close to the measurements as the model with all terms.

    If two terms grow together in all points, either may have the whole price. The points cannot decide, and elsewhere it matters.
    """
    # Two standard errors of a price, as for least squares without bounds: the fewer points, the more models.
    margin = math.sqrt(1 + 4 / max(1, len(ms) - len(TERMS)))
    most = margin * Model.fit(of, ms, processors).error(of, ms) + 1e-9
    places = range(1, len(TERMS))
    lacking = (free for many in range(1, len(TERMS)) for free in combinations(places, many))
    return [model for model in (Model.fit(of, ms, processors, free) for free in lacking) if model.error(of, ms) <= most]


def beyond(
    of: Sequence[Configuration], ms: Sequence[float], what: str, processors: int = 1
) -> tuple[int, list[tuple[Configuration, float]]]:
    """Return the errors of extrapolation: a model without the points with the largest value of something predicts these points.

    Args:
        of: the measured configurations.
        ms: their times.
        what: a number of the configuration, such as ``"rows"``.
        processors: the processors of the machine.

    Returns:
        how many points the model saw, and of each that it did not the error: by how much of itself it was off.
    """
    most = max(getattr(each, what) for each in of)
    seen = [at for at, each in enumerate(of) if getattr(each, what) < most]
    if len(seen) < len(TERMS):
        return len(seen), []
    model = Model.fit([of[at] for at in seen], [ms[at] for at in seen], processors)
    return len(seen), [
        (each, model.ms(each) / took - 1) for each, took in zip(of, ms, strict=True) if getattr(each, what) == most
    ]
