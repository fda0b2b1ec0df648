"""The outputs of look-backs: a row for each input row, with its columns and the aggregates of the time before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F

from panestream.datastream.events import WindowedEvents
from panestream.datastream.inputs import check_collations, check_results
from panestream.datastream.result import WindowedResult
from panestream.engine.operators.row.contents import AnyWindowFunction
from panestream.engine.plan import RESERVED
from panestream.engine.planner import choose
from panestream.engine.rule import DeclaredAggregates
from panestream.errors import InvalidPlanError, did_you_mean
from panestream.spark.columns import Names, quoted, same, types_of
from panestream.spark.types import arrow_schema, to_arrow
from panestream.windowing.aggregates import Aggregate
from panestream.windowing.assigners.look_back import LookBackWindows, result_name


@dataclass(frozen=True, eq=False, repr=False)
class LookBackResult(WindowedResult):
    """The outputs of a look-back query. ``main`` has a row for each input row."""

    def top(self, n: int, by: str) -> WindowedResult:
        """Refuse, since each row of a look-back has its own window, which leaves only one result to rank."""
        raise InvalidPlanError(
            "top ranks the keys of a window, but in a look-back each row has its own window. Rank the rows of .main with Spark"
        )


def look_back_result(
    windowed: WindowedEvents,
    look_backs: Mapping[str, LookBackWindows],
    aggregates: Sequence[Aggregate],
    inputs: Mapping[str, Column],
    keep: Sequence[str] | None,
    then: AnyWindowFunction | None,
) -> WindowedResult:
    """Return aggregates over look-backs by label, with the input columns ``keep`` (None for all); ``then`` is refused later."""
    keyed, df = windowed.keyed, windowed.keyed.source.df
    names = _kept_names(windowed, keep)
    every = [aggregate.alias(result_name(aggregate.name, label)) for label in look_backs for aggregate in aggregates]
    check_results(df, every, keyed.key_schema.names, names)
    # The input of an aggregate crosses the shuffle once, even if it is also a column of the results.
    texts = [name if name in inputs and same(df, inputs[name], F.col(quoted(name))) else f"column {name}" for name in names]
    kinds = types_of(df, inputs)
    collated = check_collations(aggregates, kinds)
    rows = arrow_schema(df.schema)
    kept = pa.schema([rows.field(name) for name in names])
    types = {text: to_arrow(kind, text) for text, kind in kinds.items()} | dict(zip(texts, kept.types, strict=True))
    request = DeclaredAggregates(aggregates, types, keyed.key_schema, then, columns=tuple(texts), kept=kept)
    operator = choose(windowed.windowing, request)
    columns = {**{text: F.col(quoted(name)) for text, name in zip(texts, names, strict=True)}, **inputs}
    return LookBackResult(windowed, operator, columns, collated, asked=request)


def _kept_names(windowed: WindowedEvents, keep: Sequence[str] | None) -> list[str]:
    """Return the input columns that the results include, without the keys."""
    df, keys = windowed.keyed.source.df, windowed.keyed.key_schema.names
    naming, wanted = Names.of(df.sparkSession), df.columns
    find, find_key, find_reserved = map(naming.finder, (wanted, keys, RESERVED))
    if keep is not None:
        if isinstance(keep, str) or not all(isinstance(name, str) for name in keep):
            raise InvalidPlanError(f"keep needs the names of columns, got {keep!r}")
        wanted = []
        for name in keep:
            name_of_column = find(name)
            if name_of_column is None:
                raise InvalidPlanError(f"keep: there is no column {name!r}; {did_you_mean(name, df.columns)}")
            wanted.append(name_of_column)
    names = [name for name in dict.fromkeys(wanted) if find_key(name) is None]
    reserved = [name for name in names if find_reserved(name) is not None]
    if reserved:
        raise InvalidPlanError(f"the input has a column {reserved[0]!r}, and results may have one, too. Rename it first")
    return names
