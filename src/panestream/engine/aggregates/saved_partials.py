"""The columns of partials in saved state, as found by another list of aggregates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from panestream.engine.aggregates.aggregation import Aggregation
from panestream.engine.aggregates.partial_aggregate import KEEPS
from panestream.engine.kernels.columns import as_type, numbers, plain, typed
from panestream.engine.kernels.parts import complete_parts, known_from_the_start
from panestream.errors import PlanMismatchError, StateFormatError

Header = Mapping[str, Any]
"""The header of saved state; its ``partials`` give the description and column names of each partial (JSON values)."""


def partials_saved(aggregation: Aggregation) -> list[dict[str, Any]]:
    """Return the descriptions of an aggregation's partial columns for the header of saved state."""
    described = []
    for number, (partial, of) in enumerate(zip(aggregation.partial_aggregates, parts_of(aggregation), strict=True)):
        described.append({"of": of, "columns": [f"#{number}.{name}" for name, _ in partial.columns]})
    return described


def parts_of(aggregation: Aggregation) -> list[str]:
    """Return the description of each partial; user functions with equal descriptions are numbered."""
    seen: Counter[str] = Counter()
    told = []
    for partial in aggregation.partial_aggregates:
        of = partial.described(aggregation.inputs)
        seen[of] += 1
        told.append(of if seen[of] == 1 else f"{of} ({seen[of]})")
    return told


def partials_found(table: pa.Table, header: Header, aggregation: Aggregation) -> list[pa.Array]:
    """Return an aggregation's partial columns after ``rows``, for saved rows of the same or other aggregates.

    Partials that are no longer needed are omitted, and new ones do not include earlier rows.

    Raises:
        PlanMismatchError: a user function now has another accumulator.
        InvalidPlanError: a new partial does not have a form for no rows.
        StateFormatError: a column is missing or has the wrong type.
    """
    known = {str(one["of"]): list(one["columns"]) for one in header["partials"]}
    complete = complete_parts(header)
    names = set(table.column_names)
    rows = numbers(plain(table.column("rows")))
    found: list[pa.Array] = []
    for partial, of in zip(aggregation.partial_aggregates, parts_of(aggregation), strict=True):
        if of not in known:
            _check_function(of, known)
            made = partial.without(rows, known=known_from_the_start(complete, of))
            found += [as_type(column, type_) for column, (_, type_) in zip(made, partial.columns, strict=True)]
            continue
        for name, (_, type_) in zip(known[of], partial.columns, strict=True):
            if name not in names:
                raise StateFormatError(f"a table of the saved state lacks the column {name!r} of {of}")
            found.append(typed(plain(table.column(name)), type_))
    return found


def _check_function(of: str, known: Mapping[str, Sequence[str]]) -> None:
    """Refuse a user function with the same name and another accumulator."""
    written, keeps, _ = of.partition(KEEPS)
    other = next((one for one in known if keeps and one.partition(KEEPS)[0] == written), None)
    if other is not None:
        raise PlanMismatchError(
            f"the saved state holds accumulators of a function that has other ones now:\n  {other}  ->  {of}\n"
            "Give the function another name where it is another one; else start with the accumulator that it had",
            {"partials": (other, of)},
        )


__all__ = ["Header", "partials_found", "partials_saved", "parts_of"]
