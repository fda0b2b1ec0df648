"""Keyed broadcast process functions: every key group gets every rule, and its keys read what the rules wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from heapq import merge
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from panestream.engine.kernels.panes import Int64s
from panestream.engine.kernels.python_values import RowType
from panestream.engine.operators.row.codec import Codec
from panestream.engine.operators.row.contents import KeyPage, KeyState, ProcessRows, RowPlan
from panestream.engine.operators.row.operator import INPUTS, RowGroupOperator
from panestream.engine.operators.row.pages import ColumnReader, ColumnWriter, read_state_values, write_state_values
from panestream.engine.operators.row.process import (
    ALL_TIME,
    KeyedProcessGroupOperator,
    KeyedProcessOperator,
    KeyedProcessSpec,
    ProcessScope,
    process_spec,
)
from panestream.engine.operators.row.spec import RowSpec
from panestream.engine.operators.row.state import RowStore
from panestream.engine.operators.row.tables import RowTables, ValueTexts
from panestream.engine.operators.row.window_operator import Row, RowOperator
from panestream.engine.plan import Capabilities, Chunk, WindowPlan
from panestream.engine.runtime.group_io import GroupInput, GroupOutput
from panestream.engine.runtime.group_operator import TimeStep
from panestream.engine.runtime.sides import Sides
from panestream.engine.runtime.state_views import ViewSchemas
from panestream.engine.storage.sealed_state import META, SealedState
from panestream.engine.storage.state import State
from panestream.engine.storage.state_tables import StateTables, StateViews
from panestream.errors import InvalidPlanError
from panestream.windowing.functions import results_of
from panestream.windowing.process_functions import KeyedBroadcastProcessFunction
from panestream.windowing.state import MapState, MapStateDescriptor, ReadOnlyMapState, StateValues

RULES = "rules"
BROADCAST = "broadcast"
"""The entry of the meta record with the number of the stored maps, and the entry of a savepoint's header with their text."""
_FIRST_NUMBER = 2
"""The meta record and its witness have the numbers before it."""


class Rule(NamedTuple):
    """An element of the second stream."""

    value: Any


@lru_cache(maxsize=4)
def _rules_of(schema: pa.Schema) -> RowType:
    return RowType(schema)


class BroadcastStore:
    """The maps that rules wrote, equal in all key groups.

    They are read at first use, and written under a new number if a rule changed them. They are in the space ``meta``, so that the
    header of a savepoint has them.
    """

    def __init__(self, plan: RowPlan, state: State, store: RowStore) -> None:
        assert isinstance(plan.function, ProcessRows)  # noqa: S101 - see KeyedProcessOperator
        element = None if plan.function.rules is None else _rules_of(plan.function.rules).element
        self._state = state
        self._store = store
        self._meta = store.meta
        self._codec = Codec(element, plan.window.pickled_state)
        self._texts = ValueTexts(self._codec, element)
        self._maps: StateValues | None = None
        self._written: bytes | None = None
        self.used_by_rule = False

    @property
    def maps(self) -> StateValues:
        if self._maps is None and BROADCAST in self._meta:
            with self._store.reading(META, self._meta[BROADCAST]) as data:
                self._maps = next(iter(read_state_values(ColumnReader(data, self._codec), f"{BROADCAST}:")), {})
                self._written = data
        elif self._maps is None:
            self._maps = {}
        return self._maps

    @property
    def text(self) -> str:
        """The maps as text, for savepoints and views."""
        return self._texts.write([self.maps], f"{BROADCAST}:")[0]

    def restore(self, text: str) -> None:
        self._maps = self._texts.read([text])[0]
        self.used_by_rule = bool(self._maps)

    def commit(self) -> None:
        """Write the maps if they have changed, before the meta record."""
        if not self.used_by_rule:
            return
        self.used_by_rule = False
        writer = ColumnWriter(self._codec)
        write_state_values(writer, f"{BROADCAST}:", [self.maps])
        data = writer.finish()
        if data == self._written:
            return
        number = self._meta.get(BROADCAST)
        if number is not None:
            self._state.remove(META, number)
        self._meta[BROADCAST] = _FIRST_NUMBER if number is None else number + 1
        self._state.put(META, self._meta[BROADCAST], data)
        self._written = data


def _check_lasting(descriptor: MapStateDescriptor) -> None:
    if descriptor.ttl is not None:
        raise InvalidPlanError(
            f"the broadcast state {descriptor.name!r} has a time to live, which only keyed state has: leave out ttl, and send a "
            "rule that removes the entry"
        )


class KeyScope(ProcessScope):
    """The context of rows and timers."""

    __slots__ = ("_broadcast",)

    def __init__(self, operator: KeyedBroadcastOperator) -> None:
        super().__init__(operator, operator.store)
        self._broadcast = operator.broadcast

    def get_broadcast_state(self, descriptor: MapStateDescriptor) -> ReadOnlyMapState:
        _check_lasting(descriptor)
        return ReadOnlyMapState(self._broadcast.maps, descriptor.name, None, None)


class RuleScope:
    """The context of rules. ``scope`` is that of the keys, to which a rule's function may be applied."""

    __slots__ = ("_applies", "_operator", "_owner", "_scope")

    def __init__(self, operator: KeyedBroadcastOperator, scope: ProcessScope) -> None:
        self._operator = operator
        self._scope = scope
        self._applies = False

    def begin(self, key: Any, timestamp: int) -> None:
        self._owner = KeyState(key, KeyPage(0, 1))
        self._applies = False
        self._scope.begin(self._owner, timestamp)

    def timestamp(self) -> int:
        return self._scope.timestamp()

    def current_watermark(self) -> int:
        return self._scope.current_watermark()

    def current_processing_time(self) -> int:
        return self._scope.current_processing_time()

    def output(self, tag: str, value: Any) -> None:
        if self._applies or self._operator.speaks:
            self._scope.output(tag, value)

    def get_broadcast_state(self, descriptor: MapStateDescriptor) -> MapState:
        _check_lasting(descriptor)
        return descriptor.bind(self._operator.broadcast.maps)

    def apply_to_keyed_state(self, descriptor: Any, function: Callable[[Any, Any], Iterable[Any] | None]) -> None:
        self._applies = True
        for owner in self._operator.store.all_keys():
            if descriptor.name in owner.global_values:
                self._scope.begin(owner, self._scope.timestamp())
                state = self._scope.get_state(descriptor)
                owner.page.dirty = True
                if descriptor.name in owner.global_values:  # it has not expired
                    self._operator.apply(function, owner.key, state)
        self._applies = False
        self._scope.begin(self._owner, self._scope.timestamp())


class KeyedBroadcastOperator(KeyedProcessOperator):
    """Runs a keyed broadcast process function on one key group. Flink: ``CoBroadcastWithKeyedOperator``.

    Rows whose element is a :class:`Rule` are rules; their key is that of results which belong to no key. ``speaks`` is whether
    this key group emits what all of them compute from a rule.
    """

    def __init__(self, plan: RowPlan, state: State, key_group: int = 0) -> None:
        self._given_state = state
        self.speaks = key_group == 0
        super().__init__(plan, state, key_group)
        self._rule_scope = RuleScope(self, self._process_scope)

    def _scope_of(self) -> ProcessScope:
        self.broadcast = BroadcastStore(self.plan, self._given_state, self.store)
        return KeyScope(self)

    def elements(self, rows: Iterable[Row]) -> None:
        for are_rules, part in groupby(rows, lambda row: type(row[2]) is Rule):
            if not are_rules:
                super().elements(part)
                continue
            for key, timestamp, rule in part:
                self._take_rule(key, timestamp, rule.value)

    def _take_rule(self, key: Any, timestamp: int, value: Any) -> None:
        self.broadcast.used_by_rule = True
        self._rule_scope.begin(key, timestamp)
        process = self._process.process_broadcast_element
        try:
            for result in results_of(process, process(value, self._rule_scope)):
                if self.speaks:
                    self._fired.append((key, ALL_TIME, result, timestamp))
        except Exception as error:  # noqa: BLE001 - whatever users' code raises
            self.failed("process_broadcast_element", key, None, error)

    def apply(self, function: Callable[[Any, Any], Iterable[Any] | None], key: Any, state: Any) -> None:
        """Call a function with a state of a key, and emit its results."""
        try:
            results = results_of(function, function(key, state))
            self._fired.extend((key, ALL_TIME, result, self._process_scope.timestamp()) for result in results)
        except Exception as error:  # noqa: BLE001
            self.failed("the function of apply_to_keyed_state", key, None, error)

    def commit(self) -> None:
        self.broadcast.commit()
        super().commit()


class KeyedBroadcastGroupOperator(KeyedProcessGroupOperator):
    """The keyed broadcast process operator on columns. Rules and rows of a micro-batch are processed in the order of event time.

    At the same time, rules come first. Otherwise the order of arrival counts, as without rules.
    """

    _operator: KeyedBroadcastOperator

    @staticmethod
    def _operator_of(plan: RowPlan, state: State, group: int) -> RowOperator:
        return KeyedBroadcastOperator(plan, state, group)

    def _ingest(self, batch: GroupInput, step: TimeStep, output: GroupOutput) -> Any:
        self._rules = list(self._rules_in(batch.of(RULES)))
        arrived = super()._ingest(batch, step, output)
        if self._operator.speaks:
            output.metrics.windowed_rows += len(self._rules)
        return arrived

    def _rules_in(self, tables: list[pa.Table]) -> Iterator[Row]:
        """Yield the rules in the order of time, and otherwise of arrival."""
        if not tables:
            return
        table = pa.concat_tables(tables)
        table = table.take(pa.array(np.argsort(table.column(0).to_numpy(), kind="stable")))
        width = len(self._plan.key_schema)
        nothing = None if width == 1 else (None,) * width
        spec: Any = self._settings
        row_type = _rules_of(spec.rules)
        values = row_type.rows(table.select(range(1, table.num_columns)).rename_columns(spec.rules.names))
        for time, value in zip(table.column(0).to_pylist(), values, strict=True):
            yield nothing, time, Rule(value)

    def _first_order(self, tables: Any) -> tuple[Int64s, bool]:
        times = np.concatenate([table.column(len(self._plan.key_schema)).to_numpy() for table in tables])
        return np.argsort(times, kind="stable"), self._key_by_key and not self._rules

    def _elements_of(self, arrived: Any) -> Iterable[Row]:
        rows = super()._elements_of(arrived)
        return merge(self._rules, rows, key=itemgetter(1)) if self._rules else rows

    def _own_header(self) -> Mapping[str, Any]:
        header = super()._own_header()
        return {**header, "counters": {**header["counters"], "equal": {BROADCAST: self._operator.broadcast.text}}}

    def _write_tables(self, saved: StateTables) -> None:
        counters = dict(saved.header["counters"])
        self._operator.broadcast.restore(counters.pop("equal")[BROADCAST])
        super()._write_tables(StateTables({**saved.header, "counters": {**counters, "equal": {}}}, saved.tables))


@dataclass(frozen=True, slots=True)
class KeyedBroadcastSpec(KeyedProcessSpec):
    """A keyed process function with rules. The first of the plan's two streams has the rows, the second the rules."""

    @property
    def name(self) -> str:
        return "keyed broadcast process"

    @property
    def capabilities(self) -> Capabilities:
        own: Capabilities = KeyedProcessSpec.capabilities.fget(self)  # type: ignore[attr-defined]
        return replace(own, broadcasts=True)

    @property
    def rules(self) -> pa.Schema:
        """The columns of rules."""
        return self.row_plan.function.rules  # type: ignore[union-attr]

    def pack(self, plan: WindowPlan, chunk: Chunk) -> Iterator[tuple[str, pa.Table]]:
        sides: Sides = plan.sides  # type: ignore[assignment]
        whole: pa.Table = chunk.rows
        rows, rules = sides.apart(whole)
        mine = whole.column(1).is_null()
        times = pa.chunked_array([chunk.times])
        if rows.num_rows:
            keys = [pa.chunked_array([key]).filter(mine) for key in chunk.keys]
            columns = [*keys, times.filter(mine), *rows.columns]
            yield INPUTS, pa.Table.from_arrays(columns, names=self.part_schema(plan, INPUTS).names)
        if rules.num_rows:
            columns = [times.filter(whole.column(1).is_valid()), *rules.columns]
            yield RULES, pa.Table.from_arrays(columns, names=self.part_schema(plan, RULES).names)

    def part_schema(self, plan: WindowPlan, kind: str) -> pa.Schema:
        keys = [] if kind == RULES else plan.key_schema
        own = self.rules if kind == RULES else self.element_schema
        fields = [*keys, pa.field("time", pa.int64()), *own]
        return pa.schema([pa.field(f"{place}", field.type) for place, field in enumerate(fields)])

    def on_sealed(self, plan: WindowPlan, state: SealedState, group: int) -> RowGroupOperator:
        return KeyedBroadcastGroupOperator(plan, self, state, group)

    def views(self, plan: WindowPlan, saved: StateTables, group: int) -> StateViews:
        views = KeyedProcessSpec.views(self, plan, saved, group)
        if group:  # all are equal
            return views
        states = RowTables.parts_of(saved.header["counters"]["equal"][BROADCAST])
        nothing = [pa.nulls(len(states), key.type) for key in plan.key_schema]
        columns = {
            "of": pa.array([BROADCAST] * len(states), pa.string()),
            "name": pa.array([name for name, _ in states], pa.string()),
            "value": pa.array([value for _, value in states], pa.string()),
        }
        schemas = ViewSchemas(plan, group, self.element_schema)
        shown = schemas.user_state_of(nothing, len(states), columns)
        return replace(views, user_state=pa.concat_tables([views.user_state, shown]))

    def identity(self) -> Mapping[str, str]:
        return {**RowSpec.identity(self), RULES: ", ".join(f"{field.name} {field.type}" for field in self.rules)}

    def explain(self, plan: WindowPlan, *, streaming: bool) -> Mapping[str, list[str]]:
        sections = dict(KeyedProcessSpec.explain(self, plan, streaming=streaming))
        every = "every key group" if plan.groups == 1 else f"all {plan.groups} key groups"
        return {
            "operator": sections.pop("operator"),
            "rules": [
                f"each crosses the shuffle to {every}",
                "a micro-batch is processed in the order of event time, rules first at the same time",
            ],
            **sections,
            "state": [*sections["state"], *(["what the rules wrote, in every key group"] if streaming else [])],
        }


def broadcast_spec(
    function: KeyedBroadcastProcessFunction,
    results: pa.Schema,
    rows: pa.Schema,
    rules: pa.Schema,
    *,
    pickled_state: bool = False,
) -> RowSpec:
    """Return the operator of a keyed broadcast process function over ``rows`` with ``rules`` that returns ``results``."""
    return process_spec(function, results, rows, pickled_state=pickled_state, rules=rules, kind=KeyedBroadcastSpec)


__all__ = ["RULES", "KeyedBroadcastOperator", "KeyedBroadcastSpec", "Rule", "broadcast_spec"]
