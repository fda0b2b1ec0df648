"""When two names are one column: as the session sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Names:
    """How names compare: by default ``k`` and ``K`` are one column, as in Spark's SQL.

    Attributes:
        case_sensitive: whether they are two: the session's ``spark.sql.caseSensitive``.

    >>> Names().find("PRICE", ["user", "price"])
    'price'
    >>> Names(case_sensitive=True).find("PRICE", ["user", "price"]) is None
    True
    """

    case_sensitive: bool = False

    @classmethod
    def of(cls, spark: SparkSession) -> Names:
        """As this session has it."""
        return cls(str(spark.conf.get("spark.sql.caseSensitive", "false")).lower() == "true")

    def find(self, name: str, known: Iterable[str]) -> str | None:
        """Which of the known names means the same column; None: none does. For several names, :meth:`finder` looks faster."""
        return self.finder(known)(name)

    def finder(self, known: Iterable[str]) -> Callable[[str], str | None]:
        """Return :meth:`find` among these names: there may be thousands on both sides."""
        literal: dict[str, str] = {}
        folded: dict[str, str] = {}
        for name in known:
            literal[name] = name
            folded.setdefault(name.lower(), name)

        def find(name: str) -> str | None:
            return literal.get(name) if name in literal or self.case_sensitive else folded.get(name.lower())

        return find

    def doubled(self, names: Sequence[str]) -> tuple[str, str] | None:
        """The first two names that are one column; None: all differ."""
        # One look at each: there may be thousands. Of several that are alike the one is told that is so to the letter.
        literal: set[str] = set()
        first: dict[str, str] = {}
        for name in names:
            if name in literal:
                return name, name
            other = None if self.case_sensitive else first.setdefault(name.lower(), name)
            if other is not None and other != name:
                return other, name
            literal.add(name)
        return None


def shown(one: str, other: str) -> str:
    """Two names of one column, for an error.

    >>> shown("k", "k"), shown("k", "K")
    ("'k'", "'k' and 'K', which are one name here (spark.sql.caseSensitive)")
    """
    return repr(one) if one == other else f"{one!r} and {other!r}, which are one name here (spark.sql.caseSensitive)"
