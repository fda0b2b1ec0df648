"""A toy aggregate, the range of values (largest minus smallest), as the two files that a new aggregate needs.

:func:`built_in` writes them into a copy of panestream, :func:`package` into a separate package.
"""

from __future__ import annotations

import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]

RECIPE = '''
"""The range of values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from panestream.windowing.aggregates.base import Expression, OfOneCompared, text_of

__all__ = ["Spread", "spread"]


@dataclass(frozen=True, slots=True, repr=False)
class Spread(OfOneCompared):
    """See :func:`spread`."""

    function: ClassVar[str] = "spread"
    merge_rule: ClassVar[str] = "the largest less the smallest of the panes' values"


def spread(expr: Expression) -> Spread:
    """The largest less the smallest value that is not null; null where there is none."""
    return Spread(text_of(expr))
'''

ENGINE = '''
"""The range of values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from panestream.engine.aggregates.accumulator import Accumulator
from panestream.engine.aggregates.partial_aggregate import PartialAggregate
from panestream.engine.aggregates.registry import Implementation, implements
from panestream.engine.aggregates.result import Result
from panestream.engine.kernels.columns import array_of, numbers
from {recipe} import Spread


@implements(Spread)
class SpreadImplementation(Implementation[Spread]):
    def plan(self, recipe, planner):
        planner.number(recipe, recipe.expr)
        partial = planner.partial(PartialSpread(planner.source(recipe.expr)))
        planner.result(SpreadResult, recipe, pa.float64(), partial)

    def accumulator(self, recipe, layout):
        return SpreadAccumulator(layout.at(recipe.expr))


@dataclass(frozen=True, slots=True)
class PartialSpread(PartialAggregate):
    """The smallest and the largest value; of no values infinity and minus infinity."""

    @property
    def columns(self):
        return (("least", pa.float64()), ("most", pa.float64()))

    def reduce(self, groups, batch):
        column = batch.values[self.source]
        ids = groups.ids if column.rows is None else groups.ids[column.rows]
        return self._extremes(groups.size, ids, column.floats, column.floats)

    def merge(self, groups, columns, rows):
        return self._extremes(groups.size, groups.ids, *(numbers(column) for column in columns))

    def combine(self, ranges, columns, rows):
        def wider(a, b):
            return np.minimum(a[0], b[0]), np.maximum(a[1], b[1])

        both = ranges.fold(tuple(numbers(column) for column in columns), (np.inf, -np.inf), wider, idempotent=True)
        return [array_of(part, pa.float64()) for part in both]

    @staticmethod
    def _extremes(size, ids, low, high):
        least, most = np.full(size, np.inf), np.full(size, -np.inf)
        np.minimum.at(least, ids, low)
        np.maximum.at(most, ids, high)
        return [array_of(least, pa.float64()), array_of(most, pa.float64())]

    def sql(self, names):
        value = f"cast({{names[self.source]}} AS double)"
        return f"coalesce(min({{value}}), double('inf'))", f"coalesce(max({{value}}), double('-inf'))"


class SpreadResult(Result):
    __slots__ = ()

    def finish(self, partials, rows):
        least, most = (numbers(column) for column in partials[0])
        some = least <= most
        return array_of(np.where(some, most, 0) - np.where(some, least, 0), pa.float64(), some)


class SpreadAccumulator(Accumulator):
    def __init__(self, at):
        self._at = at

    def start(self):
        return ()

    def add(self, state, row):
        value = row[self._at]
        return state if value is None else self.merge(state, (float(value), float(value)))

    def merge(self, a, b):
        return (min(a[0], b[0]), max(a[1], b[1])) if a and b else tuple(a or b)

    def result(self, state):
        return state[1] - state[0] if state else None
'''


def built_in(folder: Path) -> Path:
    """Copy panestream into a folder and add the toy: two more files, no other changes."""
    shutil.copytree(ROOT / "src" / "panestream", folder / "panestream", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "panestream" / "windowing" / "aggregates" / "spreads.py").write_text(RECIPE)
    engine = ENGINE.format(recipe="panestream.windowing.aggregates.spreads")
    (folder / "panestream" / "engine" / "aggregates" / "spreads.py").write_text(engine)
    return folder


def package(folder: Path, name: str) -> Path:
    """Write a separate package with the toy. Importing it registers the aggregate."""
    home = folder / name
    home.mkdir()
    (home / "__init__.py").write_text(f"from {name} import engine\nfrom {name}.recipe import *\n")
    (home / "recipe.py").write_text(RECIPE)
    (home / "engine.py").write_text(ENGINE.format(recipe=f"{name}.recipe"))
    return home
