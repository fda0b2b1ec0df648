"""Translation of PySpark's aggregates into the aggregates of ``panestream.agg``.

Spark's two clients do not take a Column apart in the same way. So Spark names the Column, this module parses the name, and the
caller has Spark compare the result with the Column.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from panestream.windowing import aggregates as agg
from panestream.windowing.foreign_names import AGGREGATES, OF_TWO, QUANTILES

_OTHERS = (
    *("decayed_mean", "decayed_sum", "entropy", "histogram", "hll_sketch", "increase", "ohlc", "percentile", "rate"),
    *("theta_sketch", "time_weighted_mean", "top_k", "user", "weighted_mean"),
)


@dataclass(frozen=True)
class Translation:
    """One meaning that the name of an aggregate may have: in SQL, for the comparison, and as a recipe of ``panestream.agg``."""

    sql: str
    recipe: agg.Aggregate


_OF_ONE: dict[str, Callable[..., agg.Aggregate]] = {
    name: getattr(agg, here) for name, here in AGGREGATES.items() if name not in OF_TWO
}
_SKETCHES: dict[str, Callable[..., agg.Aggregate]] = {"hll_sketch_agg": agg.hll_sketch, "theta_sketch_agg": agg.theta_sketch}


def translations(text: str, quote: Callable[[str], str]) -> Iterator[Translation]:
    """Yield the meanings of an aggregate that Spark names ``text``, without an alias. ``quote`` returns an argument as SQL.

    >>> [each.recipe for each in translations("sum(price)", str)]
    [agg.sum('price')]
    >>> [each.sql for each in translations("first(price)", str)]
    ['first(price)', 'first(price, true)']
    """
    called = _call(text)
    if called is None:
        return
    function, arguments = called
    name = function.removesuffix(" distinct")
    distinct = "DISTINCT " if name != function else ""
    if function == "count" and arguments in (["1"], ["*"]):
        yield Translation("count(1)", agg.count())
    elif len(arguments) == 1 and function in _OF_ONE:
        yield Translation(f"{name}({distinct}{quote(arguments[0])})", _OF_ONE[function](arguments[0]))
        if _OF_ONE[function] in (agg.first, agg.last):  # Spark gives both the same name
            yield Translation(f"{name}({quote(arguments[0])}, true)", _OF_ONE[function](arguments[0], ignore_nulls=True))
    elif len(arguments) == 2 and function in OF_TWO:
        yield Translation(f"{name}({', '.join(map(quote, arguments))})", getattr(agg, function)(*arguments))
    elif len(arguments) == 3 and function == "percentile" and arguments[2] == "1":  # the third is the frequency
        yield from _percentiles(arguments[0], quote(arguments[0]), arguments[1])
    elif len(arguments) == 2 and function in _SKETCHES and arguments[1].isdecimal():
        recipe = _SKETCHES[function](arguments[0], int(arguments[1]))
        yield Translation(f"{name}({quote(arguments[0])}, {arguments[1]})", recipe)


def _percentiles(expr: str, column: str, shares: str) -> Iterator[Translation]:
    several = re.fullmatch(r"array\((.*)\)", shares)
    given = [share.strip() for share in (several[1] if several else shares).split(",")]
    if not all(re.fullmatch(r"[\d.]+(E-?\d+)?", share) for share in given):
        return
    numbers = [float(share) for share in given]
    recipe = agg.percentiles(expr, numbers) if several else agg.percentile(expr, numbers[0])
    # Spark's names show neither whether shares are doubles, as from Python, nor whether the frequency is an int.
    for kind, frequency in (("D", ", 1"), ("", "")):
        texts = ", ".join(f"{share}{kind}" for share in given)
        yield Translation(f"percentile({column}, {f'array({texts})' if several else texts}{frequency})", recipe)


def _call(text: str) -> tuple[str, list[str]] | None:
    """Return the function, in lower case with a ``distinct`` suffix, and its arguments; None if it is not a call."""
    called = re.fullmatch(r"(\w+)\((.*)\)", text.strip(), re.DOTALL)
    arguments = None if called is None else _arguments(called[2])
    if called is None or arguments is None:
        return None
    function = called[1].lower()
    if arguments and arguments[0].upper().startswith("DISTINCT "):
        function, arguments[0] = f"{function} distinct", arguments[0][len("DISTINCT ") :]
    return function, arguments


def instead_of(text: str) -> str:
    """Return advice on what to write instead of one of Spark's aggregates.

    >>> instead_of("sum(price) AS revenue")
    "write .aggregate(agg.sum('price').alias('revenue'))"
    >>> instead_of("count(DISTINCT user)")
    "write .aggregate(agg.count_distinct('user'))"
    >>> instead_of("percentile_approx(price, array(0.5, 0.9), 10000)")
    "write .aggregate(agg.approx_quantiles('price', [0.5, 0.9]))"
    >>> instead_of("sums(price)")
    'there is no agg.sums; did you mean agg.sum?'
    """
    given, alias = split_alias(text)
    called = _call(given)
    if called is None or _computes(*called):
        return "give .aggregate aggregates such as agg.sum('price') or F.sum('price'), and compute on its results"
    function, arguments = called
    alias = alias and f".alias({alias!r})"
    if function in ("max distinct", "min distinct"):
        function = function.removesuffix(" distinct")
    if function in QUANTILES:
        return f"write .aggregate({_quantile(function, arguments)}{alias})"
    if function not in AGGREGATES:
        near = difflib.get_close_matches(function, {*AGGREGATES.values(), *_OTHERS, "approx_quantile"}, n=1, cutoff=0.5)
        return f"there is no agg.{function.replace(' ', '_')}; " + (f"did you mean agg.{near[0]}?" if near else _known())
    if function == "count" and arguments in (["1"], ["*"]):
        arguments = []
    inputs = arguments[:2] if function in OF_TWO else arguments[:1]
    return f"write .aggregate(agg.{AGGREGATES[function]}({', '.join(repr(name_of_input) for name_of_input in inputs)}){alias})"


def split_alias(text: str) -> tuple[str, str]:
    """Return Spark's name of an expression without its alias, and the alias, or an empty one.

    >>> split_alias("sum(price) AS revenue"), split_alias("sum(price)")
    (('sum(price)', 'revenue'), ('sum(price)', ''))
    """
    match = re.fullmatch(r"(.+\)) (?:AS|as) ([^)]+)", text.strip(), re.DOTALL)
    return (text.strip(), "") if match is None else (match[1], match[2].strip("`"))


def _computes(function: str, arguments: list[str]) -> bool:
    """Return whether it is a function of aggregates, such as ``coalesce(sum(price), 0)``."""
    return function not in (*AGGREGATES, *QUANTILES) and any("(" in argument for argument in arguments)


def _known() -> str:
    return "known there: " + ", ".join(sorted({*AGGREGATES.values(), *_OTHERS, "approx_quantile"}))


def _quantile(function: str, arguments: list[str]) -> str:
    share = "0.5" if len(arguments) < 2 else arguments[1]
    several = re.fullmatch(r"array\((.*)\)", share)
    if several is not None:
        return f"agg.{QUANTILES[function]}s({arguments[0]!r}, [{several[1]}])"
    return f"agg.{QUANTILES[function]}({arguments[0]!r}, {share})"


def _arguments(text: str) -> list[str] | None:
    """Return the parts between top-level commas, or None if the parentheses do not match."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if depth < 0:
            return None
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return None if depth else [part.strip() for part in parts if part.strip()]
