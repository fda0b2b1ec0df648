"""What must come of a schedule by the definition of windows, micro-batch by micro-batch: nothing here knows the engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from panestream.testing.simulation.definition import Definition
from panestream.testing.simulation.schedule import Query, Row, Schedule, Settings
from panestream.testing.simulation.times import Times


@dataclass
class Expected:
    """What a micro-batch must bring.

    Attributes:
        main: by key the firings in order: window, number of rows, sum, numbers of the rows, version of the code.
        late, invalid: the numbers of these rows, where there is an output for them.
        counts: how many rows are what.
    """

    main: dict[Any, list[tuple[Any, ...]]] = field(default_factory=dict)
    late: list[int] = field(default_factory=list)
    invalid: list[int] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)


def expected_of(schedule: Schedule, settings: Sequence[Settings], restarts: Iterable[int] = ()) -> list[Expected]:
    """What each micro-batch must bring.

    Args:
        schedule: the query and what comes.
        settings: with which each micro-batch is run.
        restarts: before these the query is started again.
    """
    return _Told(schedule, settings, frozenset(restarts)).all()


def open_keys(schedule: Schedule, settings: Sequence[Settings]) -> set[Any]:
    """The keys that have a window at the end."""
    told = _Told(schedule, settings, frozenset())
    told.all()
    return {key for key, windows in told.definition.windows.items() if windows}


class _Told:
    """One run of the definition."""

    def __init__(self, schedule: Schedule, settings: Sequence[Settings], restarts: frozenset[int]) -> None:
        query = schedule.query
        self.schedule, self.query, self.settings, self.restarts = schedule, query, settings, restarts
        self.values = {row.number: row.value for batch in schedule.batches for row in batch.rows}
        spec = {
            "assigner": query.assigner,
            "trigger": query.trigger,
            "evictor": query.evictor,
            "allowed_lateness": settings[0].lateness,
            "late_output": True,
            "function": {"type": "list"},
        }
        self.definition, self.times = Definition(spec), Times(query)
        self.firings: Counter[Any] = Counter()

    def all(self) -> list[Expected]:
        return [self.micro_batch(number) for number in range(len(self.schedule.batches))]

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
            # Where no event time was assigned, the clock stands in for it: evictors look at it.
            time = row.time if self.query.of_time else batch.clock
            definition.step({"element": {"key": row.key, "ts": time, "value": row.number}})
        alive = {(key, w.start, w.end) for key, windows in definition.windows.items() for w in windows}
        before = len(definition.out)
        if rows:
            definition.step({"watermark": self.times.advance(rows, settings.delay, batch.clock)})
        fired, late = definition.taken()
        invalid = [row.number for row in rows if row not in usable]
        counts = {"late_rows": len(late), "outside_rows": definition.outside - outside, "invalid_rows": len(invalid)}
        counts["windowed_rows"] = len(rows) - sum(counts.values())
        main = self._main(fired, before, alive, settings)
        return Expected(main, sorted(e["value"] for e in late), sorted(invalid), counts)

    def _main(self, fired: Sequence[Mapping[str, Any]], before: int, alive: set[Any], settings: Settings) -> dict[Any, Any]:
        query, found = self.query, dict[Any, list[tuple[Any, ...]]]()
        for place, one in enumerate(fired):
            key, ids = one["key"], one["value"]
            self.firings[key] += 1
            # Of sessions that grow within a micro-batch an operator on columns tells what they are when it is over.
            if (
                query.operator == "sessions"
                and query.of_event_time
                and place < before
                and (key, one["start"], one["end"]) not in alive
            ):
                continue
            told = (one["start"], one["end"], len(ids), _total(self.values[id_] for id_ in ids), tuple(sorted(ids)))
            code = {"declared": (), "context": (self.firings[key],)}.get(query.function, (settings.code,))
            found.setdefault(key, []).append((*told, *code))
        return {key: as_emitted(query, firings) for key, firings in found.items()}


def as_emitted(query: Query, firings: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The firings of a key in a micro-batch as the operator emits them: on columns the last of each window, in any order."""
    if query.operator in ("counts", "row"):
        return list(firings)
    return sorted({firing[:2]: firing for firing in firings}.values())


def in_order(query: Query, tasks: Sequence[Sequence[Row]]) -> list[Row]:
    """The rows in the order of arrival: task by task; of sessions side by side, by how far time is in each."""
    if query.assigner["type"] != "session" or len(tasks) < 2:
        return [row for task in tasks for row in task]
    ranked = []
    for task in tasks:
        newest = None
        for row in task:
            if row.time is not None:
                newest = row.time if newest is None else max(newest, row.time)
            ranked.append((newest if newest is not None else -(2**63), row))
    return [row for _, row in sorted(ranked, key=lambda one: one[0])]


def _total(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
