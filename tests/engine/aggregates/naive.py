"""The definition of the aggregates in plain Python: rows → windows → values. Slow and obvious; the tests compare the kernels
with it.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal, localcontext
from fractions import Fraction
from itertools import pairwise

from panestream.windowing import aggregates as agg
from panestream.windowing.aggregates.pairs import OfPair


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
        case agg.CountIf():
            return sum(v is True for v in values)
        case agg.BoolAnd():
            return all(present) if present else None
        case agg.BoolOr():
            return any(present) if present else None
        case agg.Ohlc():
            return ohlc([r.values[recipe.expr] for r in sorted(rows, key=when) if r.values[recipe.expr] is not None])
        case agg.Mode():
            return most_frequent(present)
        case agg.Entropy():
            shares = [n / len(present) for n in frequencies(present).values()]
            return -sum(share * math.log2(share) for share in shares) + 0.0 if present else None
        case agg.CollectSet():
            return sorted((math.nan if k == ("NaN",) else k[0] for k in frequencies(present)), key=order)
        case agg.Median():
            return quantile(present, 0.5) if present else None
        case agg.Percentile():
            return quantile(present, recipe.probability) if present else None
        case agg.Percentiles():
            return [quantile(present, p) for p in recipe.probabilities] if present else None
        case OfPair():
            return of_pairs(recipe, [tuple(map(float, values_of(r, recipe))) for r in rows if None not in values_of(r, recipe)])
        case agg.Increase() | agg.Rate() | agg.TimeWeightedMean():
            return over_time(
                recipe,
                [(r.time, float(r.values[recipe.expr])) for r in sorted(rows, key=when) if r.values[recipe.expr] is not None],
            )
        case agg.DecayedSum() | agg.DecayedMean():
            return decayed(recipe, [(r.time, float(r.values[recipe.expr])) for r in rows if r.values[recipe.expr] is not None])
        case agg.User():
            return recipe.written.naive(sorted(rows, key=lambda r: (r.pane, r.arrival)), recipe.exprs)
    raise AssertionError(recipe)


def ohlc(values):
    if not values:
        return None
    high, low = max(values, key=order), min(values, key=order)
    return {"open": values[0], "high": tidy(high), "low": tidy(low), "close": values[-1]}


def frequencies(values):
    found = {}
    for value in values:
        key = plain_key((value,))
        found[key] = found.get(key, 0) + 1
    return found


def most_frequent(values):
    found = frequencies(values)
    tied = [math.nan if key == ("NaN",) else key[0] for key, n in found.items() if n == max(found.values())]
    return min(tied, key=order) if tied else None


def of_pairs(recipe, pairs):
    """Return a statistic of pairs of finite numbers, computed exactly."""
    n = len(pairs)
    if not n:
        return None
    xs, ys = ([Fraction(value) for value in column] for column in zip(*pairs, strict=True))
    x, y = sum(xs) / n, sum(ys) / n
    xx, yy = sum((v - x) ** 2 for v in xs), sum((v - y) ** 2 for v in ys)
    co = sum((v - x) * (w - y) for v, w in zip(xs, ys, strict=True))
    match recipe:
        case agg.CovarPop():
            return float(co / n)
        case agg.CovarSamp():
            return float(co / (n - 1)) if n > 1 else None
        case agg.Corr():
            return float(co) / math.sqrt(xx) / math.sqrt(yy) if xx and yy else None
        case agg.RegrSlope():
            return float(co / yy) if yy else None
        case agg.RegrIntercept():
            return float(x - co / yy * y) if yy else None
        case agg.RegrR2():
            return (float(co / yy * co / xx) if xx else 1.0) if yy else None
    raise AssertionError(recipe)


def over_time(recipe, points):
    """Return what a counter or a value did between its first and last point, given in order."""
    if not points:
        return None
    span = points[-1][0] - points[0][0]
    steps = [(later - time, value, then) for (time, value), (later, then) in pairwise(points)]
    grown = float(sum(then if then < value else then - value for _, value, then in steps))
    match recipe:
        case agg.Increase():
            return grown if steps else None
        case agg.Rate():
            return grown / (span / 1_000_000) if span else None
    areas = [micros * (value if recipe.between == "last" else (value + then) / 2) for micros, value, then in steps if micros]
    return sum(areas) / span if span else points[-1][1]


def decayed(recipe, points):
    if not points:
        return None
    latest = max(time for time, _ in points)
    factors = [2.0 ** (-(latest - time) / recipe.micros) for time, _ in points]
    total = sum(v * factor if math.isfinite(v) else v for (_, v), factor in zip(points, factors, strict=True))
    return total / sum(factors) if isinstance(recipe, agg.DecayedMean) else total


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
