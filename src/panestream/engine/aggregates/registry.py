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
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar

from panestream.engine.aggregates.accumulator import Accumulator, RowLayout
from panestream.engine.aggregates.planning import AggregationPlanner
from panestream.errors import InvalidPlanError
from panestream.windowing import aggregates as recipes
from panestream.windowing.aggregates import Aggregate
from panestream.windowing.discovery import module_called

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
