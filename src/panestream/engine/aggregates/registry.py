"""Which part of the engine computes which recipe: the one place where an aggregate is looked up.

The modules of this package register what they implement when they are imported. When a recipe is looked up for the first time,
that module is imported which is called as the recipe's own. An aggregate of another package registers itself the same way, when
its own module is imported::

    @implements(Product)
    class ProductImplementation(Implementation[Product]):
        def plan(self, recipe, planner):
            partial = planner.partial(PartialProduct(planner.source(recipe.expr)))
            planner.result(FirstColumn, recipe, pa.float64(), partial)

Only planning asks the registry. What it makes (partial aggregates, results, accumulators) is pickled with the plan by the names
of its classes, so executors import the modules they need by themselves; these must be installed there, or shipped.
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
    """How the engine computes a kind of recipe: on columns, and row by row."""

    null_without_rows: ClassVar[bool] = False
    """Where there is no :meth:`accumulator`: whether of no rows at all the result is null, or what a row of nulls gives."""

    @abstractmethod
    def plan(self, recipe: RecipeT, planner: AggregationPlanner) -> None:
        """Adds to a plan the partial aggregates and the one result of a recipe.

        Raises:
            InvalidPlanError: it cannot be computed from its types.
        """

    def accumulator(self, recipe: RecipeT, layout: RowLayout) -> Accumulator | None:
        """What computes it row by row; None: its rows are kept, and aggregated on columns when a window fires.

        It shares no code with the partial aggregate, so that tests can hold one against the other.
        """
        return None


_REGISTERED: dict[type[Aggregate], Implementation[Any]] = {}


def implements(*classes: type[Aggregate]) -> Callable[[type[ImplementationT]], type[ImplementationT]]:
    """Registers an :class:`Implementation` of some classes of recipes: a decorator.

    Raises:
        InvalidPlanError: another class implements one of them already.
    """

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
    """What computes a recipe.

    Raises:
        InvalidPlanError: it is no recipe, or nothing is registered for its class.
    """
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
    """Imports what computes the recipes of a module of this library's: the module of this package that has the same name."""
    package, _, name = module.rpartition(".")
    if package == recipes.__name__:
        module_called(__name__.rpartition(".")[0], name)


def _full_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
