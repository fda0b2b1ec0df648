"""Migration of users' values in saved state by their functions, after the code that stores the values has changed.

The state tables are converted before an operator loads them, so operators are not involved.

The results of new aggregates lack rows in open windows, which :func:`check_added` refuses unless the user knows.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from traceback import TracebackException
from typing import Any, TypeAlias

import pyarrow as pa

from panestream.engine.aggregates import Aggregation
from panestream.engine.aggregates.partial_aggregate import KEEPS
from panestream.engine.aggregates.saved_partials import parts_of
from panestream.engine.aggregates.two_phase import PartialAccumulator
from panestream.engine.kernels.columns import plain
from panestream.engine.kernels.parts import is_missing_data_part, missing_data_of, parts_in
from panestream.engine.kernels.python_values import python_values
from panestream.engine.operators.panes.firing import HIDDEN
from panestream.engine.operators.row.contents import KeepRows, ProcessRows
from panestream.engine.operators.row.operator import DeclaredFunction, row_tables
from panestream.engine.operators.row.spec import RowSpec
from panestream.engine.operators.row.tables import KEYS, WINDOWS, RowTables
from panestream.engine.plan import WindowPlan
from panestream.engine.storage.state_tables import StateTables
from panestream.errors import InvalidPlanError, PanestreamError, PlanMismatchError, StateFormatError
from panestream.windowing.failures import BAR, WindowFunctionError, users_lines


def check_added(header: Mapping[str, Any], plan: WindowPlan, *, allow_incomplete: bool = False) -> None:
    """Raise PlanMismatchError for new aggregates whose results would silently lack rows, unless ``allow_incomplete``."""
    untold = [] if allow_incomplete else untold_results(header, plan)
    if untold:
        first, names = untold[0], ", ".join(map(repr, untold))
        one = len(untold) == 1
        raise PlanMismatchError(
            f"the aggregate{'' if one else 's'} {names} {'is' if one else 'are'} new: of windows that are open already "
            f"{'it knows' if one else 'they know'} the rows from now on only, and nothing in the results says so. Add "
            f"agg.complete({first!r}).alias({first + '_complete'!r})"
            + ("" if one else ", and so on for each,")
            + " which is false in such windows (in a job file: "
            + f'{first}_complete = "complete({first})"); or start with allow_incomplete=True (--allow-incomplete)',
            {f"aggregate {name}": (None, "added") for name in untold},
        )


def untold_results(header: Mapping[str, Any], plan: WindowPlan) -> list[str]:
    """Return the results that lack rows of open windows without an ``agg.complete`` that reports it."""
    made_of = _parts_by_result(plan)
    known, now = set(parts_in(header)), {of for _, parts in made_of for of in parts}
    untold = {of for of in now - known if not is_missing_data_part(of) and missing_data_of(of) not in now}
    hidden = {one.name for one in HIDDEN}
    return [name for name, parts in made_of if name not in hidden and not untold.isdisjoint(parts)]


def _parts_by_result(plan: WindowPlan) -> list[tuple[str, Sequence[str]]]:
    """Return the parts of state that each declared result is made of."""
    aggregation = getattr(plan.operator, "aggregation", None)
    if isinstance(aggregation, Aggregation):
        parts = parts_of(aggregation)
        return [(one.name, [parts[number] for number in one.partials]) for one in aggregation.results]
    declared = getattr(plan.operator, "declared", None)
    if isinstance(declared, DeclaredFunction):
        return [(one.name, [of]) for one, of in zip(declared.aggregates, declared.described, strict=True)]
    return []


ACCUMULATOR, STATE = "accumulator", "state:"
Migrations: TypeAlias = Mapping[str, Callable[[Any], Any]]
"""Functions by the values that they convert: ``accumulator``, or ``state:`` and the name of a descriptor."""
_AGGREGATE = "aggregate with "


def check_migrations(migrate: Migrations, plan: WindowPlan) -> None:
    """Raise InvalidPlanError for functions that would not convert anything, naming the available values."""
    if not isinstance(migrate, Mapping):
        raise InvalidPlanError(f"migrate needs functions by their subject, e.g. migrate={{'accumulator': f}}; got {migrate!r}")
    for name, function in migrate.items():
        if name != ACCUMULATOR and not (isinstance(name, str) and name.startswith(STATE) and len(name) > len(STATE)):
            raise InvalidPlanError(
                f"migrate knows 'accumulator' (of an AggregateFunction, or what reduce keeps) and 'state:' with the name of a "
                f"descriptor, e.g. 'state:seen'; got {name!r}"
            )
        if not callable(function):
            raise InvalidPlanError(
                f"migrate[{name!r}] must be a function of the old value that returns the new, got {function!r}"
            )
        if name == ACCUMULATOR and _accumulating(plan) is None and not _keeps_accumulators(plan):
            raise InvalidPlanError("migrate['accumulator']: this query does not keep accumulators of a user function")
        if name != ACCUMULATOR and not isinstance(plan.operator, RowSpec):
            raise InvalidPlanError(f"migrate[{name!r}]: {plan.operator.name} do not keep states of triggers and functions")


def migrated_identity(saved: Mapping[str, str], migrate: Migrations, plan: WindowPlan) -> dict[str, str]:
    """Return the identity of saved state, in which a migrated aggregate function has the plan's function name."""
    now = plan.identity().get("function", "")
    both = saved.get("function", "").startswith(_AGGREGATE) and now.startswith(_AGGREGATE)
    return {**saved, "function": now} if ACCUMULATOR in migrate and both else dict(saved)


def migrated(saved: StateTables, migrate: Migrations, plan: WindowPlan) -> StateTables:
    """Return a key group's state tables with converted values; ``plan`` must have the user's code.

    Raises:
        WindowFunctionError: a function raised.
    """
    if not migrate:
        return saved
    header = {**saved.header, "identity": migrated_identity(saved.header["identity"], migrate, plan)}
    if isinstance(plan.operator, RowSpec):
        return StateTables(header, _of_rows(saved.tables, migrate, row_tables(plan, plan.operator), plan))
    return _of_columns(StateTables(header, saved.tables), migrate[ACCUMULATOR], plan)


def _of_rows(tables: Mapping[str, pa.Table], migrate: Migrations, texts: RowTables, plan: WindowPlan) -> dict[str, pa.Table]:
    windows, keys = tables[WINDOWS], tables[KEYS]
    if ACCUMULATOR in migrate and _keeps_accumulators(plan):
        column = plain(windows.column("contents"))
        filled = column.is_valid().to_pylist()
        old = texts.values_of(column)
        new = [_made(migrate, ACCUMULATOR, one) if there else None for one, there in zip(old, filled, strict=True)]
        windows = _with(windows, "contents", texts.texts_of(new, "contents", filled))
    for name in ("trigger", "window"):
        windows = _with_states(windows, name, f"{name}:", migrate, texts)
    return {**tables, WINDOWS: windows, KEYS: _with_states(keys, "values", "global:", migrate, texts)}


def _with_states(table: pa.Table, column: str, called: str, migrate: Migrations, texts: RowTables) -> pa.Table:
    found: list[dict[str, Any]] = [one or {} for one in texts.values_of(plain(table.column(column)))]
    for states in found:
        for name in states:
            if STATE + name in migrate:
                states[name] = _made(migrate, STATE + name, states[name])
    return _with(table, column, texts.texts_of(found, called))


def _of_columns(saved: StateTables, function: Callable[[Any], Any], plan: WindowPlan) -> StateTables:
    """Convert the accumulators of a two-phase function."""
    target = _accumulating(plan)
    entries = [dict(one) for one in saved.header["partials"]]
    old = [one for one in entries if KEEPS in one["of"]]
    if target is None or len(old) != 1:
        raise StateFormatError("migrate['accumulator']: the saved state does not hold the accumulators of one function")
    partial, of = target
    tables = dict(saved.tables)
    place = next(name for name, table in tables.items() if set(old[0]["columns"]) <= set(table.column_names))
    table = tables[place]
    columns = [python_values(plain(table.column(name))) for name in old[0]["columns"]]
    names = [name.partition(".")[2] for name in old[0]["columns"]]
    shape = namedtuple("Accumulator", names, rename=True)  # type: ignore[misc]  # noqa: PYI024 (its fields are known now only)
    values: Sequence[Any] = columns[0] if len(columns) == 1 else list(map(shape._make, zip(*columns, strict=True)))
    made = partial.in_columns().encode([_made({ACCUMULATOR: function}, ACCUMULATOR, one) for one in values])
    table = table.drop_columns(old[0]["columns"])
    written = [f"migrated.{name}" for name, _ in partial.columns]
    for name, column in zip(written, made, strict=True):
        table = table.append_column(name, column)
    old[0].update(of=of, columns=written)
    return StateTables({**saved.header, "partials": entries}, {**tables, place: table})


def _made(migrate: Migrations, name: str, old: Any) -> Any:
    try:
        return migrate[name](old)
    except PanestreamError:
        raise
    except Exception as error:
        summary = "".join(TracebackException.from_exception(error, lookup_lines=False).format_exception_only()).strip()
        headline = f"migrate[{name!r}] raised {summary.splitlines()[0]} (at the old value {old!r})"
        raise WindowFunctionError("\n".join([headline, *(BAR + line for line in users_lines(error))])) from error


def _accumulating(plan: WindowPlan) -> tuple[PartialAccumulator, str] | None:
    """Return a plan's accumulator columns and their description, or None."""
    aggregation = getattr(plan.operator, "aggregation", None)
    if not isinstance(aggregation, Aggregation):
        return None
    pairs = zip(aggregation.partial_aggregates, parts_of(aggregation), strict=True)
    return next(((partial, of) for partial, of in pairs if isinstance(partial, PartialAccumulator)), None)


def _keeps_accumulators(plan: WindowPlan) -> bool:
    """Return whether the row operator stores accumulators of a user function."""
    operator = plan.operator
    if not isinstance(operator, RowSpec) or operator.declared is not None:
        return False
    return not operator.row_plan.keeps_elements and not isinstance(operator.row_plan.function, (KeepRows, ProcessRows))


def _with(table: pa.Table, name: str, column: pa.Array) -> pa.Table:
    return table.set_column(table.schema.get_field_index(name), name, column)
