"""The operators of one query, by their names: in a checkpoint, in a savepoint, and in the query that starts from it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from panestream.engine.plan import KEY_GROUPS, WindowPlan, check_identity, stable_repr
from panestream.errors import InvalidPlanError, PlanMismatchError

OPERATOR_NAME = re.compile(r"[\w.-]{1,100}", re.ASCII)
"""The names that operators may have. They are shown, but never used as paths."""


@dataclass(frozen=True, slots=True)
class NamedPlan:
    """An operator of a query. The name is empty for the operator of a savepoint that does not name its only one."""

    name: str
    plan: WindowPlan

    def __str__(self) -> str:
        return f"{self.name!r} ({stable_repr(self.plan.assigner)})"


def default_name(number: int) -> str:
    """Return the name of the operator with this number, counted from the input, from 1.

    >>> default_name(1)
    'operator-1'
    """
    return f"operator-{number}"


def check_names(names: Sequence[str]) -> None:
    """Raise InvalidPlanError if two operators of a query have one name."""
    twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if twice is not None:
        raise InvalidPlanError(f"two operators of the query are called {twice!r}: give each its own .uid(...)")


def match_operators(saved: Sequence[NamedPlan], query: Sequence[NamedPlan], *, may_drop: bool) -> dict[str, str]:
    """Return the name in the savepoint of each operator of a query that the savepoint has, by the name in the query.

    The state of other operators begins empty. A savepoint of one operator without a name is of the operator with the default name
    of the first, or else of the first, whatever its name is.

    Raises:
        PlanMismatchError: the query lacks an operator of the savepoint, unless ``may_drop``.
    """
    names = [each.name for each in query]
    if len(saved) == 1 and not saved[0].name:
        return {default_name(1) if default_name(1) in names else names[0]: ""}
    gone = [each for each in saved if each.name not in names]
    if gone and not may_drop:
        raise PlanMismatchError(
            f"the savepoint has state of {_listed(gone)}, and the query has no operator of that name, only "
            f"{_listed(query)}. Give the operator that continues "
            f"it this name, .uid({gone[0].name!r}); if it was removed, start with allow_non_restored_state=True "
            f"(--allow-non-restored-state), which drops its state",
            {f"operator {each.name}": ("saved", None) for each in gone},
        )
    return {each.name: each.name for each in saved if each.name in names}


def _listed(operators: Sequence[NamedPlan]) -> str:
    return ", ".join(map(str, operators))


def check_chain(recorded: Sequence[Mapping[str, Any]], query: Sequence[NamedPlan], where: str) -> None:
    """Raise PlanMismatchError unless a checkpoint's operators before the last, ``recorded``, are those of a query.

    They are compared in their order, as Spark does. Names may change. If a checkpoint or ``query`` does not have them, Spark and
    the state still refuse other operators.
    """
    if not recorded or not query:
        return
    if len(recorded) != len(query):
        raise PlanMismatchError(
            f"{where} belongs to a query with {len(recorded) + 1} operators, and this query has {len(query) + 1}. Start the old "
            f"query, or on a new checkpoint from a savepoint of the old one"
        )
    for there, each in zip(recorded, query, strict=True):
        check_identity(there["identity"], each.plan.identity(), f"the state of the operator {each.name!r} in {where}")


def recorded_groups(recorded: Sequence[Mapping[str, Any]], query: Sequence[NamedPlan]) -> dict[str, int]:
    """Return the numbers of key groups of a checkpoint's operators before the last, by their names in a query."""
    return {each.name: int(there["identity"][KEY_GROUPS]) for there, each in zip(recorded, query, strict=False)}


def migrations_by_operator(migrate: Mapping[str, Any], names: Sequence[str]) -> dict[str, Mapping[str, Callable[[Any], Any]]]:
    """Return the conversions of each operator; of one operator they need no name. Raise InvalidPlanError for unknown names."""
    if not isinstance(migrate, Mapping) or (len(names) == 1 and not any(isinstance(each, Mapping) for each in migrate.values())):
        return dict.fromkeys(names, migrate)
    wrong = next((name for name, each in migrate.items() if name not in names or not isinstance(each, Mapping)), None)
    if wrong is not None:
        raise InvalidPlanError(
            f"migrate: the query has the operators {', '.join(map(repr, names))}, so write the conversions of each by its name, "
            f"e.g. migrate={{{names[0]!r}: {{'accumulator': f}}}}; got {wrong!r}"
        )
    return dict(migrate)
