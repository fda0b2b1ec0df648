"""The operator of count windows: numbers the rows of all keys and assigns them to panes and windows at once.

The rows of a key are numbered from its last firing, in order of arrival. Its panes are numbered in the same way: pane 0 begins
with the first row after the firing, and negative panes are earlier ones still needed. The panes of all keys are on one axis, key
after key, so the windows of a key are ranges of the axis and never include panes of another key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from panestream.engine.aggregates import Aggregation
from panestream.engine.aggregates.saved_partials import partials_found, partials_saved
from panestream.engine.kernels.columns import Ints, Mask, numbers, plain
from panestream.engine.kernels.grouping import Keys, encode_keys
from panestream.engine.kernels.key_hashing import key_hashes
from panestream.engine.kernels.ordering import stable_order
from panestream.engine.operators.counts.shape import CountShape
from panestream.engine.plan import EARLY, WindowPlan
from panestream.engine.runtime.group_io import GroupInput, GroupOutput
from panestream.engine.runtime.group_operator import GroupOperator, TimeStep, window_rows
from panestream.engine.storage.keyed_pages import KeyedPages
from panestream.engine.storage.sealed_state import SealedState
from panestream.engine.storage.state_tables import StateTables, key_fields, named_columns, with_types
from panestream.windowing.aggregates import Aggregate
from panestream.windowing.time import MAX_TIMESTAMP

INPUTS, PANES = "inputs", "panes"


@dataclass(frozen=True, slots=True)
class Axis:
    """The panes of all keys, key after key: ``low`` is the first pane of each, ``begin`` its place, with the end of all last."""

    low: Ints
    begin: Ints

    def places(self, codes: Ints, panes: Ints) -> Ints:
        return panes + (self.begin[:-1] - self.low)[codes]

    def panes(self, places: Ints) -> tuple[Ints, Ints]:
        """Return key and pane of places."""
        codes = np.repeat(np.arange(len(self.low)), np.diff(self.begin))[places]
        return codes, places - (self.begin[:-1] - self.low)[codes]


@dataclass(frozen=True, slots=True)
class Contents:
    """The panes of the micro-batch's keys, with its rows included.

    Attributes:
        rows: the number of rows of each key between its last firing and this micro-batch.
        partials: one row for each pane, whose number is its place on ``axis``.
        fired: the number of complete windows of each key.
        stored_keys: the number of keys that had panes in the pages ``read``, all of whose rows are included.
    """

    keys: Keys
    axis: Axis
    rows: Ints
    fresh: Ints
    partials: pa.Table
    read: Mask
    fired: Ints
    stored_keys: int


@dataclass(frozen=True, slots=True)
class CountSettings:
    """The operator's part of the query. ``aggregation``, without keys, runs ``aggregates`` over inputs of ``input_types``."""

    shape: CountShape
    aggregates: tuple[Aggregate, ...]
    aggregation: Aggregation
    input_types: tuple[pa.DataType, ...]


class CountOperator(GroupOperator[Contents | None]):
    """The operator of count windows: see :class:`~panestream.engine.runtime.group_operator.GroupOperator`."""

    def __init__(self, plan: WindowPlan, settings: CountSettings, state: SealedState) -> None:
        self._settings = settings
        self._shape = settings.shape
        fields = key_fields(plan.key_schema)
        self._width = len(fields)
        self._schema = pa.schema([*fields, *settings.aggregation.partial_schema])
        self._pages = KeyedPages(state, self._schema)
        super().__init__(plan, state, self._pages)
        # State older than this counter does not contain the number of keys.
        self._keys: int | None = self._saved.get("keys") if self._saved else 0

    def _kept(self) -> Mapping[str, Any]:
        return {} if self._keys is None else {"keys": self._keys}

    def _kept_windows(self) -> int | None:
        return self._keys

    # -- as tables -----------------------------------------------------------------------------------------------------

    def _described(self) -> Mapping[str, Any]:
        return {"partials": partials_saved(self._settings.aggregation), "counters": {}}

    def _state_tables(self) -> Mapping[str, pa.Table]:
        stored = self._pages.read(np.ones(len(self._pages.index), np.bool_))
        return {PANES: stored}

    def _put(self, saved: StateTables) -> None:
        table = saved.table(PANES)
        columns = named_columns(table, self._schema.names[: self._width + 2])
        columns += partials_found(table, saved.header, self._settings.aggregation)
        panes = with_types(columns, self._schema)
        keys = [plain(panes.column(place)) for place in range(self._width)]
        self._keys = encode_keys(keys, panes.num_rows).count
        hashes = key_hashes(keys, panes.num_rows)
        nothing_is_due = np.full(panes.num_rows, MAX_TIMESTAMP)
        self._pages.write(np.ones(len(self._pages.index), np.bool_), hashes, panes, hashes, nothing_is_due)

    # -- rows ----------------------------------------------------------------------------------------------------------

    def _take_in(self, batch: GroupInput, step: TimeStep, output: GroupOutput) -> Contents | None:
        arrived = batch.of(INPUTS)
        if not arrived:
            return None
        output.metrics.windowed_rows = sum(table.num_rows for table in arrived)
        columns = [plain(column) for column in pa.concat_tables(arrived).columns]
        # Process per-key steps with the distinct keys only.
        came = encode_keys(columns[: self._width], sum(table.num_rows for table in arrived))
        read = self._pages.holding(key_hashes(came.columns, came.count))
        stored = self._pages.read(read)
        known = stored.num_rows
        joined = [pa.concat_arrays([plain(stored.column(place)), column]) for place, column in enumerate(came.columns)]
        keys = encode_keys(joined, known + came.count)
        codes = keys.codes.astype(np.int64)
        return self._contents(keys, stored, codes[:known], columns[self._width :], codes[known:][came.codes], read)

    def _contents(self, keys: Keys, stored: pa.Table, old: Ints, inputs: list[pa.Array], new: Ints, read: Mask) -> Contents:
        """Add new rows to the panes of their keys.

        ``old`` and ``new`` are the key codes of the stored panes and of the new rows. ``inputs`` has event times, if needed, and
        values. ``read`` marks the pages of the stored panes.
        """
        settings, count, rows = self._settings, keys.count, len(new)
        panes = numbers(plain(stored.column("pane")))
        held = numbers(plain(stored.column("rows")))
        since = np.zeros(count, np.int64)
        np.add.at(since, old, np.where(panes >= 0, held, 0))
        fresh = np.bincount(new, minlength=count)
        # Number each row within its key since the last firing.
        order = stable_order(new)
        number = np.empty(rows, np.int64)
        number[order] = np.arange(rows) - np.repeat(np.cumsum(fresh) - fresh, fresh)
        came = self._shape.panes_of(number + since[new])
        low = self._shape.panes_of(since)
        np.minimum.at(low, old, panes)
        # A key without rows since then has older panes.
        high = self._shape.panes_of(since + fresh - 1)
        begin = np.zeros(count + 1, np.int64)
        np.cumsum(high - low + 1, out=begin[1:])
        axis = Axis(low, begin)
        timed = settings.aggregation.needs_timestamps
        times = numbers(inputs[0].view(pa.int64())) if timed else None
        values = inputs[1:] if timed else inputs[: len(settings.input_types)]
        arrived = settings.aggregation.partials([], axis.places(new, came), values, times)
        kept = stored.select(range(self._width, stored.num_columns))
        merged = settings.aggregation.merge([numbered(kept, axis.places(old, panes)), arrived])
        return Contents(keys, axis, since, fresh, merged, read, (since + fresh) // self._shape.slide, len(np.unique(old)))

    def _fire(self, fresh: Contents | None, step: TimeStep, output: GroupOutput) -> Contents | None:
        if fresh is not None:
            self._fire_complete(fresh, output)
        return fresh

    def _fire_complete(self, contents: Contents, output: GroupOutput) -> None:
        """Emit complete windows, key by key, in order."""
        shape, axis, fired = self._shape, contents.axis, contents.fired
        # If each firing covers all rows so far, emit only the last firing of the micro-batch, which supersedes the others.
        firings = fired if shape.size is not None else np.minimum(fired, 1)
        total = int(firings.sum())
        if not total:
            return
        codes = np.repeat(np.arange(len(firings)), firings)
        which = np.arange(total) - np.repeat(np.cumsum(firings) - firings, firings)
        last = which if shape.size is not None else fired[codes] - 1
        ends = axis.places(codes, (last + 1) * shape.panes_per_slide)
        begins = axis.begin[codes]
        if shape.panes_per_window is not None:
            begins = np.maximum(begins, ends - shape.panes_per_window)
        windows, results = self._settings.aggregation.windows(contents.partials, begins, ends)
        keys = contents.keys.take(codes[windows])
        self._count_firings(EARLY, len(windows), output)
        self._emit_main(window_rows(self._plan, keys, (None, None), results.columns), len(windows), output)

    def _close(self, fresh: Contents | None, step: TimeStep) -> None:
        if fresh is not None:
            self._keep(fresh)

    def _keep(self, contents: Contents) -> None:
        """Write the panes that later windows need, numbered from the current last firing."""
        codes, panes, partials = self._needed(contents, contents.fired)
        if self._keys is not None:
            self._keys += len(np.unique(codes)) - contents.stored_keys
        keys = contents.keys.take(codes)
        columns = [*keys, pa.array(panes), *partials.columns[1:]]
        table = pa.Table.from_arrays([plain(column) for column in columns], schema=self._schema)
        came = np.flatnonzero(contents.fresh)
        changed = key_hashes(contents.keys.take(came), len(came))
        nothing_is_due = np.full(len(panes), MAX_TIMESTAMP)
        self._pages.write(contents.read, changed, table, key_hashes(keys, len(panes)), nothing_is_due)

    def _needed(self, contents: Contents, fired: Ints) -> tuple[Ints, Ints, pa.Table]:
        """Return key, pane and partial of all that later windows need."""
        shape, partials = self._shape, contents.partials
        codes, panes = contents.axis.panes(numbers(plain(partials.column("pane"))))
        panes = panes - fired[codes] * shape.panes_per_slide
        if shape.size is None:
            # Rows that have fired once form one pane from then on.
            places = codes * 2 + np.maximum(panes, -1) + 1
            partials = self._settings.aggregation.merge([numbered(partials, places)])
            places = numbers(plain(partials.column("pane")))
            return places // 2, places % 2 - 1, partials
        kept = panes >= shape.first_kept
        return codes[kept], panes[kept], partials.filter(pa.array(kept))


def numbered(partials: pa.Table, panes: Ints) -> pa.Table:
    """Replace the panes of partials."""
    return partials.set_column(0, partials.schema.field(0), pa.array(panes))
