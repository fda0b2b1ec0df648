"""The columns of partials in saved state: found again by another list of aggregates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from panestream.engine.aggregates.aggregation import Aggregation
from panestream.engine.aggregates.partial_aggregate import KEEPS
from panestream.engine.kernels.columns import as_type, numbers, plain
from panestream.engine.kernels.parts import complete_parts, known_from_the_start
from panestream.engine.kernels.storable import typed
from panestream.errors import PlanMismatchError, StateFormatError

Header = Mapping[str, Any]
"""Of saved state: its ``partials`` say of each partial what it is of, and the names of its columns (JSON values)."""


def partials_saved(aggregation: Aggregation) -> list[dict[str, Any]]:
    """What the partial columns of an aggregation are of: goes into the header of saved state."""
    described = []
    for number, (partial, of) in enumerate(zip(aggregation.partial_aggregates, parts_of(aggregation), strict=True)):
        described.append({"of": of, "columns": [f"#{number}.{name}" for name, _ in partial.columns]})
    return described


def parts_of(aggregation: Aggregation) -> list[str]:
    """What each partial is of; functions of users' own that look alike are numbered."""
    seen: Counter[str] = Counter()
    told = []
    for partial in aggregation.partial_aggregates:
        of = partial.described(aggregation.inputs)
        seen[of] += 1
        told.append(of if seen[of] == 1 else f"{of} ({seen[of]})")
    return told


def partials_found(table: pa.Table, header: Header, aggregation: Aggregation) -> list[pa.Array]:
    """The partial columns of an aggregation, of rows that were saved with another list of aggregates, or with the same.

    Partials that are not wanted any more are left out; of those that are new there are no rows yet.

    Args:
        table: saved rows.
        header: of the saved state.
        aggregation: whose partials are wanted.

    Returns:
        The columns of :attr:`Aggregation.partial_schema` after ``rows``.

    Raises:
        PlanMismatchError: a function of the user's own keeps another accumulator now.
        InvalidPlanError: one was added that has no accumulator of no rows.
        StateFormatError: a column is missing, or of another type than it should have.
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
    """Refuses a user's function that is there under the same name, with another accumulator."""
    written, keeps, _ = of.partition(KEEPS)
    other = next((one for one in known if keeps and one.partition(KEEPS)[0] == written), None)
    if other is not None:
        raise PlanMismatchError(
            f"the saved state holds accumulators of a function that has other ones now:\n  {other}  ->  {of}\n"
            "Give the function another name where it is another one; else start with the accumulator that it had",
            {"partials": (other, of)},
        )


__all__ = ["Header", "partials_found", "partials_saved", "parts_of"]
