"""Keyed process functions: the row operator without windows. State belongs to the key, timers to its global window."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import index
from typing import Any

import pyarrow as pa

from panestream.engine.operators.row.contents import NEVER, KeyState, ProcessRows, RowPlan, WindowState
from panestream.engine.operators.row.operator import RowGroupOperator
from panestream.engine.operators.row.spec import RowSpec
from panestream.engine.operators.row.state import Clocks, RowStore
from panestream.engine.operators.row.window_operator import Output, Row, RowOperator
from panestream.engine.plan import Capabilities, WindowPlan, WindowQuery, stable_repr
from panestream.engine.storage.sealed_state import SealedState
from panestream.engine.storage.state import State
from panestream.errors import InvalidPlanError
from panestream.windowing.assigners import GlobalWindows
from panestream.windowing.functions import results_of
from panestream.windowing.process_functions import KeyedBroadcastProcessFunction, KeyedProcessFunction, TimeDomain
from panestream.windowing.state import drop_expired
from panestream.windowing.time import MAX_TIMESTAMP
from panestream.windowing.windows import GlobalWindow, Window

ALL_TIME = GlobalWindow()
"""The window of results that belong to no window."""

MOST_TIMERS_AT_END = 1_000_000
"""The number of timers of one key at the end of the input above which a function certainly registers them without end."""


class ProcessScope:
    """The context and timer service of keyed process functions. One object serves all keys; ``begin`` moves it to a call.

    ``expiring`` has the names of the states with a time to live that were used.
    """

    __slots__ = ("_domain", "_outputs", "_owner", "_store", "_times", "_timestamp", "expiring")

    def __init__(self, times: Clocks, store: RowStore) -> None:
        self._times = times
        self._store = store
        self._outputs: dict[str, list[tuple[Any, Window, Any, int]]] = {}
        self.expiring: set[str] = set()

    def begin(self, owner: KeyState, timestamp: int, domain: TimeDomain | None = None) -> None:
        self._owner = owner
        self._timestamp = timestamp
        self._domain = domain

    def get_current_key(self) -> Any:
        return self._owner.key

    def timestamp(self) -> int:
        return self._timestamp

    def time_domain(self) -> TimeDomain | None:
        return self._domain

    def timer_service(self) -> ProcessScope:
        return self

    def current_watermark(self) -> int:
        return self._times.watermark

    def current_processing_time(self) -> int:
        return self._times.processing_time

    def register_event_time_timer(self, time: int) -> None:
        self._store.event_queue.register(self._timers().event_timers, index(time))

    def register_processing_time_timer(self, time: int) -> None:
        self._store.processing_queue.register(self._timers().get_or_create_processing_timers(), index(time))

    def delete_event_time_timer(self, time: int) -> None:
        self._timers().event_timers.times.discard(time)

    def delete_processing_time_timer(self, time: int) -> None:
        self._timers().get_or_create_processing_timers().times.discard(time)

    def _timers(self) -> WindowState:
        """Return the global window of the key, which holds its timers. A window without any is not stored."""
        windows = self._owner.window_states
        if None not in windows:
            windows[None] = self._store.new_window_state(self._owner, None, None)
        return windows[None]

    def get_state(self, descriptor: Any) -> Any:
        if descriptor.ttl is not None:
            self.expiring.add(descriptor.name)
        return descriptor.bind(self._owner.global_values, self._times.processing_time)

    get_list_state = get_map_state = get_reducing_state = get_aggregating_state = get_state

    def output(self, tag: str, value: Any) -> None:
        self._outputs.setdefault(tag, []).append((self._owner.key, ALL_TIME, value, self._timestamp))

    def take_outputs(self) -> dict[str, list[tuple[Any, Window, Any, int]]]:
        """Return the values sent to side outputs since the last call."""
        taken, self._outputs = self._outputs, {}
        return taken


class KeyedProcessOperator(RowOperator):
    """Runs a keyed process function on one key group. Flink: ``KeyedProcessOperator``."""

    def __init__(self, plan: RowPlan, state: State, key_group: int = 0) -> None:
        super().__init__(plan, state, key_group)
        assert isinstance(plan.function, ProcessRows)  # noqa: S101 - see process_spec
        self._process: Any = plan.function.function
        self._process_scope = self._scope_of()
        self._calls_at_end: dict[Any, int] = {}

    def _scope_of(self) -> ProcessScope:
        return ProcessScope(self, self.store)

    def elements(self, rows: Iterable[Row]) -> None:
        used_keys, get_or_create, begin = self.store.used_keys, self.store.get_or_create, self._process_scope.begin
        process, scope, add = self._process.process_element, self._process_scope, self._fired.append
        clocked, key = self._process.uses_processing_time, None
        try:
            for key, timestamp, element in rows:
                owner = used_keys.get(key) or get_or_create(key)
                begin(owner, timestamp)
                results = process(element, scope)
                if results is not None:
                    for value in results_of(process, results):
                        add((owner.key, ALL_TIME, value, timestamp))
                if clocked and self.store.processing_queue.first() < self.processing_time:
                    self._run_processing_timers()
        except Exception as error:  # noqa: BLE001 - whatever users' code raises
            self.failed("process_element", key, None, error)

    def element(self, key: Any, timestamp: int, element: Any) -> None:
        self.elements([(key, timestamp, element)])

    def _on_timer(self, window_state: WindowState, time: int, called: bool, event_time: bool) -> None:
        owner: KeyState = window_state.owner
        owner.page.dirty = True
        self._process_scope.begin(owner, time, TimeDomain.EVENT_TIME if event_time else TimeDomain.PROCESSING_TIME)
        try:
            results = self._process.on_timer(time, self._process_scope)
            if results is not None:
                self._fired.extend((owner.key, ALL_TIME, value, time) for value in results_of(self._process.on_timer, results))
        except Exception as error:  # noqa: BLE001
            self.failed("on_timer", owner.key, None, error)
        if (self.watermark if event_time else self.processing_time) == MAX_TIMESTAMP:
            self._check_end(owner.key)

    def _check_end(self, key: Any) -> None:
        """Refuse a function whose timers always register the next one, since at the end of the input all are due."""
        calls = self._calls_at_end[key] = self._calls_at_end.get(key, 0) + 1
        if calls > MOST_TIMERS_AT_END:
            raise InvalidPlanError(
                f"on_timer was called {calls:,} times for the key {key!r} after the end of the input, and registers timers "
                "without end: register the next one only while ctx.timer_service().current_watermark() < MAX_TIMESTAMP"
            )

    def drain(self) -> Output:
        output = super().drain()
        output.side_outputs = self._process_scope.take_outputs()
        return output

    def commit(self) -> None:
        for page in self.store.dirty_pages() if self._process_scope.expiring else ():
            for owner in page.keys.values():
                for name in self._process_scope.expiring:
                    drop_expired(owner.global_values, name, self.processing_time)
        super().commit()

    def next_processing_time_timer(self) -> int | None:
        first = self.store.first_processing_timer()
        if first < NEVER and not self._process.uses_processing_time:
            raise InvalidPlanError(
                f"{self._process!r} registered a processing-time timer: give it the property uses_processing_time that returns "
                "True, so that Spark wakes the query up without new data"
            )
        return None if first == NEVER else first


class KeyedProcessGroupOperator(RowGroupOperator):
    """The keyed process operator on columns."""

    @staticmethod
    def _operator_of(plan: RowPlan, state: State, group: int) -> RowOperator:
        return KeyedProcessOperator(plan, state, group)


@dataclass(frozen=True, slots=True)
class KeyedProcessSpec(RowSpec):
    """A function over the rows of each key, with state and timers, without windows."""

    @property
    def name(self) -> str:
        return "keyed process"

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            takes_rows=True,
            has_windows=False,
            fires_by_time=None,
            late_rows=False,
            uses_processing_time=self.by_processing_time,
            shows_processing_time=True,
            no_firings="a keyed process function has no windows that fire",
            no_key_watermarks="a keyed process function has one watermark for all keys",
            no_changelog="a keyed process function emits rows, none of which takes the place of another",
        )

    def on_sealed(self, plan: WindowPlan, state: SealedState, group: int) -> RowGroupOperator:
        return KeyedProcessGroupOperator(plan, self, state, group)

    def explain(self, plan: WindowPlan, *, streaming: bool) -> Mapping[str, list[str]]:
        sections = dict(RowSpec.explain(self, plan, streaming=streaming))
        kept = sections["state"][0].replace("one accumulator per key and window", "the states and timers of each key")
        return {
            "operator": ["the row operator without windows: one call for each row and each timer"],
            "function": sections["function"],
            "exchange": sections["exchange"],
            "state": [kept],
        }


def process_spec(
    function: KeyedProcessFunction | KeyedBroadcastProcessFunction,
    results: pa.Schema,
    rows: pa.Schema,
    *,
    pickled_state: bool = False,
    rules: pa.Schema | None = None,
    kind: type[KeyedProcessSpec] = KeyedProcessSpec,
) -> RowSpec:
    """Return the operator of a keyed process function over ``rows`` that returns ``results``."""
    return kind(
        RowPlan(WindowQuery(GlobalWindows(), pickled_state=pickled_state), ProcessRows(function, rules)),
        results,
        rows,
        by_processing_time=function.uses_processing_time,
        described=stable_repr(function),
        kind="keyed process",
    )


__all__ = ["KeyedProcessOperator", "KeyedProcessSpec", "process_spec"]
