"""Random queries and rows, the same for the same seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from panestream.testing.simulation.schedule import MicroBatch, Row, Settings
from tests.testing.simulation.campaign.queries import HOWS, Query, QuerySchedule

OPERATORS = (
    "panes",
    "accumulating",
    "sessions",
    "counts",
    "row",
    "joins",
    "co-groups",
    "intervals",
    "look-backs",
    "predicates",
    "tiles",
)
"""The simulated operators, and kinds of queries on them with a separate definition."""
BY_OWN_TIME = ("intervals", "look-backs", "predicates")
"""Operators without an allowed lateness."""


@dataclass
class Chooser:
    """Generates random queries and rows."""

    rng: random.Random
    number: int = 0

    def query(self, operator: str) -> Query:
        """Return a query that this operator runs."""
        made: dict[str, Callable[[], Query]] = {
            "joins": self._join,
            "co-groups": self._co_group,
            "intervals": self._intervals,
            "look-backs": self._look_backs,
            "predicates": self._predicates,
            "tiles": self._tiles,
        }
        return made[operator]() if operator in made else self._windowed(operator)

    def _windowed(self, operator: str) -> Query:
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

    def _join(self) -> Query:
        rng = self.rng
        query = self._of_two(self._windowed(rng.choice(["panes", "panes", "sessions"])), "joins")
        exact = query.of_event_time and query.trigger is None and rng.random() < 0.15
        return replace(query, function="pairs", how=rng.choice(HOWS), exact=exact)

    def _co_group(self) -> Query:
        rng = self.rng
        assigner, span = self._assigner(rng.choice(["accumulating", "accumulating", "panes", "sessions"]))
        clock = assigner.get("time") == "processing"
        trigger = {"type": "count", "count": rng.choice([1, 2, 3])} if rng.random() < 0.2 else None
        query = self._of_two(self._timed("co-groups", assigner, span), "co-groups")
        lateness = 0 if clock else rng.choice([0, 0, span // 2, 2 * span])
        settings = replace(query.settings, lateness=lateness)
        return replace(query, trigger=trigger, function=rng.choice(["lists", "tables"]), settings=settings)

    def _of_two(self, query: Query, operator: str) -> Query:
        """Add a second stream to a query. One of the two streams may fall silent or be further behind."""
        rng, by_time = self.rng, query.of_event_time
        idle = rng.choice([5, 12]) if by_time and rng.random() < 0.3 else None
        return replace(query, operator=operator, idle=idle, behind=rng.choice([0, 0, 4, 15]) if by_time else 0)

    def _intervals(self) -> Query:
        rng, span = self.rng, self.rng.choice([4, 10])
        lower = rng.choice([-span, -span // 2, -1, 0, 1, span // 3])
        assigner = {"type": "interval", "lower": lower, "upper": lower + rng.choice([0, 1, span // 2, span])}
        query = self._of_two(self._timed("intervals", assigner, span), "intervals")
        return replace(query, function="pairs", how=rng.choice(HOWS[:4]))

    def _look_backs(self) -> Query:
        rng, span = self.rng, self.rng.choice([4, 10])
        sizes, following = [0, 1, span // 3, span, 3 * span], [0, 0, 0, 1, span // 2]
        some = [(rng.choice(sizes), rng.choice(following)) for _ in range(rng.randint(1, 2))]
        return self._timed("look-backs", {"type": "look_back", "of": some}, span)

    def _predicates(self) -> Query:
        rng, span = self.rng, self.rng.choice([4, 10])
        begins, ends = rng.choice([[1], [1, 2**40]]), rng.choice([[2], [2, -7], [1]])
        start, end = rng.choice([(begins, None), (None, ends), (begins, ends)])
        assigner = {"type": "predicates", "start": start, "end": end, "gap": rng.choice([None, 1, span // 2, span, 3 * span])}
        return self._timed("predicates", assigner, span)

    def _tiles(self) -> Query:
        rng = self.rng
        size = rng.choice([3, 5, 10])
        query = self._timed("tiles", {"type": "tumbling", "size": size, "offset": rng.choice([0, 0, 2])}, size)
        return replace(query, settings=replace(query.settings, lateness=rng.choice([0, 0, size // 2, 2 * size])))

    def _timed(self, operator: str, assigner: Mapping[str, Any], span: int) -> Query:
        """Return a query in event time, unless its windows are in processing time. It emits nothing twice."""
        rng, by_time = self.rng, assigner.get("time") != "processing"
        partitions = by_time and rng.random() < 0.4
        return Query(
            operator,
            assigner,
            settings=Settings(rng.choice([0, 0, span // 2, span]) if by_time else 0),
            partitions=partitions,
            idle=rng.choice([5, 12]) if partitions and rng.random() < 0.5 else None,
            late=by_time and rng.random() < 0.5,
            invalid=by_time and rng.random() < 0.3,
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
            # Columnar operators do not run count windows that skip elements between two windows.
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
        """Return rows that are somewhat out of order, with some late rows, from partitions that fall silent now and then."""
        rng, sources = self.rng, query.sources
        choices: list[list[str | None]] = [["a"], ["a", "b", None], ["a", "b", "c", "d"]]
        keys = rng.choice(choices)
        disorder, pace, late = rng.choice([0, 4, 10]), rng.choice([1, 3, 6]), rng.choice([0.0, 0.1, 0.3])
        time, clock, made = rng.choice([0, -30, 1000]), rng.choice([1, 1000]), list[MicroBatch]()
        for _ in range(rng.randint(2, 5) + query.of_two):
            silent, tasks = rng.choice([None, None, *sources]), []
            for _ in range(rng.choice([0, 1, 1, 2]) if query.by_clock or made else 1):
                rows = []
                for _ in range(rng.randint(1, 5)):
                    time += rng.randint(0, pace)
                    back = rng.randint(0, 40) if rng.random() < late else rng.randint(0, disorder)
                    at = None if query.invalid and rng.random() < 0.1 else time - back
                    self.number += 1
                    drawn = rng.choice(sources)
                    partition = drawn if drawn != silent else next(name for name in sources if name != silent)
                    rows.append(Row(rng.choice(keys), at, rng.choice([None, 1, 2, -7, 2**40]), self.number, partition))
                tasks.append(tuple(rows))
            clock += rng.choice([1, 3, rng.randint(1, 15)])
            if rng.random() < 0.1:
                time += rng.randint(10, 40)
            made.append(MicroBatch(tuple(tasks), clock))
        return tuple(made)

    def changed(self, query: Query) -> Settings:
        """Return settings that another start of the query may have."""
        rng, now = self.rng, query.settings
        if not query.of_event_time:
            return replace(now, code=1)
        lateness = rng.choice([0, 2, 20])
        # Evicted panes do not support lateness. A processing timeout fires at every timer, including the end of a former
        # lateness.
        evicts = query.evictor is not None and query.operator == "accumulating"
        if evicts or "timeout" in str(query.trigger) or query.operator in BY_OWN_TIME:
            lateness = now.lateness
        return Settings(rng.choice([0, 3, 15]), lateness, 1)


def schedule_of(seed: int, number: int, operators: tuple[str, ...] = OPERATORS) -> tuple[QuerySchedule, Settings]:
    """Return the schedule of a number, and the settings of its restart. Both depend on the seed and the number only."""
    chooser = Chooser(random.Random(f"{seed}/{number}"))
    query = chooser.query(operators[number % len(operators)])
    return QuerySchedule(query, chooser.batches(query)), chooser.changed(query)
