"""The parts that operators on columns share: declared aggregates in a plan, tables of state, and rows in pages by key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from panestream.engine.aggregates import Aggregation
from panestream.engine.aggregates.saved_partials import partials_found, partials_saved
from panestream.engine.kernels.columns import Ints, numbers, plain
from panestream.engine.kernels.key_hashing import key_hashes
from panestream.engine.plan import OperatorSpec, WindowPlan
from panestream.engine.runtime.group_operator import GroupOperator
from panestream.engine.storage.keyed_pages import KeyedPages
from panestream.engine.storage.sealed_state import SealedState
from panestream.engine.storage.state_tables import StateTables, named_columns, with_types
from panestream.windowing.aggregates import Aggregate
from panestream.windowing.time import MAX_TIMESTAMP

Fresh = TypeVar("Fresh")


class AggregatingSpec(OperatorSpec):
    """The configuration of an operator whose state and results are those of declared aggregates.

    Attributes:
        aggregates: the aggregates that the user declared.
        aggregation: runs them, without key columns unless the operator needs these.
    """

    aggregates: tuple[Aggregate, ...]
    aggregation: Aggregation

    @property
    def result_schema(self) -> pa.Schema:
        return self.aggregation.output_schema

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.aggregation.inputs

    @property
    def changeable(self) -> frozenset[str]:
        return frozenset({"aggregates", "partials"})

    def identity(self) -> Mapping[str, str]:
        partials = list(self.aggregation.partial_schema)[len(self.aggregation.key_schema) :]
        aggregates = ", ".join(repr(aggregate) for aggregate in self.aggregates)
        return {"aggregates": aggregates, "partials": fields_text(partials), **self.own_identity()}

    def own_identity(self) -> Mapping[str, str]:
        """Return the entries of :meth:`identity` that only this operator has."""
        return {}


def explain_aggregates(aggregates: Sequence[Aggregate]) -> list[str]:
    """Return the lines of ``explain()`` about aggregates."""
    return [f"{aggregate!r}; {aggregate.merge_rule}" for aggregate in aggregates]


def fields_text(fields: pa.Schema | Sequence[pa.Field]) -> str:
    """Return names and types of columns, as identities have them.

    >>> fields_text(pa.schema([("n", pa.int64()), ("name", pa.string())]))
    'n int64, name string'
    """
    return ", ".join(f"{field.name} {field.type}" for field in fields)


@dataclass(frozen=True, slots=True)
class TableLayout:
    """The columns of a table of state: as an operator stores its rows, and as they are saved.

    Attributes:
        name: the name of the saved table.
        schema: the stored columns, key columns first. A saved table calls the pane of rows by time ``time``.
        aggregation: the aggregates whose partials are the last columns, or None if there are none.
        by_time: whether the pane is the time of the row itself.
    """

    name: str
    schema: pa.Schema
    aggregation: Aggregation | None = None
    by_time: bool = False

    @property
    def _own(self) -> list[str]:
        """The columns in a saved table before the partials, which are saved and found by their descriptions."""
        names = ["time" if self.by_time and name == "pane" else name for name in self.schema.names]
        if self.aggregation is None:
            return names
        before = len(self.aggregation.key_schema) + 2
        return names[: len(names) - (len(self.aggregation.partial_schema) - before)]

    def save(self, rows: pa.Table) -> pa.Table:
        """Return stored rows as a saved table."""
        own = self._own
        return rows.rename_columns([*own, *self.schema.names[len(own) :]]) if self.by_time else rows

    def header(self) -> dict[str, Any]:
        """Return the entries of the header that describe the partials."""
        return {} if self.aggregation is None else {"partials": partials_saved(self.aggregation)}

    def restore(self, saved: StateTables) -> pa.Table:
        """Return the rows of a saved table with the stored columns, or raise StateFormatError if a column is missing."""
        table = saved.table(self.name)
        columns = named_columns(table, self._own)
        if self.aggregation is not None:
            columns += partials_found(table, saved.header, self.aggregation)
        return with_types(columns, self.schema)

    def partials(self, rows: pa.Table) -> pa.Table:
        """Return the partials of stored rows, whose places are their panes."""
        assert self.aggregation is not None  # noqa: S101 - only called for tables with partials
        return partials_of(rows, self.aggregation, np.arange(rows.num_rows))


def partials_of(table: pa.Table, aggregation: Aggregation, panes: Ints) -> pa.Table:
    """Return the partials in the last columns of a table, with other panes."""
    columns = table.columns[table.num_columns - len(aggregation.partial_schema) + 1 :]
    return pa.Table.from_arrays([pa.array(panes), *columns], schema=aggregation.partial_schema)


def on_a_line(aggregation: Aggregation, columns: Sequence[pa.ChunkedArray], order: Ints, places: Ints) -> pa.Table:
    """Return the partials of each place on a line, merged if several have the same place.

    ``columns`` are partials without their pane. ``order`` sorts them by place, and ``places`` are ascending.
    """
    at = pa.array(order)
    line = pa.Table.from_arrays([pa.array(places), *(column.take(at) for column in columns)], schema=aggregation.partial_schema)
    return line if not len(places) or places[-1] + 1 == len(places) else aggregation.merge([line])


def hashes_of(table: pa.Table, width: int) -> Ints:
    """Return the hash of the key of each row; the first ``width`` columns are the key."""
    return key_hashes([plain(column) for column in table.columns[:width]], table.num_rows)


def integers_of(table: pa.Table, name: str) -> Ints:
    """Return a column of whole numbers of stored rows."""
    found: Ints = numbers(plain(table.column(name)))
    return found


class PagedOperator(GroupOperator[Fresh]):
    """An operator whose rows are in pages by the hash of the key. An operator with due rows overrides :meth:`_due_of`."""

    def __init__(self, plan: WindowPlan, state: SealedState, layout: TableLayout, *, by_processing_time: bool = False) -> None:
        self._layout = layout
        self._schema = layout.schema
        self._width = len(plan.key_schema)
        self._pages = KeyedPages(state, layout.schema)
        super().__init__(plan, state, self._pages, by_processing_time=by_processing_time)

    def _kept_windows(self) -> int | None:
        return sum(page.rows for page in self._pages.index)

    def _keys_of(self, table: pa.Table) -> list[pa.Array]:
        return [plain(table.column(place)) for place in range(self._width)]

    def _hashes(self, table: pa.Table) -> Ints:
        return hashes_of(table, self._width)

    def _due_of(self, rows: pa.Table) -> Ints:
        """Return the time at which each row needs attention. By default, time alone never changes a row."""
        return np.full(rows.num_rows, MAX_TIMESTAMP)

    # -- as tables -----------------------------------------------------------------------------------------------------

    def _own_header(self) -> Mapping[str, Any]:
        return {**self._layout.header(), "counters": {}}

    def _state_tables(self) -> Mapping[str, pa.Table]:
        return {self._layout.name: self._pages.read(np.ones(len(self._pages.index), np.bool_))}

    def _write_tables(self, saved: StateTables) -> None:
        self._write_all(self._layout.restore(saved))

    def _write_all(self, rows: pa.Table) -> None:
        """Write the first rows of a new key group."""
        hashes = self._hashes(rows)
        self._pages.write(np.ones(len(self._pages.index), np.bool_), hashes, rows, hashes, self._due_of(rows))
