"""What is simulated: a query, and rows cut into micro-batches. Made from a seed, or written out by hand."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

END = "~"
"""The key of the rows that come last, by which all windows of others are closed."""
FAR = 1_000_000
"""Beyond all windows."""


class Row(NamedTuple):
    """One row of the input.

    Attributes:
        key: may be null.
        time: its event time; None: it has none, and is invalid.
        value: a number, or null; of a query of a user's own what it takes.
        number: no two rows share it: by it rows are found again in results.
        partition: of the source.
    """

    key: str | None
    time: int | None
    value: Any
    number: int
    partition: str


@dataclass(frozen=True)
class MicroBatch:
    """The rows of a micro-batch, as each task of the source has them; and what time it is."""

    tasks: tuple[tuple[Row, ...], ...]
    clock: int = 0

    @property
    def rows(self) -> list[Row]:
        return [row for task in self.tasks for row in task]


@dataclass(frozen=True)
class Settings:
    """What may change when a query is started again.

    Attributes:
        delay: of the watermark.
        lateness: that is allowed.
        code: a number that functions write into their results: another one is another version of their code.
    """

    delay: int = 0
    lateness: int = 0
    code: int = 0


@dataclass(frozen=True)
class Query:
    """A windowed query, in plain words that the definition understands as well.

    Attributes:
        operator: which one runs it.
        assigner, trigger, evictor: as :class:`~panestream.testing.simulation.definition.Definition` takes them.
        function: ``declared`` aggregates; ``list``, ``aggregate`` or ``context``: functions of a user's own.
        settings: of the first run.
        partitions: whether each source partition has a watermark of its own.
        idle: after how long a partition is idle; None: never.
        late, invalid: whether there are such outputs.
        groups: how many key groups there are.
        exchanges: whether the file system can exchange two folders in one step.
    """

    operator: str
    assigner: Mapping[str, Any]
    trigger: Mapping[str, Any] | None = None
    evictor: Mapping[str, Any] | None = None
    function: str = "declared"
    settings: Settings = Settings()
    partitions: bool = False
    idle: int | None = None
    late: bool = False
    invalid: bool = False
    groups: int = 1
    exchanges: bool = True

    @property
    def by_clock(self) -> bool:
        """Whether the clock makes windows fire."""
        return self.assigner.get("time") == "processing" or "processing" in str(self.trigger)

    @property
    def of_event_time(self) -> bool:
        """Whether windows end by event time."""
        return self.assigner.get("time") != "processing" and self.assigner["type"] not in ("global", "count")

    @property
    def of_time(self) -> bool:
        """Whether rows must have an event time."""
        return self.assigner.get("time") != "processing"

    @property
    def closes(self) -> bool:
        """Whether every window is over at some time."""
        return self.assigner["type"] not in ("global", "count")


@dataclass(frozen=True)
class Schedule:
    """A query and what comes."""

    query: Query
    batches: tuple[MicroBatch, ...]

    def closed(self, far: int = FAR, value: Any = None) -> Schedule:
        """The same, and after it what closes all windows: rows far ahead in every partition, and a clock far ahead.

        Args:
            far: how far.
            value: of these rows.
        """
        clock = self.batches[-1].clock if self.batches else 0
        rows = tuple((Row(END, far, value, -1 - place, name),) for place, name in enumerate(("p0", "p1")))
        last = [MicroBatch(rows, clock + far)]
        if self.query.by_clock:
            last += [MicroBatch((), clock + 2 * far), MicroBatch((), clock + 3 * far)]
        return replace(self, batches=(*self.batches, *last)).asked()

    def asked(self) -> Schedule:
        """Without micro-batches that Spark would not run: those without rows, where nothing waits for the clock."""
        return replace(self, batches=tuple(batch for batch in self.batches if batch.rows or self.query.by_clock))


@dataclass
class Chooser:
    """Makes queries and rows by chance."""

    rng: random.Random
    number: int = 0

    def query(self, operator: str) -> Query:
        """A query that this operator runs."""
        rng = self.rng
        assigner, span = self._assigner(operator)
        trigger, evictor = self._trigger(operator, assigner), None
        clock = assigner.get("time") == "processing"
        function = {"accumulating": "list", "row": rng.choice(["declared", "list", "aggregate", "context"])}.get(
            operator, "declared"
        )
        by_time = assigner["type"] not in ("global", "count") and not clock
        lateness = rng.choice([0, 0, 1, span // 2, 2 * span]) if by_time else 0
        if operator in ("accumulating", "row") and assigner["type"] != "count" and rng.random() < 0.25:
            evictor = rng.choice([{"type": "count", "count": rng.randint(1, 3)}, {"type": "time", "size": rng.randint(1, span)}])
            evictor = {**evictor, "after": rng.random() < 0.3 and operator == "row"}
            lateness = 0 if operator == "accumulating" else lateness
        partitions = by_time and rng.random() < 0.4
        return Query(
            operator,
            assigner,
            trigger,
            evictor,
            function,
            Settings(rng.choice([0, 0, span // 2, span]) if by_time else 0, lateness),
            partitions=partitions,
            idle=rng.choice([5, 12]) if partitions and rng.random() < 0.5 else None,
            late=by_time and rng.random() < 0.5,
            invalid=not clock and rng.random() < 0.3,
            groups=rng.choice([1, 2, 2, 3]),
            exchanges=rng.random() < 0.7,
        )

    def _assigner(self, operator: str) -> tuple[dict[str, Any], int]:
        rng = self.rng
        clock = {"time": "processing"} if operator != "accumulating" and rng.random() < 0.25 else {}
        kinds = {"sessions": ["session"], "counts": ["count"], "row": ["tumbling", "sliding", "session", "count", "global"]}
        kind = rng.choice(kinds.get(operator, ["tumbling", "sliding"]))
        if kind == "tumbling":
            size = rng.choice([5, 7, 10])
            return {"type": kind, "size": size, "offset": rng.choice([0, 0, 3]), **clock}, size
        if kind == "sliding":
            size, slide = rng.choice([(10, 5), (10, 4), (7, 5), (3, 10), (8, 2)])
            return {"type": kind, "size": size, "slide": slide, "offset": rng.choice([0, 0, 1]), **clock}, size
        if kind == "session":
            gap = rng.choice([3, 5, 8])
            return {"type": kind, "gap": gap, **clock}, gap
        if kind == "count":
            count, every = rng.choice([1, 2, 3]), rng.choice([None, 1, 2])
            # Where elements are left out between two windows columns do not run it.
            every = count if every is not None and every > count and operator == "counts" else every
            return {"type": kind, "size": count, "slide": every}, 10
        return {"type": "global"}, 10

    def _trigger(self, operator: str, assigner: Mapping[str, Any]) -> dict[str, Any] | None:
        rng, clock = self.rng, assigner.get("time") == "processing"
        if assigner["type"] == "count" or operator in ("sessions", "accumulating"):
            return None
        continuous: dict[str, Any] = {
            "type": f"continuous_{'processing' if clock else 'event'}_time",
            "interval": rng.choice([2, 3, 5]),
        }
        count: dict[str, Any] = {"type": "count", "count": rng.choice([1, 2, 3])}
        if assigner["type"] == "global":
            return rng.choice([count, {"type": "purging", "inner": count}])
        if operator == "panes":
            return rng.choice([None, None, None, continuous])
        chosen = rng.choice([None, None, continuous, count])
        if chosen is not None and rng.random() < 0.3:
            chosen = {"type": "purging", "inner": chosen}
        if assigner["type"] != "session" and chosen is not None and rng.random() < 0.2:
            more = {
                "timeout": rng.choice([1, 4]),
                "reset_on_each_record": rng.random() < 0.5,
                "clear_on_timeout": rng.random() < 0.5,
            }
            chosen = {"type": "processing_timeout", "inner": chosen, **more}
        return chosen

    def batches(self, query: Query) -> tuple[MicroBatch, ...]:
        """Rows that come somewhat out of order, some of them late, from two partitions that fall silent now and then."""
        rng = self.rng
        choices: list[list[str | None]] = [["a"], ["a", "b", None], ["a", "b", "c", "d"]]
        keys = rng.choice(choices)
        disorder, pace, late = rng.choice([0, 4, 10]), rng.choice([1, 3, 6]), rng.choice([0.0, 0.1, 0.3])
        time, clock, made = rng.choice([0, -30, 1000]), rng.choice([1, 1000]), list[MicroBatch]()
        for _ in range(rng.randint(2, 5)):
            silent, tasks = rng.choice([None, None, "p0", "p1"]), []
            for _ in range(rng.choice([0, 1, 1, 2]) if query.by_clock or made else 1):
                rows = []
                for _ in range(rng.randint(1, 5)):
                    time += rng.randint(0, pace)
                    back = rng.randint(0, 40) if rng.random() < late else rng.randint(0, disorder)
                    at = None if query.invalid and rng.random() < 0.1 else time - back
                    self.number += 1
                    partition = {"p0": "p1", "p1": "p0"}.get(silent or "", rng.choice(["p0", "p1"]))
                    rows.append(Row(rng.choice(keys), at, rng.choice([None, 1, 2, -7, 2**40]), self.number, partition))
                tasks.append(tuple(rows))
            clock += rng.choice([1, 3, rng.randint(1, 15)])
            if rng.random() < 0.1:
                time += rng.randint(10, 40)
            made.append(MicroBatch(tuple(tasks), clock))
        return tuple(made)

    def changed(self, query: Query) -> Settings:
        """Settings that another start of the query may have."""
        rng, now = self.rng, query.settings
        if not query.of_event_time:
            return replace(now, code=1)
        lateness = rng.choice([0, 2, 20])
        # Evicted panes know no lateness. A processing timeout fires at every timer, at the end of a former lateness too.
        if (query.evictor is not None and query.operator == "accumulating") or "timeout" in str(query.trigger):
            lateness = now.lateness
        return Settings(rng.choice([0, 3, 15]), lateness, 1)


OPERATORS = ("panes", "accumulating", "sessions", "counts", "row")


def schedule_of(seed: int, number: int, operators: tuple[str, ...] = OPERATORS) -> tuple[Schedule, Settings]:
    """The schedule of a number, and the settings with which it is started again: the same for the same seed and number."""
    chooser = Chooser(random.Random(f"{seed}/{number}"))
    query = chooser.query(operators[number % len(operators)])
    return Schedule(query, chooser.batches(query)), chooser.changed(query)
