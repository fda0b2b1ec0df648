"""The state of a key group as tables: the content of savepoints, and of views of a running job.

Blocks and pages are cut as micro-batches arrived, and only their operator reads them. Tables are independent of that: a row
belongs to one key, whose columns come first, and its position is meaningless. So rows can be viewed, stored elsewhere, reordered,
and redistributed to another number of key groups. docs/decisions/0140-state-as-tables.md has every column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from panestream.engine.kernels.columns import Ints, key_fields, numbers, plain, typed
from panestream.errors import StateFormatError

TABLES_FORMAT = 1
"""The format of the tables and the header, raised with every incompatible change."""


@dataclass(frozen=True, slots=True)
class StateTables:
    """The state of one key group.

    Attributes:
        header: data that belongs to no key, as JSON values (operator, identity of the plan, progress of time, counters).
        tables: the rows by the table's name. The key columns are the first, called ``key 0``, ``key 1`` and so on.
    """

    header: Mapping[str, Any]
    tables: Mapping[str, pa.Table]

    def table(self, name: str) -> pa.Table:
        """Return a table by name, or raise StateFormatError if it is missing."""
        if name not in self.tables:
            raise StateFormatError(f"the saved state has no table {name!r}, only {', '.join(self.tables) or 'nothing'}")
        return self.tables[name]


@dataclass(frozen=True, slots=True)
class StateViews:
    """The readable state of one key group.

    Attributes:
        windows: a row for each key and window that still takes rows or will fire.
        elements: the rows stored for functions and evictors.
        user_state: the state of user-defined triggers and functions, by descriptor.
        timers: the time of each timer, per key and window.
    """

    windows: pa.Table
    elements: pa.Table
    user_state: pa.Table
    timers: pa.Table


def with_types(columns: Sequence[pa.Array], schema: pa.Schema) -> pa.Table:
    """Return columns of saved state as a table with a schema."""
    return pa.Table.from_arrays([typed(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema)


def named_columns(table: pa.Table, names: Sequence[str]) -> list[pa.Array]:
    """Return some columns, each as one array, or raise StateFormatError if one is missing."""
    known = set(table.column_names)
    missing = [name for name in names if name not in known]
    if missing:
        raise StateFormatError(
            f"a table of the saved state lacks the column {missing[0]!r}; it has {', '.join(table.column_names)}"
        )
    return [plain(table.column(name)) for name in names]


def key_columns(table: pa.Table, keys: pa.Schema) -> list[pa.Array]:
    """Return the key columns of a state table, or raise StateFormatError if one is missing."""
    return named_columns(table, [field.name for field in key_fields(keys)])


def integers(table: pa.Table, name: str) -> Ints:
    """Return a column of whole numbers without nulls."""
    (column,) = named_columns(table, [name])
    found: Ints = np.asarray(numbers(column.cast(pa.int64())), np.int64)
    return found
