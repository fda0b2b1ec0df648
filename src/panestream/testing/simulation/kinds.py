"""What a simulated query is by its operator: what runs it, and what it means."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from panestream.testing.simulation.disk import Told
from panestream.testing.simulation.engines import PlanEngine
from panestream.testing.simulation.meaning.base import Meaning
from panestream.testing.simulation.meaning.intervals import OfIntervals
from panestream.testing.simulation.meaning.joins import OfCoGroups, OfJoins
from panestream.testing.simulation.meaning.look_backs import OfLookBacks
from panestream.testing.simulation.meaning.predicates import OfPredicates
from panestream.testing.simulation.meaning.windows import OfWindows
from panestream.testing.simulation.near_rows import look_back_engine, predicate_engine
from panestream.testing.simulation.queries import plan_of
from panestream.testing.simulation.schedule import Query, Settings
from panestream.testing.simulation.tiles import tiles_engine
from panestream.testing.simulation.two_streams import engine_of_two


def _engine_of_windows(query: Query, settings: Settings, groups: int) -> PlanEngine:
    return PlanEngine(plan_of(query, settings, groups))


@dataclass(frozen=True)
class Kind:
    """A kind of queries.

    Attributes:
        meaning: their definition.
        engine: what runs one.
    """

    meaning: type[Meaning] = OfWindows
    engine: Callable[[Query, Settings, int], PlanEngine] = _engine_of_windows


WINDOWS = Kind()
KINDS_OF_QUERIES = {
    "joins": Kind(OfJoins, engine_of_two),
    "co-groups": Kind(OfCoGroups, engine_of_two),
    "intervals": Kind(OfIntervals, engine_of_two),
    "look-backs": Kind(OfLookBacks, look_back_engine),
    "predicates": Kind(OfPredicates, predicate_engine),
    "tiles": Kind(OfWindows, tiles_engine),
}


def kind_of(query: Query) -> Kind:
    """Of a query; of windows that nothing else is said about their own."""
    return KINDS_OF_QUERIES.get(query.operator, WINDOWS)


def row_told(row: Told) -> Told:
    """A row of results in a form that is the same where it means the same: lists have no order."""
    return tuple(tuple(sorted(value)) if isinstance(value, tuple) else value for value in row)


__all__ = ["Kind", "kind_of", "row_told"]
