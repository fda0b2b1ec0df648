"""Adapters that turn user functions over the rows of two streams into functions over the rows of their union."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from panestream.engine.kernels.frames import frame_of
from panestream.engine.kernels.python_values import RowType
from panestream.engine.runtime.sides import SIDES, Sides
from panestream.windowing.functions import WindowFunction


class OfLists(WindowFunction):
    """A user function of key, window and two lists of rows, whose columns ``sides`` describes."""

    def __init__(self, function: Callable[[Any, Any, list[Any], list[Any]], Any], sides: Sides) -> None:
        self._function = function
        self._rows = RowType(sides.left), RowType(sides.right)

    def apply(self, key: Any, window: Any, inputs: Sequence[Any]) -> Any:
        left, right = (
            [kind.make(own.values()) for row in inputs if (own := row[name]) is not None]
            for name, kind in zip(SIDES, self._rows, strict=True)
        )
        return self._function(key, window, left, right)

    def __repr__(self) -> str:
        return repr(self._function)


@dataclass(frozen=True, slots=True, repr=False)
class OfTables:
    """A user function of key, window and two Arrow tables, or two frames if ``pandas``; ``sides`` has their columns."""

    function: Callable[[Any, Any, Any, Any], Any]
    sides: Sides
    pandas: bool = False

    def __call__(self, key: Any, window: Any, rows: pa.Table) -> Any:
        left, right = self.sides.apart(rows)
        if self.pandas:
            return self.function(key, window, frame_of(left), frame_of(right))
        return self.function(key, window, left, right)

    def __repr__(self) -> str:
        return repr(self.function)
