"""What was emitted for windows that may still fire again: how often, and the last values. Only kept for plans that ask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from panestream.engine.kernels.pairs import numbered, places_of
from panestream.engine.kernels.slicing import Int64s
from panestream.engine.kernels.sorting import stable_order
from panestream.engine.storage.blocks import PaneBlocks
from panestream.engine.storage.state import State

_WINDOW, _NUMBER, _FIRING = "pane", "number", "firing"


@dataclass(slots=True)
class FiringHistory:
    """The last firing of each key and window of one kind of windows; blocks by window number.

    Attributes:
        blocks: where they rest.
        keys: how many key columns there are.
    """

    blocks: PaneBlocks
    keys: int

    @classmethod
    def over(cls, state: State, space: str, keys: pa.Schema, values: pa.Schema) -> FiringHistory:
        """The store of one kind of windows.

        Args:
            state: the key group's.
            space: where in it.
            keys: the key columns.
            values: the columns of the last values that are kept; none where only the number matters.
        """
        own = [(_WINDOW, pa.int64()), (_NUMBER, pa.int64()), (_FIRING, pa.int8())]
        fields = [pa.field(f"key {place}", field.type) for place, field in enumerate(keys)]
        fields += [pa.field(name, type_) for name, type_ in own]
        fields += [pa.field(f"value {place}", field.type) for place, field in enumerate(values)]
        width = len(keys)
        return cls(PaneBlocks(state, space, pa.schema(fields), lambda tables: _latest(tables, width)), width)

    def look_up(self, keys: Sequence[pa.ChunkedArray], windows: Int64s) -> tuple[Int64s, pa.Table]:
        """For each pair the row of its last firing in the table that comes with it; -1: it has none."""
        wanted = np.unique(windows)
        parts = self.blocks.read_spans(wanted, wanted + 1)
        known = pa.concat_tables(parts) if parts else self.blocks.schema.empty_table()
        stored = known.column(_WINDOW).to_numpy()
        ours, theirs, _ = numbered(keys, known.columns[: self.keys], windows, stored)
        return places_of(ours, theirs), known

    def keep(
        self, keys: Sequence[pa.ChunkedArray], windows: Int64s, numbers: Int64s, firing: int, values: Sequence[pa.ChunkedArray]
    ) -> None:
        """Remembers firings; windows ascending."""
        own = [pa.array(windows), pa.array(numbers), pa.array(np.full(len(windows), firing, np.int8))]
        self.blocks.append(pa.Table.from_arrays([*keys, *own, *values], schema=self.blocks.schema))

    def drop_before(self, window: int) -> None:
        """Forgets the windows before ``window``: they are closed."""
        self.blocks.drop_before(window)
        self.blocks.compact(window)


def _latest(tables: Sequence[pa.Table], keys: int) -> pa.Table:
    """Of each key and window the last row, sorted by window."""
    table = pa.concat_tables(tables)
    windows = table.column(_WINDOW).to_numpy()
    pairs, _, _ = numbered(table.columns[:keys], table.slice(0, 0).columns[:keys], windows, windows[:0])
    last = np.unique(places_of(pairs, pairs))
    return table.take(pa.array(last[stable_order(windows[last])]))


__all__ = ["FiringHistory"]
