"""Simulates windows under Spark's contract without Spark: all crashes, repetitions and restarts of a seeded schedule."""

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
from panestream.windowing.time import Instant, instant
from panestream.windowing.triggers import Trigger

if TYPE_CHECKING:
    from panestream.testing.simulation.own import UserQuery, UserSubject


class SimulationError(AssertionError):
    """A run whose result differs from the undisturbed run; the message has the rows and events, reduced if possible.

    >>> import panestream as pst
    >>> try:
    ...     done = pst.testing.simulate(pst.tumbling("1 minute"), reduce=max, schedules=1)
    ... except SimulationError as error:
    ...     print(error)
    """


@dataclass(frozen=True)
class Simulation:
    """The extent of a simulation.

    Attributes:
        schedules: the number of schedules.
        runs: the number of runs, each with another disturbance.
        by_disturbance: the number of runs by kind of disturbance.

    Examples:
        >>> import panestream as pst
        >>> done = pst.testing.simulate(pst.tumbling("1 minute"), reduce=max, schedules=2)
        >>> done.schedules, done.runs == sum(done.by_disturbance.values())
        (2, True)
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
    """Run your windows and function through crashes, repetitions, second copies and restored checkpoints, without Spark.

    Queries are as in :class:`~panestream.testing.WindowTestHarness`, look-backs, rolling and predicate windows as in
    :class:`~panestream.testing.ColumnTestHarness` (a predicate is a column of booleans). Queries of two streams (joins,
    co-groups) are not supported. Declared aggregates run on the operator that a query would use, functions on the row operator.

    Each schedule has random rows in random micro-batches. It runs undisturbed, and then once for each moment in which the
    process may be killed, a second copy may start, or an older checkpoint may be restored. Each run must give the results of the
    undisturbed one, without lost or duplicate rows. Counters must add up, and closed windows must not leave state. A batch of
    the same rows must agree if this is promised.

    Args:
        assigner: the windows.
        trigger: decides when windows fire, by default as in the assigner.
        evictor: removes elements when windows fire.
        allowed_lateness: how long after its end a window accepts rows.
        reduce: a function of two elements that returns one.
        aggregate: your :class:`AggregateFunction`, or declared aggregates.
        apply: a function of key, window and elements.
        process: a function of key, context and elements.
        then: a function of the one result of ``reduce`` or ``aggregate``.
        columns: names and types of the columns of rows. Without it, elements are the values that ``rows`` returns.
        side_output_late_data: whether late rows are emitted.
        allow_pickled_state: whether the state may contain objects of your own classes.
        rows: creates a row (a dict if there are columns) from a ``random.Random``, deterministically. By default rows have
            small values of the column types, or small integers without columns.
        span: the approximate length of windows, by which rows fall into several, by default from the assigner or a minute.
        schedules: the number of schedules.
        seed: the same seed gives the same schedules.

    Returns:
        The extent of the simulation.

    Raises:
        SimulationError: a run broke a promise. As an ``AssertionError``, it is shown by pytest.
        InvalidPlanError: the windows are missing, arguments do not fit each other, or a column type is not supported.

    >>> import panestream as pst
    >>> done = simulate(
    ...     pst.TumblingEventTimeWindows.of("1 minute"), aggregate=pst.agg.sum("price"), columns={"price": "double"}, schedules=2
    ... )
    >>> done.schedules, done.runs > 100
    (2, True)
    """
    __tracebackhide__ = True  # the message contains the error; the simulator's code does not help
    functions = {"reduce": reduce, "aggregate": aggregate, "apply": apply, "process": process}
    from panestream.engine.plan import WindowQuery
    from panestream.testing.column_query import runs_on_columns_only
    from panestream.testing.harness_query import harness_query
    from panestream.testing.simulation.own import UserQuery, row_maker

    if not isinstance(assigner, WindowAssigner):
        raise InvalidPlanError(
            f"simulate needs windows such as TumblingEventTimeWindows.of('1 hour'), got {assigner!r}. (It does not support "
            f"joins of two streams.)"
        )
    lateness = instant(allowed_lateness, "allowed lateness")
    window = WindowQuery(assigner, trigger, evictor, lateness, pickled_state=allow_pickled_state)
    declared = () if isinstance(aggregate, AggregateFunction) or aggregate is None or then is not None else aggregate
    # Declared aggregates always use columns, even an empty list of them.
    schema = schema_of(columns or {}) if declared or columns is not None else None
    by_rows = not declared or not runs_on_columns_only(assigner) or any((reduce, apply, process))
    query = harness_query(window, functions, then, columns, side_output_late_data) if by_rows else None

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
    for name in ("size", "gap", "longest"):
        value = getattr(assigner, name, None)
        if isinstance(value, int):
            return max(1, value)
    return 60_000_000


def _simulated(user_query: UserQuery, schedules: int, seed: int) -> Simulation:
    __tracebackhide__ = True
    from panestream.testing.simulation.explore import KINDS, SAVEPOINT, BrokenError, Explorer
    from panestream.testing.simulation.own import UserSubject

    if schedules < 1:
        raise InvalidPlanError(f"simulate needs at least one schedule, got {schedules!r}")
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
        if error is not None:  # outside the handler, so that errors of smaller schedules do not have this one as their context
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
