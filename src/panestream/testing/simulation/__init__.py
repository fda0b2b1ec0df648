"""Windows under Spark's contract without Spark: every crash, repetition and restart of a schedule, the same for a seed."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from panestream.errors import InvalidPlanError
from panestream.testing.elements import Columns, schema_of
from panestream.windowing.aggregates import Aggregate
from panestream.windowing.assigners import WindowAssigner
from panestream.windowing.evictors import Evictor
from panestream.windowing.functions import AggregateFunction, ProcessWindowFunction, ReduceFunction, WindowFunction
from panestream.windowing.instants import Instant, instant
from panestream.windowing.triggers import Trigger

if TYPE_CHECKING:
    from panestream.testing.simulation.own import UserQuery, UserSubject


class SimulationError(AssertionError):
    """A run that did not end as the undisturbed one; says with which rows, and what had happened, as small as it was found."""


@dataclass(frozen=True)
class Simulation:
    """What was simulated.

    Attributes:
        schedules: how many.
        runs: how many runs of them, each with something else that happened to it.
        by_disturbance: the same, by what happened.
    """

    schedules: int
    runs: int
    by_disturbance: dict[str, int]


def simulate(
    assigner: WindowAssigner,
    *,
    trigger: Trigger | None = None,
    evictor: Evictor | None = None,
    allowed_lateness: Instant = 0,
    reduce: ReduceFunction | None = None,
    aggregate: AggregateFunction | Aggregate | Sequence[Aggregate] | None = None,
    apply: WindowFunction | Callable[..., Any] | None = None,
    process: ProcessWindowFunction | Callable[..., Any] | None = None,
    then: WindowFunction | ProcessWindowFunction | Callable[..., Any] | None = None,
    columns: Columns | None = None,
    side_output_late_data: bool = False,
    allow_pickled_state: bool = False,
    rows: Callable[[random.Random], Any] | None = None,
    span: Instant | None = None,
    schedules: int = 20,
    seed: int = 0,
) -> Simulation:
    """Runs windows and a function of yours through crashes, repetitions, second copies and restored checkpoints, without Spark.

    It takes what :class:`~panestream.testing.WindowTestHarness` takes; and look-backs and windows by predicates as
    :class:`~panestream.testing.ColumnTestHarness` does, where a predicate is a column of booleans. Each schedule is rows of
    chance, cut into micro-batches at random. It is run undisturbed, and then once for each moment in which the process may be
    killed, a second copy may begin, or an older checkpoint may come back. Each of these runs must give what the undisturbed one
    gave: nothing lost, nothing twice. Counters must add up, no window may be left in state when all are closed, and where a batch
    is promised to agree, it must.

    Declared aggregates run by the operator that a query would take; functions run by the row operator. Queries of two
    streams (joins, co-groups) cannot be given.

    Args:
        assigner: the windows.
        trigger: when they fire; None: as the assigner says.
        evictor: what is left out when they fire.
        allowed_lateness: how long after its end a window still takes rows.
        reduce: a function of two elements that returns one.
        aggregate: an :class:`AggregateFunction` of yours, or declared aggregates.
        apply: a function of key, window and elements.
        process: a function of key, context and elements.
        then: a function that is given the one result of ``reduce`` or ``aggregate``.
        columns: names and types of the columns of rows; without it an element is whatever ``rows`` makes.
        side_output_late_data: whether late rows come out.
        allow_pickled_state: whether objects of your own classes may rest in state.
        rows: makes one row with a ``random.Random``: a dict where there are columns; None: small values of their types, without
            columns small integers. It must give the same for the same numbers drawn.
        span: about how long windows are, so that rows fall into several; None: as the assigner says, or a minute.
        schedules: how many.
        seed: the same seed gives the same schedules.

    Returns:
        How much was run.

    Raises:
        SimulationError: a run did not end as it must; it is an ``AssertionError``, so that pytest shows it.
        InvalidPlanError: no windows; parts that do not fit together; no values are known for the type of a column.

    >>> import panestream as pst
    >>> done = simulate(
    ...     pst.TumblingEventTimeWindows.of("1 minute"), aggregate=pst.agg.sum("price"), columns={"price": "double"}, schedules=2
    ... )
    >>> done.schedules, done.runs > 100
    (2, True)
    """
    __tracebackhide__ = True  # what went wrong is in the message, not in the simulator
    functions = {"reduce": reduce, "aggregate": aggregate, "apply": apply, "process": process}
    from panestream.engine.query import WindowSpec
    from panestream.testing.column_query import runs_on_columns_only
    from panestream.testing.simulation.own import UserQuery, row_maker
    from panestream.testing.window_query import window_query

    if not isinstance(assigner, WindowAssigner):
        raise InvalidPlanError(
            f"simulate wants windows such as TumblingEventTimeWindows.of('1 hour'), got {assigner!r}. (It has no place for a "
            "second stream: a join cannot be simulated.)"
        )
    lateness = instant(allowed_lateness, "allowed lateness")
    window = WindowSpec(assigner, trigger, evictor, lateness, pickled_state=allow_pickled_state)
    declared = () if isinstance(aggregate, AggregateFunction) or aggregate is None or then is not None else aggregate
    # Declared aggregates are of columns, even of none.
    schema = schema_of(columns or {}) if declared or columns is not None else None
    by_rows = not declared or not runs_on_columns_only(assigner) or any((reduce, apply, process))
    query = window_query(window, functions, then, columns, side_output_late_data) if by_rows else None

    length = _span_of(assigner) if span is None else instant(span, "span")
    user_query = UserQuery(
        window,
        query,
        (declared,) if isinstance(declared, Aggregate) else tuple(declared),
        schema,
        side_output_late_data,
        rows or row_maker(schema),
        length,
        (0, length // 2, 6 * length),
    )
    return _simulated(user_query, schedules, seed)


def _span_of(assigner: WindowAssigner) -> int:
    for name in ("size", "gap"):
        value = getattr(assigner, name, None)
        if isinstance(value, int):
            return max(1, value)
    return 60_000_000


def _simulated(user_query: UserQuery, schedules: int, seed: int) -> Simulation:
    __tracebackhide__ = True
    from panestream.testing.simulation.explore import KINDS, SAVEPOINT, BrokenError, Explorer
    from panestream.testing.simulation.own import UserSubject

    if schedules < 1:
        raise InvalidPlanError(f"simulate wants at least one schedule, got {schedules!r}")
    kinds = [kind for kind in KINDS if kind != SAVEPOINT or user_query.aggregates]
    runs: Counter[str] = Counter()
    for number in range(schedules):
        schedule = user_query.schedule(seed, number)
        own = UserSubject(user_query, user_query.closed(schedule))
        explorer = Explorer(own, None, kinds)
        found = f"seed {seed}, schedule {number}"
        error = None
        try:
            explorer.explore()
        except BrokenError as broke:
            error = broke
        if error is not None:  # outside of the handler, so that what smaller schedules raise does not quote this one
            from panestream.testing.simulation.failure_report import cause_of, failure_report

            raise SimulationError(failure_report(user_query, schedule, error, found)) from cause_of(error)
        runs += explorer.runs
        wrong = _beside_batch(own, explorer)
        if wrong:
            from panestream.testing.simulation.failure_report import rows_of

            raise SimulationError(f"{found}: {wrong}\n{rows_of(user_query, schedule)}")
    return Simulation(schedules, runs.total(), dict(runs))


def _beside_batch(own: UserSubject, explorer: Any) -> str:
    from panestream.testing.simulation.judge import READER
    from panestream.testing.simulation.process import places_of

    last = explorer.after[max(explorer.after)]
    read = places_of(own.job, last, READER, "main")[0].read()
    late = sum(counted["late_rows"] for counted in explorer.judge.counts.values())
    return own.batch_agrees([row for number in sorted(read) for row in read[number]], late)


__all__ = ["Simulation", "SimulationError", "simulate"]
