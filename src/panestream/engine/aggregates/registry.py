"""The registry of aggregate implementations, by recipe class.

The modules of this package register their implementations when they are imported. The first lookup of a recipe imports the module
with the same name as the recipe's module. An aggregate of another package registers itself when its own module is imported::

    @implements(Product)
    class ProductImplementation(Implementation[Product]):
        def plan(self, recipe, planner):
            partial = planner.partial(PartialProduct(planner.source(recipe.expr)))
            planner.result(FirstColumn, recipe, pa.float64(), partial)

Only planning uses the registry. The planned objects (partial aggregates, results, accumulators) are pickled by class name, so
executors import the necessary modules themselves; these must be installed there or shipped.

Accumulators run aggregates row by row in plain Python. They are slower than the columnar kernels and independent of them, so that
tests can compare the two. Their states contain only plain values, which state can store directly.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import pyarrow as pa

from panestream.engine.aggregates.planning import AggregationPlanner
from panestream.errors import InvalidPlanError
from panestream.windowing import aggregates as recipes
from panestream.windowing.aggregates import Aggregate
from panestream.windowing.discovery import module_called

Row = tuple[Any, ...]
"""The values of the aggregates' inputs and, last, the event time."""


class Accumulator(ABC):
    """One aggregate without its state. :meth:`add` and :meth:`merge` may change and return their arguments."""

    def start(self) -> Any:
        """Return the state of no rows."""
        return None

    @abstractmethod
    def add(self, state: Any, row: Row) -> Any:
        """Return the state with one more row."""

    @abstractmethod
    def merge(self, a: Any, b: Any) -> Any:
        """Merge two states; the rows of ``a`` count as earlier."""

    @abstractmethod
    def result(self, state: Any) -> Any:
        """Return the user's result. The state remains in use, so its lists must not be returned."""


class ValueOrder:
    """The order of values of a type: NaN is larger than any other number."""

    def __init__(self, type_: pa.DataType) -> None:
        self._floats = pa.types.is_floating(type_)

    def less(self, a: Any, b: Any) -> bool:
        if self._floats and (math.isnan(a) or math.isnan(b)):
            return not math.isnan(a)  # NaN is the larger number, and two NaN are equal
        return bool(a < b)


@dataclass(frozen=True, slots=True)
class RowLayout:
    """Places and types of expressions' values in a row, and the types of the results by name."""

    places: Mapping[str, int]
    types: Mapping[str, pa.DataType]
    results: Mapping[str, pa.DataType]

    time: ClassVar[int] = -1
    """The place of the event time: the last, because columns used only by the assigner may follow the inputs."""

    def at(self, expr: str) -> int:
        return self.places[expr]

    def type_of(self, expr: str) -> pa.DataType:
        """Return the type of an expression; for a dictionary, the type of its values."""
        type_ = self.types[expr]
        return type_.value_type if pa.types.is_dictionary(type_) else type_

    def result_type(self, aggregate: Aggregate) -> pa.DataType:
        return self.results[aggregate.name]


RecipeT = TypeVar("RecipeT", bound=Aggregate)
ImplementationT = TypeVar("ImplementationT", bound="Implementation[Any]")


class Implementation(ABC, Generic[RecipeT]):
    """The execution of a kind of recipe, on columns and row by row."""

    null_without_rows: ClassVar[bool] = False
    """Without :meth:`accumulator`, True makes the result of no rows null, rather than the result of a row of nulls."""

    @abstractmethod
    def plan(self, recipe: RecipeT, planner: AggregationPlanner) -> None:
        """Add a recipe's partial aggregates and its result to a plan; raise InvalidPlanError for unsupported types."""

    def accumulator(self, recipe: RecipeT, layout: RowLayout) -> Accumulator | None:
        """Return the row-by-row accumulator, or None to store rows and aggregate them as columns when a window fires.

        It must not share code with the partial aggregate, so that tests can compare the two.
        """
        return None


_REGISTERED: dict[type[Aggregate], Implementation[Any]] = {}


def implements(*classes: type[Aggregate]) -> Callable[[type[ImplementationT]], type[ImplementationT]]:
    """Register an :class:`Implementation` for recipe classes (decorator); raise InvalidPlanError if one has another already."""

    def register(implementation: type[ImplementationT]) -> type[ImplementationT]:
        for recipe in classes:
            known = _REGISTERED.get(recipe)
            if known is not None and _full_name(type(known)) != _full_name(implementation):
                raise InvalidPlanError(
                    f"{_full_name(implementation)} cannot implement {_full_name(recipe)}, which {_full_name(type(known))} does "
                    "already; give your aggregate a recipe class of its own"
                )
            _REGISTERED[recipe] = implementation()
        return implementation

    return register


def implementation_of(recipe: Aggregate) -> Implementation[Any]:
    """Return the implementation of a recipe, or raise InvalidPlanError if it is not a recipe or is not implemented."""
    found = _REGISTERED.get(type(recipe))
    if found is None:
        _import_called_as(type(recipe).__module__)
        found = _REGISTERED.get(type(recipe))
    if found is not None:
        return found
    if isinstance(recipe, Aggregate):
        name = type(recipe).__name__
        raise InvalidPlanError(
            f"nothing computes {recipe!r}: no class is decorated with @implements({name}), or its module is not imported; "
            f"import it in the module of {_full_name(type(recipe))}"
        )
    raise InvalidPlanError(f"{recipe!r} is not a declared aggregate; take one of panestream.agg, e.g. agg.sum('price')")


def _import_called_as(module: str) -> None:
    """Import the module of this package with the same name as a library recipe's module."""
    package, _, name = module.rpartition(".")
    if package == recipes.__name__:
        module_called(__name__.rpartition(".")[0], name)


def _full_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
