"""Random numbers that depend only on seed, event and purpose. Any task can make any row alone, in any order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.events import mix

Int64s = np.ndarray[Any, np.dtype[np.int64]]
UInt64s = np.ndarray[Any, np.dtype[np.uint64]]
Floats = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class Chance:
    """Draws for the events of one seed. ``purpose`` (0 to 63) keeps the draws of one event apart."""

    seed: int

    def bits(self, n: Int64s, purpose: int) -> UInt64s:
        """Return 64 bits for each event number."""
        start = mix(np.array([self.seed % 2**64], np.uint64))[0]
        return mix((n.astype(np.uint64) << np.uint64(6)) + np.uint64(purpose) + start)

    def below(self, n: Int64s, purpose: int, bound: Int64s | int) -> Int64s:
        """Return integers from 0 to ``bound - 1``."""
        # Use half of the bits. Bounds are small, and so is the bias of the remainder.
        return (self.bits(n, purpose) >> np.uint64(32)).astype(np.int64) % bound

    def uniform(self, n: Int64s, purpose: int) -> Floats:
        """Return floats in [0, 1)."""
        return (self.bits(n, purpose) >> np.uint64(11)).astype(np.float64) * 2.0**-53
