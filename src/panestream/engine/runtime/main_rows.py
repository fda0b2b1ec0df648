"""The rows of the main output: keys, window, results, and the requested firing columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panestream.engine.kernels.columns import Ints, Mask, as_type
from panestream.engine.kernels.panes import Int64s
from panestream.engine.plan import FIRINGS, MAIN, OPS, Top, WindowPlan
from panestream.errors import InvalidPlanError, did_you_mean

Column: TypeAlias = pa.Array | pa.ChunkedArray
_INSTANT = pa.timestamp("us", tz="UTC")


def window_rows(
    plan: WindowPlan,
    keys: Sequence[Column],
    bounds: tuple[Ints | pa.Array | None, Ints | pa.Array | None] | tuple[()],
    results: Sequence[Column],
    firing: Sequence[Column] = (),
    *,
    kind: int = 0,
    tag: str = MAIN,
) -> pa.Table:
    """Return rows of the main output, or of a side output (``tag``) of window functions.

    ``bounds`` are the start and end of each row's window in engine units, or None for the global window. They are empty if
    results have no windows. ``firing`` comes from :func:`firing_columns`, and ``kind`` is the number of the kind of windows.
    """
    schema = plan.emitted_schema(tag)
    # Several kinds of windows, and windows without bounds, exist for aggregates only; results of functions may lack columns.
    label = [_words(plan.labels, np.full(len(results[0]), kind))] if plan.labels else []
    typed_keys = [as_type(key, field.type) for key, field in zip(keys, plan.key_schema, strict=True)]
    arrays = [*typed_keys, *label, *(_instants(bound, results) for bound in bounds), *results, *firing]
    return pa.Table.from_arrays(arrays, schema=schema)


def side_schema(plan: WindowPlan, tag: str) -> pa.Schema:
    """Return the declared columns of a side output, or raise InvalidPlanError if it is not declared."""
    declared = plan.side_outputs
    if tag not in declared:
        hint = did_you_mean(tag, declared) if declared else "none is declared"
        who, how = "the window function", f".side_output({tag!r}, schema)"
        if not plan.operator.capabilities.has_windows:
            who, how = "the process function", f".process(..., side_outputs={{{tag!r}: schema}})"
        raise InvalidPlanError(f"{who} sent to the output {tag!r}: declare it, {how}; {hint}")
    return declared[tag]


def firing_columns(plan: WindowPlan, firings: Ints, numbers: Ints, last: Mask, ops: Ints) -> list[pa.Array]:
    """Return the columns after the results that the plan requests.

    ``firings`` and ``ops`` are indexes into :data:`~panestream.engine.plan.FIRINGS` and :data:`~panestream.engine.plan.OPS`.
    ``numbers`` says how often a row's window had fired before, and ``last`` whether it cannot fire again.
    """
    columns = []
    if plan.with_firing:
        columns += [_words(FIRINGS, firings), pa.array(numbers), pa.array(last)]
    if plan.changelog:
        columns.append(_words(OPS, ops))
    return columns


def _instants(bound: Ints | pa.Array | None, results: Sequence[Column]) -> pa.Array:
    if bound is None:
        return pa.nulls(len(results[0]), _INSTANT)
    return (bound if isinstance(bound, pa.Array) else pa.array(np.ascontiguousarray(bound))).cast(_INSTANT)


def _words(words: tuple[str, ...], places: Ints) -> pa.Array:
    return pa.array(words).take(pa.array(places.astype(np.int64)))


def largest_per_window(which: Int64s, results: pa.Table, top: Top, keys: Sequence[str]) -> tuple[Int64s, pa.Table]:
    """Return the ``top.n`` rows of each window with the largest ``top.by`` (nulls last), ties by smaller key (nulls first).

    ``which`` is the window of each row of ``results``, whose key columns are ``keys``.
    """
    if pa.types.is_floating(results.schema.field(top.by).type):
        # Arrow always sorts NaN last, while SQL treats it as the largest, so NaN gets its own column.
        sorted_by = results.append_column("__nan", pc.is_nan(pc.fill_null(results.column(top.by), 0.0)))
        order = [("__nan", "descending"), (top.by, "descending")]
    else:
        sorted_by, order = results, [(top.by, "descending")]
    for position, name in enumerate(keys):
        # Arrow puts nulls last in both directions; SQL's ascending order has them first.
        sorted_by = sorted_by.append_column(f"__null_{position}", pc.is_null(results.column(name)))
        order += [(f"__null_{position}", "descending"), (name, "ascending")]
    sorted_by = sorted_by.append_column("__window", pa.array(which))
    indices = pc.sort_indices(sorted_by, sort_keys=[("__window", "ascending"), *order]).to_numpy()
    windows = which[indices]
    begins = np.searchsorted(windows, windows)
    kept = indices[np.arange(len(windows)) - begins < top.n]
    return which[kept], results.take(pa.array(kept))


__all__ = ["firing_columns", "largest_per_window", "side_schema", "window_rows"]
