"""Aggregates that a query has and the saved state does not: their results lack rows in open windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from panestream.engine.aggregates import Aggregation
from panestream.engine.aggregates.saved_partials import parts_of
from panestream.engine.kernels.parts import is_missing_data_part, missing_data_of, parts_in
from panestream.engine.operators.panes.firing import HIDDEN
from panestream.engine.operators.row.operator import DeclaredFunction
from panestream.engine.plan import WindowPlan
from panestream.errors import PlanMismatchError


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


__all__ = ["check_added", "untold_results"]
