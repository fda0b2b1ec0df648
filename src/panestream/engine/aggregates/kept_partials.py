"""Partials as results: a tile contains an aggregate's partials, from which any window can be combined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from panestream.engine.aggregates.aggregation import Aggregation
from panestream.engine.aggregates.partial_aggregate import counts_of
from panestream.engine.aggregates.planning import AggregationPlanner
from panestream.engine.aggregates.registry import Implementation, implements
from panestream.engine.aggregates.result import Result
from panestream.engine.aggregates.saved_partials import parts_of
from panestream.engine.kernels.columns import Ints, array_of, as_type, one_chunk, storable, storable_type
from panestream.windowing.aggregates import Aggregate


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


__all__ = ["KeptPartial"]
