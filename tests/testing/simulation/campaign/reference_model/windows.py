"""The firings of windows by definition, in the form of a query's output."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from panestream.testing.simulation.schedule import Row, Settings
from tests.testing.simulation.campaign.queries import Query, QuerySchedule
from tests.testing.simulation.campaign.reference_model.definition import Definition
from tests.testing.simulation.campaign.reference_model.model import Expected, OutputRow, ReferenceModel, summed


class WindowModel(ReferenceModel):
    """Aggregates and functions over windows. A firing has the window, number of rows, sum, their numbers, and version of the code."""

    def __init__(self, schedule: QuerySchedule, settings: Sequence[Settings], restarts: Iterable[int] = ()) -> None:
        super().__init__(schedule, settings, restarts)
        query = schedule.query
        spec = {
            "assigner": query.assigner,
            "trigger": query.trigger,
            "evictor": query.evictor,
            "allowed_lateness": settings[0].lateness,
            "late_output": True,
            "function": {"type": "list"},
        }
        self.definition = Definition(spec)
        self.firings: Counter[Any] = Counter()

    def micro_batch(self, number: int) -> Expected:
        definition, batch, settings = self.definition, self.schedule.batches[number], self.settings[number]
        if number in self.restarts:
            self.times.start_again()
        if settings.lateness != definition.L:
            definition.start_again(settings.lateness)
        rows = in_order(self.query, batch.tasks)
        usable = [row for row in rows if row.time is not None or not self.query.of_time]
        outside = definition.outside
        definition.step({"processing_time": batch.clock})
        for row in usable:
            # Without event times, the clock replaces them for evictors.
            time = row.time if self.query.of_time else batch.clock
            definition.step({"element": {"key": row.key, "ts": time, "value": row.number}})
        alive = {(key, w.start, w.end) for key, windows in definition.windows.items() for w in windows}
        before = len(definition.out)
        if rows:
            definition.step({"watermark": self.times.advance(rows, settings, batch.clock)})
        fired, late = definition.taken()
        invalid = [row.number for row in rows if row not in usable]
        late_rows = sorted(e["value"] for e in late)
        counts = self.counted(late_rows, invalid, definition.outside - outside, len(rows))
        return Expected(self._main(fired, before, alive, settings), late_rows, sorted(invalid), counts)

    def open_keys(self) -> set[Any]:
        return {key for key, windows in self.definition.windows.items() if windows}

    def _main(self, fired: Sequence[Mapping[str, Any]], before: int, alive: set[Any], settings: Settings) -> dict[Any, Any]:
        query, found = self.query, dict[Any, list[OutputRow]]()
        for place, each in enumerate(fired):
            key = each["key"]
            self.firings[key] += 1
            # A columnar operator emits a session that grows within a micro-batch only in its final form.
            if query.of_growing_columns and place < before and (key, each["start"], each["end"]) not in alive:
                continue
            told = self.told(key, [self.rows[id_] for id_ in each["value"]], settings)
            found.setdefault(key, []).append((each["start"], each["end"], *told))
        emitted = {key: self.emitted(as_emitted(query, firings)) for key, firings in found.items()}
        return {key: rows for key, rows in emitted.items() if rows}

    def told(self, key: Any, rows: Sequence[Row], settings: Settings) -> OutputRow:
        """Return the results of a firing for its rows."""
        code = {"declared": (), "context": (self.firings[key],)}.get(self.query.function, (settings.code,))
        return (*summed(rows), *code)

    def emitted(self, firings: list[OutputRow]) -> list[OutputRow]:
        """Return the rows from the firings of a key."""
        return firings


def as_emitted(query: Query, firings: Sequence[OutputRow]) -> list[OutputRow]:
    """Return the firings of a key in a micro-batch as the operator emits them. Columnar operators emit the last of each window, in
    any order.
    """
    if query.tells_every_firing:
        return list(firings)
    return sorted({firing[:2]: firing for firing in firings}.values(), key=repr)


def in_order(query: Query, tasks: Sequence[Sequence[Row]]) -> list[Row]:
    """Return the rows in the order of arrival, task by task. Tasks of event-time sessions run together, so their rows are merged by
    position in the key.
    """
    if query.assigner["type"] != "session" or not query.of_time or len(tasks) < 2:
        return [row for task in tasks for row in task]
    ranked = []
    for task in tasks:
        newest: dict[str | None, int] = {}
        for row in task:
            if row.time is not None:
                newest[row.key] = max(row.time, newest.get(row.key, row.time))
            ranked.append((newest.get(row.key, -(2**63)), row))
    return [row for _, row in sorted(ranked, key=lambda one: one[0])]


def windows_of(rows: Sequence[Row], size: int, slide: int, offset: int) -> dict[tuple[Any, int, int], OutputRow]:
    """Return the windows ``[n * slide + offset, n * slide + offset + size)`` of rows, by key and bounds."""
    found: dict[tuple[Any, int, int], list[Row]] = {}
    for row in rows:
        start = (row.at - offset) // slide * slide + offset
        while start > row.at - size:
            found.setdefault((row.key, start, start + size), []).append(row)
            start -= slide
    return {place: summed(some) for place, some in found.items()}


def as_of(rows: Sequence[Row], key: Any, until: int, length: int, slice_: int, offset: int) -> OutputRow:
    """Return the result of a key's rows in the ``length`` before the slice of an instant."""
    end = (until - offset) // slice_ * slice_ + offset
    return summed(row for row in rows if row.key == key and end - length <= row.at < end)
