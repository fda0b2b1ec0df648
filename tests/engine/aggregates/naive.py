"""The definition of the aggregates in plain Python: rows → windows → values. Slow and obvious; the tests compare the kernels
with it.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal, localcontext
from fractions import Fraction

from panestream.windowing import aggregates as agg


@dataclass(frozen=True)
class Row:
    key: tuple
    pane: int
    time: int
    arrival: int
    values: dict


def plain_key(key):
    """Return a key as SQL groups it: there is one NaN and one zero."""
    return tuple("NaN" if isinstance(k, float) and math.isnan(k) else k + 0.0 if isinstance(k, float) else k for k in key)


def order(value):
    """Return a sort key that puts NaN above every other number."""
    return (1, 0.0) if isinstance(value, float) and math.isnan(value) else (0, value)


def aggregate(recipe, rows, types):  # noqa: C901 - one case per aggregate
    """Return the value of one aggregate over the rows of one key and window, in the order of arrival."""
    values = [row.values[recipe.inputs[0]] for row in rows] if recipe.inputs else []
    present = [v for v in values if v is not None]
    match recipe:
        case agg.Complete():
            return True
        case agg.Count(expr=None):
            return len(rows)
        case agg.Count():
            return len(present)
        case agg.Sum():
            return total(present) if present else None
        case agg.Mean():
            return mean(present, types[recipe.expr]) if present else None
        case agg.Min():
            return tidy(min(present, key=order)) if present else None
        case agg.Max():
            return tidy(max(present, key=order)) if present else None
        case agg.Var() | agg.Stddev():
            return spread([float(v) for v in present], isinstance(recipe, agg.Stddev))
        case agg.First() | agg.Last():
            allowed = [r for r in rows if not recipe.ignore_nulls or r.values[recipe.expr] is not None]
            if not allowed:
                return None
            first = isinstance(recipe, agg.First)
            return (min if first else max)(allowed, key=lambda r: (r.time, r.pane, r.arrival)).values[recipe.expr]
        case agg.MinBy() | agg.MaxBy():
            allowed = sorted((r for r in rows if r.values[recipe.by] is not None), key=lambda r: (r.time, r.pane, r.arrival))
            if not allowed:
                return None
            best = min if isinstance(recipe, agg.MinBy) else max
            return best(allowed, key=lambda r: order(r.values[recipe.by])).values[recipe.expr]
        case agg.CountDistinct():
            return len({plain_key((v,)) for v in present})
        case agg.CollectList():
            return [r.values[recipe.expr] for r in sorted(rows, key=when) if r.values[recipe.expr] is not None]
        case agg.TopK():
            by = recipe.by or recipe.expr
            allowed = [r for r in sorted(rows, key=when) if r.values[by] is not None and r.values[recipe.expr] is not None]
            allowed.sort(key=lambda r: order(r.values[by]), reverse=True)  # reverse=True keeps the order of equal values
            return [r.values[recipe.expr] for r in allowed[: recipe.k]]
        case agg.ArgMin() | agg.ArgMax():
            allowed = sorted((r for r in rows if r.values[recipe.by] is not None), key=lambda r: (r.time, r.pane, r.arrival))
            if not allowed:
                return None
            best = min if isinstance(recipe, agg.ArgMin) else max
            chosen = best(allowed, key=lambda r: order(r.values[recipe.by]))
            return {expr: chosen.values[expr] for expr in recipe.exprs}
        case agg.WeightedMean():
            both = [
                (float(r.values[recipe.expr]), float(r.values[recipe.weight])) for r in rows if None not in values_of(r, recipe)
            ]
            weight = sum(w for _, w in both)
            return sum(v * w for v, w in both) / weight if weight else None
        case agg.Histogram():
            return histogram(present, recipe.edges)
        case agg.ApproxCountDistinct():  # exact for few values
            return len({plain_key((v,)) for v in present})
        case agg.ApproxQuantile():
            return quantile(present, recipe.probability) if present else None
        case agg.ApproxQuantiles():
            return [quantile(present, p) for p in recipe.probabilities] if present else None
        case agg.User():
            return recipe.written.naive(sorted(rows, key=lambda r: (r.pane, r.arrival)), recipe.exprs)
    raise AssertionError(recipe)


def values_of(row, recipe):
    return [row.values[expr] for expr in recipe.inputs]


def histogram(values, edges):
    edges = [Fraction(str(edge)) for edge in edges]
    counts = [0] * (len(edges) + 1)
    for value in values:
        if not math.isfinite(value):
            counts[0 if value == -math.inf else -1] += 1
        else:
            counts[sum(Fraction(value) >= edge for edge in edges)] += 1
    return counts


def quantile(values, probability):
    ordered = sorted(map(float, values), key=order)
    position = probability * (len(ordered) - 1)
    low, high = ordered[math.floor(position)], ordered[math.ceil(position)]
    share = position % 1
    return tidy(low if low == high else low * (1 - share) + high * share)


def when(row):
    return row.time, row.pane, row.arrival


def total(values):
    with localcontext() as context:
        context.prec = 100
        return sum(values)


def mean(values, type_):
    if not isinstance(values[0], Decimal):
        return total(values) / len(values)
    with localcontext() as context:
        context.prec = 100
        return (sum(values) / len(values)).quantize(Decimal(1).scaleb(-min(38, type_.scale + 4)), ROUND_HALF_UP)


def spread(values, root):
    if len(values) < 2:
        return None
    if not all(map(math.isfinite, values)):
        return math.nan
    exact = [Fraction(v) for v in values]
    middle = sum(exact) / len(exact)
    squares = sum((v - middle) ** 2 for v in exact)
    # A variance that no float can hold is infinite.
    variance = math.inf if squares > Fraction(sys.float_info.max) else float(squares / (len(values) - 1))
    return math.sqrt(variance) if root else variance


def tidy(value):
    return value + 0.0 if isinstance(value, float) else value


def windows(recipes, rows, types, first_pane, end_pane):
    """Return {(window, key): [results]} for all windows and keys that have a row."""
    results = {}
    for window, (first, end) in enumerate(zip(first_pane, end_pane, strict=True)):
        inside = {}
        for row in rows:
            if first <= row.pane < end:
                inside.setdefault(plain_key(row.key), []).append(row)
        for key, members in inside.items():
            results[window, key] = [aggregate(recipe, members, types) for recipe in recipes]
    return results


def same(actual, expected, scale=1.0):
    """Return whether two results are equal. Floats may differ a little, everything else must be identical."""
    if isinstance(expected, float) and isinstance(actual, float):
        if math.isnan(expected) or math.isnan(actual):
            return math.isnan(expected) and math.isnan(actual)
        return math.isclose(actual, expected, rel_tol=1e-9, abs_tol=1e-9 * scale)
    if isinstance(expected, list) and isinstance(actual, list):
        return len(actual) == len(expected) and all(same(a, e, scale) for a, e in zip(actual, expected, strict=True))
    if isinstance(expected, dict) and isinstance(actual, dict):
        return actual.keys() == expected.keys() and all(same(actual[name], value) for name, value in expected.items())
    return type(actual) is type(expected) and actual == expected
