"""Declared aggregates: what to compute over the rows of a window, said as data so that the engine can compute it on columns.

A recipe and the function that makes it live together in one module of this package; how the engine computes it is in the module
of the same name in :mod:`panestream.engine.aggregates`. What those modules name in ``__all__`` is here by itself.

This module is the public namespace ``panestream.agg``. Every function returns an immutable recipe; nothing is computed here.
An expression is the name of a column or SQL text (``"price * quantity"``), as in Spark's ``selectExpr``; or a Column of PySpark's
(``F.col("price") * F.col("quantity")``), which is called what Spark calls it once the data are known. Nulls and types follow
Spark SQL in ANSI mode: nulls are left out, an overflow is an error and never a silent wrap.

>>> agg_list = [count().alias("clicks"), sum("price * quantity").alias("revenue"), max("price")]
>>> [a.name for a in agg_list]
['clicks', 'revenue', 'max(price)']
"""

# ruff: noqa: F403, F405 - the names are those that the modules offer
from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from panestream.windowing.discovery import modules_of
from panestream.windowing.foreign_names import resolve

if TYPE_CHECKING:  # type checkers and editors run nothing; at run time every module of this package is found
    from panestream.windowing.aggregates.approx_distinct import *
    from panestream.windowing.aggregates.base import *
    from panestream.windowing.aggregates.columnwise import *
    from panestream.windowing.aggregates.complete import *
    from panestream.windowing.aggregates.counts import *
    from panestream.windowing.aggregates.distinct import *
    from panestream.windowing.aggregates.extremes import *
    from panestream.windowing.aggregates.histograms import *
    from panestream.windowing.aggregates.lists import *
    from panestream.windowing.aggregates.moments import *
    from panestream.windowing.aggregates.picks import *
    from panestream.windowing.aggregates.quantiles import *
    from panestream.windowing.aggregates.sums import *
    from panestream.windowing.aggregates.top import *
    from panestream.windowing.aggregates.user_defined import *
    from panestream.windowing.aggregates.weighted import *


def _public_names() -> dict[str, object]:
    """What the modules of this package offer, by name.

    Raises:
        ImportError: two offer the same name.
    """
    offered: dict[str, object] = {}
    for module in modules_of(__name__, __path__):
        for name in module.__all__:
            if name in offered:
                raise ImportError(f"two modules of {__name__} have a public name {name!r}; {module.__name__} is one of them")
            offered[name] = getattr(module, name)
    return dict(sorted(offered.items()))


_OFFERED = _public_names()
globals().update(_OFFERED)  # after the modules, so that a function may be called what its module is
__all__ = list(_OFFERED)


def __getattr__(name: str) -> Any:
    return resolve(sys.modules[__name__], name, ["agg"], "module 'panestream.agg'")


def __dir__() -> list[str]:
    return sorted(__all__)
