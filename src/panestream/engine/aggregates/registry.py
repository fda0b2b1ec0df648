"""Which part of the engine computes which recipe: the one place where an aggregate is looked up.

The modules of this package register what they implement when they are imported; the first look-up of a recipe that nobody has
registered imports them all. An aggregate of another package registers itself the same way, when its own module is imported::

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
from functools import cache
from typing import Any, ClassVar, Generic, TypeVar

from panestream.engine.aggregates.accumulator import Accumulator, RowLayout
from panestream.engine.aggregates.planning import AggregationPlanner
from panestream.errors import InvalidPlanError
from panestream.windowing.aggregates import Aggregate
from panestream.windowing.discovery import modules_of

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


def implements(*recipes: type[Aggregate]) -> Callable[[type[ImplementationT]], type[ImplementationT]]:
    """Registers an :class:`Implementation` of some classes of recipes: a decorator.

    Raises:
        InvalidPlanError: another class implements one of them already.
    """

    def register(implementation: type[ImplementationT]) -> type[ImplementationT]:
        for recipe in recipes:
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
        _import_built_in()
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


@cache
def _import_built_in() -> None:
    from panestream.engine import aggregates

    modules_of(aggregates.__name__, aggregates.__path__)


def _full_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
