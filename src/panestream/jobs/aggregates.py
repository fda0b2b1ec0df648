"""``[[aggregate]]`` of a job file: which functions there are, what each takes, and what the library makes of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from panestream.errors import InvalidPlanError
from panestream.jobs.schema import (
    Place,
    Wrong,
    array,
    boolean,
    choice,
    identifier,
    integer,
    kind,
    number,
    reads,
    section,
    shown,
    sql,
)
from panestream.windowing import aggregates as agg


@dataclass(frozen=True, slots=True)
class Argument:
    """What an aggregate function wants in a key of its entry."""

    required: frozenset[str]
    optional: frozenset[str] = frozenset()


_COLUMN = Argument(frozenset({"column"}))
FUNCTIONS: Mapping[str, Argument] = {
    "count": Argument(frozenset(), frozenset({"column"})),
    "sum": _COLUMN,
    "min": _COLUMN,
    "max": _COLUMN,
    "mean": _COLUMN,
    "weighted_mean": Argument(frozenset({"column", "weight"})),
    "var": _COLUMN,
    "stddev": _COLUMN,
    "first": Argument(frozenset({"column"}), frozenset({"ignore_nulls"})),
    "last": Argument(frozenset({"column"}), frozenset({"ignore_nulls"})),
    "min_by": Argument(frozenset({"column", "by"})),
    "max_by": Argument(frozenset({"column", "by"})),
    "arg_min": Argument(frozenset({"columns", "by"})),
    "arg_max": Argument(frozenset({"columns", "by"})),
    "count_distinct": _COLUMN,
    "approx_count_distinct": Argument(frozenset({"column"}), frozenset({"relative_sd"})),
    "approx_quantile": Argument(frozenset({"column", "probability"})),
    "approx_quantiles": Argument(frozenset({"column", "probabilities"})),
    "histogram": Argument(frozenset({"column", "edges"})),
    "collect_list": _COLUMN,
    "top_k": Argument(frozenset({"column", "k"}), frozenset({"by"})),
}
"""The aggregate functions of a job file and the keys each takes."""

_CALL = re.compile(r"\s*([A-Za-z_]\w*)\s*(?:\((.*)\))?\s*", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregateSpec:
    """One ``[[aggregate]]``: a function over the rows of a window.

    Attributes:
        function: one of :data:`FUNCTIONS`.
        alias: the name of the output column; default: function and column.
        column: a column or a SQL expression.
        columns: for arg_min and arg_max: what to keep of the row.
        by: for min_by, max_by, arg_min, arg_max and top_k: the column or expression that is compared.
        weight: for weighted_mean: the column or expression of the weights.
        k: for top_k: how many.
        ignore_nulls: for first and last: whether a null counts as a value.
        relative_sd: for approx_count_distinct: its standard error.
        probability: for approx_quantile: which quantile.
        probabilities: for approx_quantiles: which.
        edges: for histogram: where bins begin.
    """

    function: str = field(metadata=reads(choice(*FUNCTIONS)))
    alias: str | None = field(default=None, metadata=reads(identifier))
    column: str | None = field(default=None, metadata=reads(sql))
    columns: tuple[str, ...] | None = field(default=None, metadata=reads(array(sql)))
    by: str | None = field(default=None, metadata=reads(sql))
    weight: str | None = field(default=None, metadata=reads(sql))
    k: int | None = field(default=None, metadata=reads(integer(1)))
    ignore_nulls: bool | None = field(default=None, metadata=reads(boolean))
    relative_sd: float | None = field(default=None, metadata=reads(number))
    probability: float | None = field(default=None, metadata=reads(number))
    probabilities: tuple[float, ...] | None = field(default=None, metadata=reads(array(number)))
    edges: tuple[float, ...] | None = field(default=None, metadata=reads(array(number)))

    def check(self, place: Place) -> None:
        """Each function has the arguments it takes, and no others."""
        takes = FUNCTIONS[self.function]
        before = len(place.problems)
        for argument in _ARGUMENTS:
            given = getattr(self, argument) is not None
            if argument in takes.required and not given:
                place.note(f"{argument!r} is missing: {self.function} needs it")
            if given and argument not in takes.required | takes.optional:
                users = ", ".join(each for each, may in FUNCTIONS.items() if argument in may.required | may.optional)
                place.at(argument).note(f"{self.function} takes no {argument!r} (it is for {users})")
        if len(place.problems) == before:
            try:
                self.recipe  # noqa: B018 - the library judges the values
            except InvalidPlanError as wrong:
                place.note(str(wrong))

    @property
    def recipe(self) -> agg.Aggregate:
        """What the library calls it.

        Raises:
            InvalidPlanError: an argument is out of its range.
        """
        function: Callable[..., agg.Aggregate] = getattr(agg, self.function)
        given = {each: getattr(self, each) for each in _ARGUMENTS if getattr(self, each) is not None}
        if "columns" in given:
            return function(given["by"], *given["columns"]).alias(self.name)
        positional = [given.pop("column")] if "column" in given else []
        return function(*positional, **given).alias(self.name)

    @property
    def name(self) -> str:
        """The name of the output column."""
        if self.alias is not None:
            return self.alias
        expressions = " ".join([self.column or "", *(self.columns or ())])
        return "_".join([self.function, *re.findall(r"[A-Za-z0-9_]+", expressions)])


_ARGUMENTS = tuple(each.name for each in fields(AggregateSpec) if each.name not in ("function", "alias"))


def aggregates(value: object, place: Place) -> tuple[AggregateSpec, ...]:
    """An array of tables, or a table of alias = "function(column)" or alias = { function = …, … }."""
    one = section(AggregateSpec)
    found, before = [], len(place.problems)
    if isinstance(value, list):
        for index, each in enumerate(value):
            try:
                found.append(one(each, place.at(index)))
            except Wrong:
                continue
    elif isinstance(value, Mapping):
        for alias, each in value.items():
            at = place.at(str(alias))
            try:
                found.append(replace(one(_call(each, at), at), alias=identifier(alias, at)))
            except Wrong:
                continue
    else:
        place.wrong(f'must be an array of tables ([[aggregate]]) or a table (alias = "function(column)"), not {kind(value)}')
    if len(place.problems) > before:
        raise Wrong
    if not found:
        place.wrong('is empty: give at least one, e.g. clicks = "count"')
    names = [each.name for each in found]
    for index, each in enumerate(names):
        if each in names[:index]:
            place.at(index if isinstance(value, list) else each).note(f"there are two output columns {each!r}; set 'alias'")
    if len(place.problems) > before:
        raise Wrong
    return tuple(found)


def _call(value: object, place: Place) -> Mapping[str, Any]:
    """``"sum(price)"`` as ``{"function": "sum", "column": "price"}``; tables stay as they are."""
    if isinstance(value, Mapping):
        return value
    if not isinstance(value, str):
        place.wrong(f"must be a string such as 'sum(price)' or a table, not {kind(value)}: {shown(value)}")
    call = _CALL.fullmatch(value)
    if call is None:
        place.wrong(f"must be a function or function(column), not {shown(value)}")
    argument = (call.group(2) or "").strip()
    return {"function": call.group(1), **({} if argument in ("", "*") else {"column": argument})}
