"""Declared aggregates, which are data so that the engine can compute them on columns; the public namespace ``panestream.agg``.

Every function returns an immutable recipe, defined in the same module and computed in the module of that name in
:mod:`panestream.engine.aggregates`. An expression is a column name or SQL text (``"price * quantity"``), as in Spark's
``selectExpr``, or a PySpark Column (``F.col("price") * F.col("quantity")``), which gets Spark's name once the data are known.
Nulls and types follow Spark SQL in ANSI mode: nulls are ignored, and an overflow is an error.

>>> agg_list = [count().alias("clicks"), sum("price * quantity").alias("revenue"), max("price")]
>>> [a.name for a in agg_list]
['clicks', 'revenue', 'max(price)']
"""

# ruff: noqa: F403, F405 - the modules export these names
from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from panestream.windowing.discovery import modules_of
from panestream.windowing.foreign_names import resolve

if TYPE_CHECKING:  # type checkers and editors run nothing; at run time every module of this package is found
    from panestream.windowing.aggregates.base import *
    from panestream.windowing.aggregates.complete import *
    from panestream.windowing.aggregates.counts import *
    from panestream.windowing.aggregates.decay import *
    from panestream.windowing.aggregates.extremes import *
    from panestream.windowing.aggregates.flags import *
    from panestream.windowing.aggregates.frequencies import *
    from panestream.windowing.aggregates.lists import *
    from panestream.windowing.aggregates.ohlc import *
    from panestream.windowing.aggregates.pairs import *
    from panestream.windowing.aggregates.points import *
    from panestream.windowing.aggregates.quantiles import *
    from panestream.windowing.aggregates.sketch_columns import *
    from panestream.windowing.aggregates.sums import *
    from panestream.windowing.aggregates.user_defined import *


def _public_names() -> dict[str, object]:
    """Return the exported names of the modules; raise ImportError if two modules export the same name."""
    offered: dict[str, object] = {}
    for module in modules_of(__name__, __path__):
        for name in module.__all__:
            if name in offered:
                raise ImportError(f"two modules of {__name__} have a public name {name!r}; {module.__name__} is one of them")
            offered[name] = getattr(module, name)
    return dict(sorted(offered.items()))


_OFFERED = _public_names()
globals().update(_OFFERED)  # After the modules, so that a function may have the name of its module.
__all__ = list(_OFFERED)


if not TYPE_CHECKING:  # a type checker must refuse unknown names

    def __getattr__(name: str) -> Any:
        return resolve(sys.modules[__name__], name, ["agg"], "module 'panestream.agg'")


def __dir__() -> list[str]:
    return sorted(__all__)
