"""The operator of count windows: the rows of all keys numbered, cut into panes and windows at once.

The rows of a key are numbered from its last firing on, in the order of arrival. Its panes are numbered likewise: pane 0 begins
with the first row after the firing; negative panes came before it and are still needed. All panes of all keys lie on one axis,
key after key, so windows of one key are ranges on it and never reach into another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from panestream.engine.kernels.columns import Ints, Mask, numbers, plain
from panestream.engine.kernels.grouping import Keys, encode_keys
from panestream.engine.kernels.key_hashing import key_hashes
from panestream.engine.kernels.sorting import stable_order
from panestream.engine.plan import MAIN, WindowPlan
from panestream.engine.runtime.group_io import GroupInput, GroupOutput
from panestream.engine.runtime.keyed_store import KeyedStore, with_bounds
from panestream.engine.storage.sealed_state import SealedState
from panestream.windowing.time import MAX_TIMESTAMP

if TYPE_CHECKING:
    from panestream.engine.operators.counts.spec import CountSpec

INPUTS = "inputs"


@dataclass(frozen=True, slots=True)
class Axis:
    """The panes of all keys, one after the other.

    Attributes:
        low: the first pane of each key.
        begin: where it lies on the axis; one more, the end of all.
    """

    low: Ints
    begin: Ints

    def places(self, codes: Ints, panes: Ints) -> Ints:
        """Where panes of keys lie."""
        return panes + (self.begin[:-1] - self.low)[codes]

    def panes(self, places: Ints) -> tuple[Ints, Ints]:
        """The key and the pane of some places."""
        codes = np.repeat(np.arange(len(self.low)), np.diff(self.begin))[places]
        return codes, places - (self.begin[:-1] - self.low)[codes]


@dataclass(frozen=True, slots=True)
class Contents:
    """The panes of the keys at hand, those of this micro-batch included.

    Attributes:
        keys: the keys.
        axis: where their panes lie.
        rows: how many rows each key has since its last firing before this micro-batch.
        fresh: how many rows of each key have come.
        partials: one row for each pane, which is its place on the axis.
    """

    keys: Keys
    axis: Axis
    rows: Ints
    fresh: Ints
    partials: pa.Table


class CountOperator:
    """One key group's operator, for one micro-batch: made from the plan and the group's state, used once.

    Args:
        plan: the query.
        spec: its operator, as planned.
        state: the key group's state.

    Raises:
        PlanMismatchError: the state belongs to another plan.
    """

    def __init__(self, plan: WindowPlan, spec: CountSpec, state: SealedState) -> None:
        self._plan = plan
        self._spec = spec
        self._shape = spec.shape
        fields = [pa.field(f"key {place}", field.type) for place, field in enumerate(plan.key_schema)]
        self._width = len(fields)
        self._schema = pa.schema([*fields, *spec.aggregation.partial_schema])
        self._store = KeyedStore(plan, state, self._schema)

    def process(self, batch: GroupInput) -> GroupOutput:
        """Takes in a micro-batch; returns what it emits. The state is then complete: there is no separate commit."""
        output = GroupOutput()
        for table in batch.invalid:
            output.emit(self._plan.invalid_tag or "", table)
        self._store.tracker.take_in(batch)
        arrived = batch.of(INPUTS)
        if arrived:
            columns = [plain(column) for column in pa.concat_tables(arrived).columns]
            self._take_in(columns, sum(table.num_rows for table in arrived), output, keep=not batch.end_of_input)
        if not batch.end_of_input:
            self._store.save()
        self._store.measure(batch, output.metrics)
        return output

    def _take_in(self, columns: list[pa.Array], rows: int, output: GroupOutput, *, keep: bool) -> None:
        # Whatever is done once per key is done with the distinct keys only.
        came = encode_keys(columns[: self._width], rows)
        read = self._store.pages.holding(key_hashes(came.columns, came.count))
        stored = self._store.pages.read(read)
        known = stored.num_rows
        joined = [pa.concat_arrays([plain(stored.column(place)), column]) for place, column in enumerate(came.columns)]
        keys = encode_keys(joined, known + came.count)
        codes = keys.codes.astype(np.int64)
        contents = self._contents(keys, stored, codes[:known], columns[self._width :], codes[known:][came.codes])
        fired = (contents.rows + contents.fresh) // self._shape.slide
        self._fire(contents, fired, output)
        if keep:
            self._keep(contents, fired, read)

    def _contents(self, keys: Keys, stored: pa.Table, old: Ints, inputs: list[pa.Array], new: Ints) -> Contents:
        """Puts the rows that came into the panes of their keys.

        Args:
            keys: the keys at hand.
            stored: the panes that were kept.
            old: their keys.
            inputs: event times where they are needed, and values, of the rows that came.
            new: their keys.
        """
        spec, count, rows = self._spec, keys.count, len(new)
        panes = numbers(plain(stored.column("pane")))
        held = numbers(plain(stored.column("rows")))
        since = np.zeros(count, np.int64)
        np.add.at(since, old, np.where(panes >= 0, held, 0))
        fresh = np.bincount(new, minlength=count)
        # Which row of its key since the last firing is each?
        order = stable_order(new)
        number = np.empty(rows, np.int64)
        number[order] = np.arange(rows) - np.repeat(np.cumsum(fresh) - fresh, fresh)
        came = self._shape.panes_of(number + since[new])
        low = self._shape.panes_of(since)
        np.minimum.at(low, old, panes)
        high = self._shape.panes_of(np.maximum(since + fresh - 1, -1))
        begin = np.zeros(count + 1, np.int64)
        np.cumsum(np.maximum(high - low + 1, 0), out=begin[1:])
        axis = Axis(low, begin)
        timed = spec.aggregation.needs_timestamps
        times = numbers(inputs[0].view(pa.int64())) if timed else None
        values = inputs[1:] if timed else inputs[: len(spec.input_types)]
        arrived = spec.aggregation.partials([], axis.places(new, came), values, times)
        kept = stored.select(range(self._width, stored.num_columns))
        merged = spec.aggregation.merge([numbered(kept, axis.places(old, panes)), arrived])
        return Contents(keys, axis, since, fresh, merged)

    def _fire(self, contents: Contents, fired: Ints, output: GroupOutput) -> None:
        """Emits the windows that are complete, key by key, in their order.

        Args:
            contents: all panes.
            fired: how many windows of each key have become complete.
            output: takes the results.
        """
        shape, axis = self._shape, contents.axis
        # Where everything that ever came is fired again and again, the last firing of the micro-batch supersedes the others.
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
        found, results = self._spec.aggregation.windows(contents.partials, begins, ends)
        output.metrics.fired_rows = len(found)
        output.emit(MAIN, with_bounds(self._plan, contents.keys.take(codes[found]), None, None, results))

    def _keep(self, contents: Contents, fired: Ints, read: Mask) -> None:
        """Writes the panes that later windows need, counted from the last firing now."""
        codes, panes, partials = self._kept(contents, fired)
        keys = contents.keys.take(codes)
        columns = [*keys, pa.array(panes), *partials.columns[1:]]
        table = pa.Table.from_arrays([plain(column) for column in columns], schema=self._schema)
        came = np.flatnonzero(contents.fresh)
        changed = key_hashes(contents.keys.take(came), len(came))
        never = np.full(len(panes), MAX_TIMESTAMP)
        self._store.pages.write(read, changed, table, key_hashes(keys, len(panes)), never)

    def _kept(self, contents: Contents, fired: Ints) -> tuple[Ints, Ints, pa.Table]:
        """The key, the pane and the partial of all that later windows need."""
        shape, partials = self._shape, contents.partials
        codes, panes = contents.axis.panes(numbers(plain(partials.column("pane"))))
        panes = panes - fired[codes] * shape.panes_per_slide
        if shape.size is None:
            # What was fired once is one pane from then on.
            places = codes * 2 + np.maximum(panes, -1) + 1
            partials = self._spec.aggregation.merge([numbered(partials, places)])
            places = numbers(plain(partials.column("pane")))
            return places // 2, places % 2 - 1, partials
        kept = panes >= shape.first_kept
        return codes[kept], panes[kept], partials.filter(pa.array(kept))


def numbered(partials: pa.Table, panes: Ints) -> pa.Table:
    """Partials with other panes."""
    return partials.set_column(0, partials.schema.field(0), pa.array(panes))
