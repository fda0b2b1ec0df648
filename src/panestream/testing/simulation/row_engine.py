"""User functions under simulation: the row operator on any elements, as in ``WindowTestHarness``."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from panestream.engine.operators.row.contents import RowPlan
from panestream.engine.operators.row.window_operator import RowOperator, count_state_entries
from panestream.engine.storage.sealed_state import SealedState
from panestream.engine.storage.state import MemoryState
from panestream.testing.harness_query import LATE, HarnessQuery
from panestream.testing.simulation.disk import OutputRow, State, TaskState
from panestream.testing.simulation.engines import Operated
from panestream.testing.simulation.formatting import Micros, Written
from panestream.testing.simulation.schedule import MicroBatch
from panestream.windowing.assigners import GlobalWindows
from panestream.windowing.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from panestream.windowing.windows import TimeWindow

_NEWEST = "simulation"
"""The space of the store for the largest event time, which is in the meta record on Spark."""


@dataclass
class RowEngine:
    """A plan of the row operator for the ``query`` of a harness; ``delay`` is that of the watermark."""

    query: HarnessQuery
    delay: int
    groups: int

    @property
    def plan(self) -> RowPlan:
        return self.query.plan

    @property
    def wakes_up(self) -> bool:
        return self.plan.window.uses_processing_time

    @property
    def tags(self) -> Sequence[str]:
        return ("main", *([LATE] if self.plan.late_output is not None else []))

    def pack(self, batch: MicroBatch, run: str, rng: random.Random) -> list[list[Any]]:
        arrived: list[list[Any]] = [[] for _ in range(self.groups)]
        times = [row.time for row in batch.rows if row.time is not None]
        for origin, rows in enumerate(batch.tasks):
            for group in range(self.groups):
                mine = [row for row in rows if crc32(repr(row.key).encode()) % self.groups == group]
                arrived[group].append((origin, mine, len(batch.rows), max(times)))
        for parts in arrived:
            rng.shuffle(parts)
        return arrived

    def operate(self, state: TaskState, group: int, arrived: Sequence[Any], clock: int, planned_in: str) -> Operated:
        operator = RowOperator(self.plan, SealedState(state, group, "row operator"), group)
        kept = state.get(_NEWEST, 0)
        newest = max([MIN_TIMESTAMP if kept is None else json.loads(kept), *(part[3] for part in arrived)])
        rows = [
            (row.key, row.time, self._element(row.value, row.time))
            for _, mine, _, _ in sorted(arrived, key=_first)
            for row in mine
        ]
        if not self.plan.window.assigner.is_event_time:
            rows = [(key, clock, element) for key, _, element in rows]
        watermark = None if newest == MIN_TIMESTAMP else newest - self.delay - 1
        output = operator.process(rows, watermark, clock)
        state.put(_NEWEST, 0, json.dumps(newest).encode())
        operator.commit()
        late = output.late_dropped + len(output.late)
        metrics = {"input_rows": arrived[0][2] if arrived else 0, "invalid_rows": 0, "late_rows": late, "woken": not arrived}
        metrics |= {"outside_rows": operator.outside, "state_of": -1, "key_group": group}
        metrics["windowed_rows"] = len(rows) - late - operator.outside
        told: dict[str, list[OutputRow]] = {"main": [self._told(one) for one in output.fired]}
        told["main"] += [self._told(one, f"{tag}: ") for tag, some in output.side_outputs.items() for one in some]
        if self.plan.late_output is not None:
            told[LATE] = [(key, Micros(time), None, Written(repr(element))) for key, time, element in output.late]
        return Operated(told, metrics, operator.next_processing_time_timer())

    def _element(self, value: Any, time: int) -> Any:
        return value if self.query.rows is None else self.query.rows.element(value, time)

    def _told(self, fired: Any, tag: str = "") -> OutputRow:
        key, window, value = fired[:3]
        bounds = (Micros(window.start), Micros(window.end)) if isinstance(window, TimeWindow) else (None, None)
        return key, *bounds, Written(f"{tag}{value!r}")

    def left(self, states: Sequence[State]) -> set[Any]:
        """Return the keys that still have state at the end of time."""
        if isinstance(self.plan.window.assigner, GlobalWindows):
            return set()
        found = 0
        for group, values in enumerate(states):
            operator = RowOperator(self.plan, SealedState(MemoryState(dict(values)), group, "row operator"), group)
            operator.advance_watermark(MAX_TIMESTAMP)
            operator.advance_processing_time(MAX_TIMESTAMP)
            found += count_state_entries(operator)
        return {f"{found} entries"} if found else set()

    def dealt(self, states: Sequence[State], other: Any) -> list[tuple[State, int | None]]:
        raise NotImplementedError("elements without columns do not support savepoints here")

    def batch(self, batches: Sequence[MicroBatch]) -> list[OutputRow]:
        """Return the results of all rows as one batch."""
        told: list[OutputRow] = []
        for group in range(self.groups):
            operator = RowOperator(self.plan, SealedState(MemoryState(), group, "row operator"), group)
            rows = [row for batch in batches for row in batch.rows if crc32(repr(row.key).encode()) % self.groups == group]
            given = [(row.key, row.time or 0, self._element(row.value, row.time or 0)) for row in rows]
            told += [self._told(one) for one in operator.process(given, MAX_TIMESTAMP).fired]
        return told


def _first(part: Any) -> int:
    origin: int = part[0]
    return origin
