"""Saved partials: their columns in saved state, as found by another list of aggregates, and partials as results.

A tile contains an aggregate's partials, from which any window can be combined.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from panestream.engine.aggregates.aggregation import Aggregation
from panestream.engine.aggregates.partial_aggregate import KEEPS, counts_of
from panestream.engine.aggregates.planning import AggregationPlanner, Result
from panestream.engine.aggregates.registry import Implementation, implements
from panestream.engine.kernels.columns import Ints, array_of, as_type, numbers, one_chunk, plain, storable, storable_type, typed
from panestream.engine.kernels.parts import complete_parts, known_from_the_start
from panestream.errors import PlanMismatchError, StateFormatError
from panestream.windowing.aggregates import Aggregate

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
            f"the saved state holds accumulators of a function that has changed:\n  {other}  ->  {of}\n"
            "Rename the function if it is a new one; otherwise start with its old accumulator",
            {"partials": (other, of)},
        )


@dataclass(frozen=True, slots=True, repr=False)
class KeptPartial(Aggregate):
    """One partial of aggregates, as a struct of its columns; ``of`` is the partial's description."""

    of: str
    aggregates: tuple[Aggregate, ...]

    function: ClassVar[str] = "kept_partial"
    plain_arguments: ClassVar[bool] = False
    merge_rule: ClassVar[str] = "partials are merged, and go out as they are"

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(text for one in self.aggregates for text in one.inputs))

    def __repr__(self) -> str:
        return f"partial {self.of}"


@implements(KeptPartial)
class KeptPartialImplementation(Implementation[KeptPartial]):
    """Plans one partial with its columns as the result; stores rows when run row by row."""

    def plan(self, recipe: KeptPartial, planner: AggregationPlanner) -> None:
        alone = Aggregation.build(recipe.aggregates, planner.types, pa.schema([]))
        partial = alone.partial_aggregates[parts_of(alone).index(recipe.of)]
        # A partial refers to expressions by number, so the numbers must be the same here.
        if [planner.source(text) for text in alone.inputs] != list(range(len(alone.inputs))):
            raise ValueError("partials are kept of one list of aggregates, and of no others beside it")
        kept = pa.struct([pa.field(name, storable_type(type_)) for name, type_ in partial.columns])
        planner.result(KeptResult, recipe, kept, planner.partial(partial), counts=partial.counts)


@dataclass(frozen=True, slots=True)
class KeptResult(Result):
    """The columns of a partial, with types that Spark has and without references to other columns.

    ``counts`` is the column in which null means all rows, or None.
    """

    counts: str | None

    takes_partials: ClassVar[bool] = True

    def finish(self, partials: Sequence[Sequence[pa.Array]], rows: Ints) -> pa.Array:
        names = [field.name for field in self.type]
        told = [
            array_of(counts_of(column, rows), pa.int64()) if name == self.counts else column
            for name, column in zip(names, partials[0], strict=True)
        ]
        table = storable(pa.Table.from_arrays(told, names=names))
        columns = [as_type(one_chunk(column), field.type) for column, field in zip(table.columns, self.type, strict=True)]
        return pa.StructArray.from_arrays(columns, fields=list(self.type))
