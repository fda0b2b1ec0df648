"""Comparison of column names by the session's rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Names:
    """The comparison of names. By default ``k`` and ``K`` are the same column, as in Spark's SQL.

    Set ``case_sensitive`` from the session's ``spark.sql.caseSensitive``.

    >>> Names().find("PRICE", ["user", "price"])
    'price'
    >>> Names(case_sensitive=True).find("PRICE", ["user", "price"]) is None
    True
    """

    case_sensitive: bool = False

    @classmethod
    def of(cls, spark: SparkSession) -> Names:
        """Return the comparison of this session."""
        return cls(str(spark.conf.get("spark.sql.caseSensitive", "false")).lower() == "true")

    def find(self, name: str, known: Iterable[str]) -> str | None:
        """Return the known name of the same column, or None. For several names, :meth:`finder` is faster."""
        return self.finder(known)(name)

    def finder(self, known: Iterable[str]) -> Callable[[str], str | None]:
        """Return :meth:`find` for these known names, fast for thousands on both sides."""
        literal: dict[str, str] = {}
        folded: dict[str, str] = {}
        for name in known:
            literal[name] = name
            folded.setdefault(name.lower(), name)

        def find(name: str) -> str | None:
            return literal.get(name) if name in literal or self.case_sensitive else folded.get(name.lower())

        return find

    def doubled(self, names: Sequence[str]) -> tuple[str, str] | None:
        """Return the first two names of the same column, or None if all differ."""
        # One lookup for each, since there may be thousands. An identical name is reported before a name that differs only in
        # case.
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
    """Return two names of one column as text for an error.

    >>> shown("k", "k"), shown("k", "K")
    ("'k'", "'k' and 'K', which are one name here (spark.sql.caseSensitive)")
    """
    return repr(one) if one == other else f"{one!r} and {other!r}, which are one name here (spark.sql.caseSensitive)"
