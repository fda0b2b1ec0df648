"""Operators that follow one another in one query: how a run of the query builds each of them over the results of the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from panestream.engine.savepoint.operators import NamedPlan
from panestream.errors import InvalidPlanError
from panestream.spark.compat import silence_analysis_errors
from panestream.spark.failures import raise_as
from panestream.spark.savepoint.saved import Savepoint


def unchanged(rows: DataFrame) -> DataFrame:
    """Return the rows."""
    return rows


@dataclass(frozen=True)
class ChainRun:
    """What all operators of a query need to run.

    Attributes:
        rows_of: leaves out rows of the first streams that an earlier query has read.
        states: by the name of an operator, the savepoint that its state begins with.
        how: the arguments of :func:`~panestream.spark.operator.dataflow.operate` that are the same for all.
    """

    rows_of: Callable[[DataFrame], DataFrame] = unchanged
    states: Mapping[str, Savepoint] = field(default_factory=dict)
    how: Mapping[str, Any] = field(default_factory=dict)


class ChainedOperator(Protocol):
    """An operator whose results another operator of the same query takes."""

    @property
    def chain(self) -> tuple[NamedPlan, ...]:
        """The operators up to this one, the first one first."""

    @property
    def origin(self) -> DataFrame:
        """The rows before all operators."""

    def results_in(self, run: ChainRun) -> DataFrame:
        """Return the main rows in a run of the whole query."""

    def with_groups(self, groups: Mapping[str, int]) -> ChainedOperator:
        """Return the operator with these numbers of key groups, by the names of operators."""


@dataclass(frozen=True)
class Upstream:
    """The operator before a stream in the same query. ``transform`` makes the rows of the stream from its main rows."""

    operator: ChainedOperator
    transform: Callable[[DataFrame], DataFrame] = unchanged

    def changed(self, change: Callable[[ChainedOperator], ChainedOperator]) -> Upstream:
        """Return the same with a changed operator."""
        return replace(self, operator=change(self.operator))

    def rows_in(self, run: ChainRun) -> DataFrame:
        """Return the rows of the stream in a run; raise InvalidPlanError if they do not have the columns they had."""
        try:
            with silence_analysis_errors():
                return self.transform(self.operator.results_in(run))
        except AnalysisException as error:
            reason = str(error).strip().splitlines()[0]
            refused = "stream: transform uses a Column of another DataFrame than its argument. Write the name or F.col('name')"
            raise_as(InvalidPlanError(f"{refused} ({reason})"), error)
