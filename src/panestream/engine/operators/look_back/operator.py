"""The look-back operator: for every row passed by time, aggregates of its key's nearby rows, for all keys at once.

State has two parts. *Waiting rows*, with the result columns, remain until the watermark has passed them and the time that follows
them. The *history* has partials of each key and instant, until no later row looks back to them. So a row is stored whole while
rows may come out of order, and as a narrow partial for the length of the look-back.
:mod:`~panestream.engine.operators.look_back.history` describes which part of the history a micro-batch reads.

Results are correct because no row can arrive in the window of an emitted row. Therefore a row is late as soon as the watermark
has reached its time, even if later windows could still contain it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from panestream.engine.aggregates import Aggregation
from panestream.engine.kernels.columns import Ints, array_of, key_fields, list_of, plain
from panestream.engine.kernels.frames import KeyedTimeline
from panestream.engine.kernels.grouping import Keys, encode_keys
from panestream.engine.kernels.ordering import stable_order
from panestream.engine.operators.columnar import TableLayout, explain_aggregates, fields_text, hashes_of, integers_of, on_a_line
from panestream.engine.operators.look_back.history import SHORTEST, RowsByTime, pane_length
from panestream.engine.plan import ON_TIME, Capabilities, Chunk, OperatorSpec, WindowPlan, WindowQuery
from panestream.engine.rule import Supported, WindowRequest, on_columns_only
from panestream.engine.runtime.group_io import GroupInput, GroupOutput
from panestream.engine.runtime.group_operator import GroupOperator, TimeStep
from panestream.engine.runtime.state_views import INSTANT, ViewSchemas, WindowRows, instants, share
from panestream.engine.runtime.timed_rows import ROWS, TimedRows, pack_timed, timed_schema
from panestream.engine.runtime.watermarks import BEYOND_ALL
from panestream.engine.storage.blocks import MAX_MERGED_ROWS, PaneBlocks, StoredBlocks, pane_range, sorted_by_pane
from panestream.engine.storage.sealed_state import SealedState
from panestream.engine.storage.state import look_back_too_large
from panestream.engine.storage.state_tables import StateTables, StateViews, integers, key_columns, named_columns
from panestream.windowing.aggregates import Aggregate
from panestream.windowing.assigners.look_back import LookBackWindows, look_backs_of, result_name
from panestream.windowing.time import MAX_TIMESTAMP, MIN_TIMESTAMP, format_duration

WAITING, HISTORY = "waiting", "history"
"""The state tables; the pane of both is the event time itself."""

_MANY_FOR_EACH = 4
"""If the history has this many times more partials than there are rows, other keys' partials are removed before sorting."""


@dataclass(frozen=True, slots=True)
class LookBackSpec(OperatorSpec):
    """Event-time look-back windows with declared aggregates.

    Attributes:
        bare: the aggregation over places on a line, without key columns.
        keyed: the aggregation by key and instant, whose partials are the history.
        texts, kept: the plan's expressions for the row columns in results, and these columns.
    """

    look_backs: Mapping[str, LookBackWindows]
    aggregates: tuple[Aggregate, ...]
    bare: Aggregation
    keyed: Aggregation
    texts: tuple[str, ...]
    kept: pa.Schema
    keys: pa.Schema

    @property
    def inputs(self) -> tuple[str, ...]:
        """The inputs that cross the exchange, each expression once."""
        return tuple(dict.fromkeys((*self.bare.inputs, *self.texts)))

    @property
    def input_types(self) -> tuple[pa.DataType, ...]:
        known = dict(zip(self.texts, self.kept.types, strict=True)) | dict(
            zip(self.bare.inputs, self.bare.input_types, strict=True)
        )
        return tuple(known[text] for text in self.inputs)

    @property
    def longest(self) -> int:
        """The maximum time that rows look back."""
        return max(one.size for one in self.look_backs.values())

    @property
    def ahead(self) -> int:
        """The maximum time after a row until its results are known."""
        return max(one.following for one in self.look_backs.values())

    @property
    def waiting(self) -> TableLayout:
        """Keys, event time, row columns and arrival number. The names are generated because users' names are arbitrary."""
        row = [pa.field(f"row {place}", field.type) for place, field in enumerate(self.kept)]
        own = [*key_fields(self.keys), pa.field("pane", pa.int64()), *row, pa.field("arrival", pa.int64())]
        return TableLayout(WAITING, pa.schema(own), by_time=True)

    @property
    def history(self) -> TableLayout:
        """Partials by key and instant."""
        return TableLayout(HISTORY, self.keyed.partial_schema, self.keyed, by_time=True)

    @property
    def name(self) -> str:
        return "look-backs"

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            per_row=True,
            order_sensitive=self.bare.follows_arrival,
            late_by_time=0,
            no_firings="each row has one result, which is its only one",
            no_changelog="each row has one result, which no later one takes the place of",
        )

    @property
    def result_schema(self) -> pa.Schema:
        """The columns of the row, then the results of each look-back."""
        of_each = [
            pa.field(result_name(field.name, label), field.type) for label in self.look_backs for field in self.bare.output_schema
        ]
        return pa.schema([*self.kept, *of_each])

    def pack(self, plan: WindowPlan, chunk: Chunk) -> Iterator[tuple[str, pa.Table]]:
        return pack_timed(plan, chunk, self.part_schema(plan, ROWS))

    def part_schema(self, plan: WindowPlan, kind: str) -> pa.Schema:
        """Return keys, event time, the inputs of aggregates and results, and the whole row for a late output."""
        return timed_schema(plan, self.input_types)

    def on_sealed(self, plan: WindowPlan, state: SealedState, group: int) -> LookBackOperator:
        return LookBackOperator(plan, self, state)

    def views(self, plan: WindowPlan, saved: StateTables, group: int) -> StateViews:
        """Return the views of a key group.

        For several look-backs, the window shown covers all. The history of emitted rows is not shown as a window.
        """
        table = saved.table(WAITING)
        keys, times = key_columns(table, plan.key_schema), integers(table, "time")
        coded = encode_keys(keys, table.num_rows)
        # One entry per key and instant, with the number of its rows.
        pairs, counts = np.unique(np.stack([coded.codes.astype(np.int64), times]), axis=1, return_counts=True)
        starts, last = pairs[1] - self.longest, pairs[1] + self.ahead
        shown = WindowRows(
            keys=coded.take(pairs[0]),
            count=len(counts),
            starts=pa.array(starts),
            ends=pa.array(last + 1),
            rows=counts,
            due=last,
            closes=last,
            size=share(table.nbytes, counts),
        )
        schemas = ViewSchemas(plan, group, self.kept)
        bounds = [array_of(bound, pa.int64()).cast(INSTANT) for bound in (times - self.longest, times + self.ahead + 1)]
        lists = list_of(pa.StructArray.from_arrays(bounds, ["start", "end"]), np.ones(table.num_rows, np.int64))
        columns = {"windows": lists, "place": pa.array(integers(table, "arrival")), "time": instants(times)}
        rows = named_columns(table, [f"row {place}" for place in range(len(self.kept))])
        elements = schemas.elements_of(keys, table.num_rows, columns, rows)
        return schemas.with_windows(schemas.windows_of(shown), elements=elements)

    def identity(self) -> Mapping[str, str]:
        aggregates = ", ".join(repr(aggregate) for aggregate in self.aggregates)
        return {"aggregates": aggregates, "partials": fields_text(self.keyed.partial_schema), "rows": fields_text(self.kept)}

    def explain(self, plan: WindowPlan, *, streaming: bool) -> Mapping[str, list[str]]:
        late = ["whole rows cross too, for the late output"] if plan.late_tag else []
        return {
            "look-backs": [_told(label, one) for label, one in self.look_backs.items()],
            "results": ["one for each row when the watermark has passed it; older rows are late"],
            "aggregates": explain_aggregates(self.aggregates),
            "exchange": ["rows cross the shuffle once, with the columns that results and aggregates take", *late],
            "state": self._explain_state() if streaming else ["none: a batch computes all rows at once"],
        }

    def _explain_state(self) -> list[str]:
        kept = "partials of each key and instant for as long as a look-back reaches, in blocks; rows that wait for the watermark"
        length = pane_length(self.keyed, self.longest)
        if length:
            edges = f"the panes of {format_duration(length)} in which windows begin and end"
            return [kept, f"a small micro-batch reads {edges}, and one partial for each key and pane between"]
        if self.longest < SHORTEST:
            return [kept]
        inexact = ", ".join(repr(one) for one, exact in zip(self.aggregates, self._exact(), strict=True) if not exact)
        return [kept, f"a micro-batch reads all that its rows look back to: panes merged before would change {inexact}"]

    def _exact(self) -> list[bool]:
        """Return whether each aggregate alone would allow panes with partials."""
        partials = self.keyed.partial_aggregates
        return [all(partials[number].merges_exactly for number in result.partials) for result in self.keyed.results]


@dataclass(frozen=True, slots=True)
class FreshRows:
    """A micro-batch's rows like waiting rows, in order of arrival, and their partials by key and instant, sorted by time."""

    rows: pa.Table
    partials: pa.Table


class LookBackOperator(GroupOperator[FreshRows]):
    """The operator of look-backs: see :class:`~panestream.engine.runtime.group_operator.GroupOperator`."""

    def __init__(self, plan: WindowPlan, settings: LookBackSpec, state: SealedState) -> None:
        self._settings = settings
        self._width = len(settings.keys)
        self._layouts = settings.waiting, settings.history
        self._schema = settings.waiting.schema
        self._waiting = PaneBlocks(state, WAITING, self._schema, sorted_by_pane, MAX_MERGED_ROWS, max(settings.longest, 1))
        self._history = RowsByTime(state, settings.keyed, settings.longest)
        super().__init__(plan, state, StoredBlocks(state, [self._waiting, *self._history.stores]))
        self._arrived = self._saved.get("arrived", 0)
        if self._saved:
            self._history.resume(self._saved["history"])

    def _own_metadata(self) -> Mapping[str, Any]:
        return {"arrived": self._arrived, "history": self._history.kept()}

    def _emitted(self, watermark: int) -> int:
        """Return the time up to which rows have been emitted at a watermark."""
        if watermark in (MIN_TIMESTAMP, MAX_TIMESTAMP):
            return -BEYOND_ALL if watermark == MIN_TIMESTAMP else BEYOND_ALL
        return watermark - self._settings.ahead

    # -- rows ----------------------------------------------------------------------------------------------------------

    def _ingest(self, batch: GroupInput, step: TimeStep, output: GroupOutput) -> FreshRows:
        settings = self._settings
        taken = TimedRows.of(batch, self._plan, len(settings.inputs), step.before)
        if taken is None:
            return FreshRows(self._schema.empty_table(), settings.keyed.partial_schema.empty_table())
        keys, times = taken.keys, taken.times
        self._emit_late(taken.late, taken.late_rows, output)
        output.metrics.windowed_rows = len(times)
        inputs = dict(zip(settings.inputs, taken.inputs, strict=True))
        numbers_ = pa.array(self._arrived + np.arange(len(times)))
        self._arrived += len(times)
        row = [inputs[text] for text in settings.texts]
        rows = pa.Table.from_arrays([*keys, pa.array(times), *row, numbers_], schema=self._schema)
        values = [inputs[text] for text in settings.keyed.inputs]
        return FreshRows(rows, settings.keyed.partials(keys, times, values, times if settings.keyed.needs_timestamps else None))

    # -- firing --------------------------------------------------------------------------------------------------------

    def _fire(self, fresh: FreshRows, step: TimeStep, output: GroupOutput) -> FreshRows:
        since, until = self._emitted(step.before), self._emitted(step.after)
        if until <= since:
            return fresh
        due = integers_of(fresh.rows, "pane") <= until
        ours = fresh.rows if due.all() else fresh.rows.filter(pa.array(due))
        rows = pa.concat_tables([*self._waiting.read(since + 1, until + 1), ours])
        if rows.num_rows:
            self._emit_computed(rows, fresh.partials, output)
        return fresh

    def _emit_computed(self, rows: pa.Table, fresh: pa.Table, output: GroupOutput) -> None:
        """Emit rows with their results, key by key in order of time."""
        settings = self._settings
        times = integers_of(rows, "pane")
        partials, keys = self._near(rows, times, fresh)
        known = partials.num_rows
        codes = keys.codes.astype(np.int64)
        instants, order, places = KeyedTimeline.of(codes[:known], integers_of(partials, "pane"))
        line = on_a_line(settings.bare, partials.columns[self._width + 1 :], order, places)
        order = stable_order(codes[known:], times)
        codes, times = codes[known:][order], times[order]
        where = instants.places(codes, times)
        new = np.ones(len(where), np.bool_)
        new[1:] = where[1:] != where[:-1]
        fired, of = where[new], np.cumsum(new) - 1
        results: list[pa.Array] = []
        for one in settings.look_backs.values():
            begin, end = instants.near(one.size, one.following)
            found = settings.bare.over_places(line, begin[fired], end[fired])
            results += found.columns if len(fired) == len(where) else found.take(pa.array(of)).columns
        kept = rows.select(range(self._width + 1, rows.num_columns - 1))
        kept = kept if bool((order[1:] > order[:-1]).all()) else kept.take(pa.array(order))
        columns = [*keys.take(codes), *kept.columns, *results]
        self._count_firings(ON_TIME, len(codes), output)
        self._emit_main(pa.Table.from_arrays(columns, schema=self._plan.main_schema), len(codes), output)

    def _near(self, rows: pa.Table, times: Ints, fresh: pa.Table) -> tuple[pa.Table, Keys]:
        """Return the partials that rows look back to, older first, and the keys of these partials followed by the rows' keys."""
        settings = self._settings
        ours = pane_range(fresh, int(times.min()) - settings.longest, int(times.max()) + settings.ahead + 1)
        partials = pa.concat_tables([*self._history_of(rows, times, ours.nbytes), ours])
        both = [pa.chunked_array([*partials.column(n).chunks, *rows.column(n).chunks]) for n in range(self._width)]
        return partials, encode_keys([plain(column) for column in both], partials.num_rows + rows.num_rows)

    def _history_of(self, rows: pa.Table, times: Ints, size: int) -> Iterator[pa.Table]:
        """Yield the history that rows need, block by block; if there are few rows, only their keys, so that less is sorted.

        Raises MemoryLimitError if the history is too large for memory.
        """
        spans = self._history.near(times, list(self._settings.look_backs.values()))
        few = sum(span.rows for span in spans) > _MANY_FOR_EACH * rows.num_rows
        wanted = np.unique(hashes_of(rows, self._width)) if few else None
        for block in chain.from_iterable(span.scan() for span in spans):
            part = block
            if wanted is not None:
                hashes = hashes_of(block, self._width)
                found = np.minimum(np.searchsorted(wanted, hashes), len(wanted) - 1)
                part = block.filter(pa.array(wanted[found] == hashes))
            size += part.nbytes
            if size > self._plan.most_bytes:
                raise look_back_too_large(size, self._plan.most_bytes)
            yield part

    # -- state ---------------------------------------------------------------------------------------------------------

    def _close(self, fresh: FreshRows, step: TimeStep) -> None:
        emitted = self._emitted(step.after)
        # New rows are later than the watermark and look back from it; waiting rows look back from the first one.
        needed = emitted + 1 - self._settings.longest
        waiting = fresh.rows.filter(pa.array(integers_of(fresh.rows, "pane") > emitted))
        self._waiting.drop_before(emitted + 1)
        self._waiting.append(sorted_by_pane([waiting]))
        self._waiting.compact(emitted + 1)
        self._history.add(pane_range(fresh.partials, needed, None), step.before, step.after, needed)

    def _kept_windows(self) -> int:
        return sum(block.rows for block in self._waiting.index)

    # -- as tables -----------------------------------------------------------------------------------------------------

    def _own_header(self) -> Mapping[str, Any]:
        return {**self._settings.history.header(), "counters": {"largest": {"arrived": self._arrived}}}

    def _state_tables(self) -> Mapping[str, pa.Table]:
        emitted = self._emitted(self._reached)
        waiting = pa.concat_tables([self._schema.empty_table(), *self._waiting.read(emitted + 1, BEYOND_ALL)])
        history = self._history.all_from(emitted + 1 - self._settings.longest)
        return {layout.name: layout.save(rows) for layout, rows in zip(self._layouts, (waiting, history), strict=True)}

    def _write_tables(self, saved: StateTables) -> None:
        self._arrived = saved.header["counters"]["largest"]["arrived"]
        waiting, history = (layout.restore(saved) for layout in self._layouts)
        self._waiting.append(sorted_by_pane([waiting.take(pa.array(stable_order(integers_of(waiting, "arrival"))))]))
        self._history.put(self._settings.keyed.merge([history]))


def _told(label: str, one: LookBackWindows) -> str:
    ahead = f" and {format_duration(one.following)} after it" if one.following else ""
    return f"{label + ': ' if label else ''}the {format_duration(one.size)} before each row{ahead}, and the row itself"


def look_back_rule(window: WindowQuery, asked: WindowRequest) -> Supported | None:
    """Plan one or several look-backs over declared aggregates; raise InvalidPlanError for unsupported queries."""
    look_backs = look_backs_of(window.assigner)
    if look_backs is None:
        return None
    asked = on_columns_only(window, asked, "look-backs")
    bare = Aggregation.build(asked.aggregates, asked.types, pa.schema([]))
    keyed = Aggregation.build(asked.aggregates, asked.types, pa.schema(key_fields(asked.keys)))
    kept = pa.schema([]) if asked.kept is None else asked.kept
    return Supported(LookBackSpec(look_backs, tuple(asked.aggregates), bare, keyed, asked.columns, kept, asked.keys))
