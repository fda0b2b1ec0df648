"""Count windows as columns: the rows of all keys are numbered, and assigned to panes and windows at once.

The rows of a key are numbered from its last firing, in order of arrival. Its panes are numbered in the same way: pane 0 begins
with the first row after the firing, and negative panes are earlier ones still needed. The panes of all keys are on one axis, key
after key, so the windows of a key are ranges of the axis and never include panes of another key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from panestream.engine.aggregates import Aggregation
from panestream.engine.aggregates.aggregation import standing
from panestream.engine.kernels.columns import Ints, Mask, key_fields, numbers, plain
from panestream.engine.kernels.grouping import Keys, encode_keys
from panestream.engine.kernels.key_hashing import key_hashes
from panestream.engine.kernels.ordering import stable_order
from panestream.engine.operators.columnar import (
    AggregatingSpec,
    PagedOperator,
    TableLayout,
    explain_aggregates,
    integers_of,
    partials_of,
)
from panestream.engine.plan import EARLY, Capabilities, Chunk, WindowPlan, WindowQuery, not_kept, not_numbered
from panestream.engine.rule import PYTHON, DeclaredAggregates, Supported, Unsupported, WindowRequest
from panestream.engine.runtime.group_io import GroupInput, GroupOutput
from panestream.engine.runtime.group_operator import TimeStep, window_rows
from panestream.engine.runtime.state_views import ViewSchemas, WindowRows, share
from panestream.engine.storage.sealed_state import SealedState
from panestream.engine.storage.state_tables import StateTables, StateViews
from panestream.windowing.aggregates import Aggregate
from panestream.windowing.assigners import GlobalWindows
from panestream.windowing.evictors import CountEvictor
from panestream.windowing.triggers import CountTrigger, PurgingTrigger


@dataclass(frozen=True, slots=True)
class CountShape:
    """A firing at every ``slide``-th row of a key, over its last ``size`` rows (all rows if None).

    The rows of a key are numbered from its last firing. Pane bounds are the ends of windows, every ``slide`` rows, and their
    beginnings. A slide has one pane if it divides the size, and otherwise two of unequal length. A window is therefore a whole
    number of panes, and each row is aggregated once, however many windows overlap. ``size`` is at least ``slide``.

    >>> CountShape(100, 100).panes_per_window, CountShape(100, 7).panes_per_window
    (1, 29)
    """

    size: int | None
    slide: int

    @property
    def _beginning(self) -> int:
        """The number of rows of a slide before a window begins; 0 if it begins where another ends."""
        return 0 if self.size is None or self.size % self.slide == 0 else self.slide - self.size % self.slide

    @property
    def panes_per_slide(self) -> int:
        return 2 if self._beginning else 1

    @property
    def panes_per_window(self) -> int | None:
        """The number of panes of a window, or None for all panes."""
        if self.size is None:
            return None
        return self.size // self.slide * self.panes_per_slide + (1 if self._beginning else 0)

    @property
    def first_kept(self) -> int:
        """The first pane of the next window, counted from the last firing."""
        return -1 if self.panes_per_window is None else self.panes_per_slide - self.panes_per_window

    def panes_of(self, rows: Ints) -> Ints:
        """Return the panes of rows, given their numbers since the last firing."""
        slides = rows // self.slide
        if not self._beginning:
            return slides
        return slides * 2 + (rows - slides * self.slide >= self._beginning)

    def __str__(self) -> str:
        if self.size == self.slide:
            return f"every {self.size} rows of a key, each in one window"
        return f"at every {self.slide} rows of a key " + ("all rows so far" if self.size is None else f"the last {self.size}")


INPUTS, PANES = "inputs", "panes"


_INSTANT = pa.timestamp("us")
"""The type of event times in the exchange: the payload removes their common decimal places."""


@dataclass(frozen=True, slots=True)
class CountSpec(AggregatingSpec):
    """Count windows, and the count trigger on global windows, with declared aggregates."""

    shape: CountShape
    aggregates: tuple[Aggregate, ...]
    aggregation: Aggregation

    def layout(self, keys: pa.Schema) -> TableLayout:
        """Keys and panes, numbered from the last firing of the key."""
        return TableLayout(PANES, pa.schema([*key_fields(keys), *self.aggregation.partial_schema]), self.aggregation)

    @property
    def name(self) -> str:
        return "counts"

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(fires_by_time=False, no_firings=not_numbered(self.name), no_changelog=not_kept(self.name))

    def pack(self, plan: WindowPlan, chunk: Chunk) -> Iterator[tuple[str, pa.Table]]:
        times = [pa.array(chunk.times).view(_INSTANT)] if self.aggregation.needs_timestamps else []
        columns = [*chunk.keys, *times, *chunk.values]
        if not columns:
            # Without keys and values, a column of nulls records the number of rows.
            columns = [pa.nulls(len(chunk.times))]
        yield INPUTS, pa.Table.from_arrays(columns, schema=self.part_schema(plan, INPUTS))

    def part_schema(self, plan: WindowPlan, kind: str) -> pa.Schema:
        """Return keys, event time if an aggregate needs it, and values."""
        types = [
            *plan.key_schema.types,
            *([_INSTANT] if self.aggregation.needs_timestamps else []),
            *self.aggregation.input_types,
        ]
        return pa.schema([(str(place), type_) for place, type_ in enumerate(types or [pa.null()])])

    def on_sealed(self, plan: WindowPlan, state: SealedState, group: int) -> CountOperator:
        return CountOperator(plan, self, state)

    def views(self, plan: WindowPlan, saved: StateTables, group: int) -> StateViews:
        stored = self.layout(plan.key_schema).restore(saved)
        keys = encode_keys([plain(column) for column in stored.columns[: len(plan.key_schema)]], stored.num_rows)
        codes = keys.codes.astype(np.int64)
        # Combine all panes of a key, in their order.
        order = stable_order(codes, integers_of(stored, "pane"))
        each = np.arange(keys.count)
        now = standing(self.aggregation, partials_of(stored, self.aggregation, codes).take(pa.array(order)), each, each + 1)
        rows = WindowRows(
            keys=keys.take(now.which),
            count=len(now.which),
            results=now.results,
            rows=now.rows,
            size=share(saved.table(PANES).nbytes, now.rows),
        )
        schemas = ViewSchemas(plan, group)
        return schemas.with_windows(schemas.windows_of(rows))

    def own_identity(self) -> Mapping[str, str]:
        return {"count windows": str(self.shape)}

    def explain(self, plan: WindowPlan, *, streaming: bool) -> Mapping[str, list[str]]:
        shape = self.shape
        per_window = "" if shape.panes_per_window is None else f", {shape.panes_per_window} to a window"
        return {
            "counts": [f"{shape}; incomplete windows are not emitted"],
            "panes": [f"{shape.panes_per_slide} to a slide{per_window}"],
            "aggregates": explain_aggregates(self.aggregates),
            "exchange": ["keys and values cross the shuffle unreduced, in the order of arrival, which decides"],
            "state": [
                "open panes, in pages by hash of the key: a micro-batch reads the pages of its keys"
                if streaming
                else "none: a batch fires every complete window"
            ],
        }


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


class CountOperator(PagedOperator[Contents | None]):
    """The operator of count windows: see :class:`~panestream.engine.runtime.group_operator.GroupOperator`."""

    def __init__(self, plan: WindowPlan, settings: CountSpec, state: SealedState) -> None:
        self._settings = settings
        self._shape = settings.shape
        super().__init__(plan, state, settings.layout(plan.key_schema))
        # State older than this counter does not contain the number of keys.
        self._keys: int | None = self._saved.get("keys") if self._saved else 0

    def _own_metadata(self) -> Mapping[str, Any]:
        return {} if self._keys is None else {"keys": self._keys}

    def _kept_windows(self) -> int | None:
        return self._keys

    def _write_all(self, rows: pa.Table) -> None:
        self._keys = encode_keys(self._keys_of(rows), rows.num_rows).count
        super()._write_all(rows)

    # -- rows ----------------------------------------------------------------------------------------------------------

    def _ingest(self, batch: GroupInput, step: TimeStep, output: GroupOutput) -> Contents | None:
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
        # Take the rows key by key. In this order their numbers since the last firing, and so their panes, are runs.
        order = stable_order(new)
        came = self._shape.panes_of(np.arange(rows) - np.repeat(np.cumsum(fresh) - fresh - since, fresh))
        low = self._shape.panes_of(since)
        np.minimum.at(low, old, panes)
        # A key without rows since then has older panes.
        high = self._shape.panes_of(since + fresh - 1)
        begin = np.zeros(count + 1, np.int64)
        np.cumsum(high - low + 1, out=begin[1:])
        axis = Axis(low, begin)
        taken = [column.take(pa.array(order)) for column in inputs]
        timed = settings.aggregation.needs_timestamps
        times = numbers(taken.pop(0).view(pa.int64())) if timed else None
        values = taken[: len(settings.aggregation.input_types)]
        arrived = settings.aggregation.partials([], came + np.repeat(begin[:-1] - low, fresh), values, times)
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
        self._pages.write(contents.read, changed, table, key_hashes(keys, len(panes)), self._due_of(table))

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


def counts_rule(window: WindowQuery, asked: WindowRequest) -> Supported | Unsupported | None:
    """Plan global windows with a count trigger (purging, with a count evictor, or plain) over declared aggregates."""
    if type(window.assigner) is not GlobalWindows or not isinstance(asked, DeclaredAggregates):
        return None
    shape = "every firing was asked for" if window.every_firing else _shape(window)
    reasons = [shape] if isinstance(shape, str) else []
    if asked.then is not None:
        reasons.append(PYTHON)
    if reasons or isinstance(shape, str):
        return Unsupported(reasons)
    aggregation = Aggregation.build(asked.aggregates, asked.types, pa.schema([]))
    return Supported(CountSpec(shape, tuple(asked.aggregates), aggregation))


def _shape(window: WindowQuery) -> CountShape | str:
    """Return the shape of the windows, or why columns do not support them. A count of 0 fires at every row, like 1."""
    trigger, evictor = window.trigger, window.evictor
    purges = type(trigger) is PurgingTrigger
    inner = trigger.inner if isinstance(trigger, PurgingTrigger) else trigger
    if type(inner) is not CountTrigger:
        return f"global windows run as columns with a CountTrigger only, not with {trigger!r}"
    slide = max(inner.count, 1)
    if evictor is None:
        return CountShape(slide if purges else None, slide)
    if type(evictor) is not CountEvictor or evictor.do_evict_after or purges:
        return "an evictor other than the one of count windows needs all elements"
    size = evictor.max_count
    return CountShape(size, slide) if size >= slide else "windows with fewer rows than between two firings"
