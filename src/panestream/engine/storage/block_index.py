"""The meta record of a key group: how far time is, and the index of all blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from panestream.engine.storage import payload
from panestream.engine.storage.blocks import Block, PaneBlocks
from panestream.engine.storage.state import State

_META = "meta"
_COLUMNS = ("store", "key", "order", "level", "low", "high", "rows", "size")


@dataclass(frozen=True, slots=True)
class Meta:
    """Reads and writes the record.

    Attributes:
        state: of the key group.
        stores: all blocks, always in the same order.
    """

    state: State
    stores: Sequence[PaneBlocks]

    def load(self) -> dict[str, Any] | None:
        """The header, and the stores' indexes where they belong; None: the key group is new."""
        saved = self.state.get(_META, 0)
        if saved is None:
            return None
        table, header = payload.decode(saved)
        columns = [column.cast(pa.int64()).to_pylist() for column in table.columns]
        for number, *block in zip(*columns, strict=True):
            self.stores[number].index.append(Block(*block))
        for store, key in zip(self.stores, header["next_keys"], strict=True):
            store.next_key = key
        return header

    def save(self, header: dict[str, Any]) -> None:
        """Writes the record."""
        rows = [(number, *block) for number, store in enumerate(self.stores) for block in store.index]
        columns = zip(*rows, strict=True) if rows else [()] * len(_COLUMNS)
        arrays = [pa.array(column, pa.int64()) for column in columns]
        header = {**header, "next_keys": [store.next_key for store in self.stores]}
        self.state.put(_META, 0, payload.encode(pa.Table.from_arrays(arrays, names=list(_COLUMNS)), header))
