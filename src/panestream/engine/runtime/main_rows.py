"""The rows of the main output: keys, window, results, and the requested firing columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from panestream.engine.kernels.columns import Ints, Mask, as_type
from panestream.engine.plan import FIRINGS, MAIN, OPS, WindowPlan
from panestream.errors import InvalidPlanError, did_you_mean

Column: TypeAlias = pa.Array | pa.ChunkedArray
_INSTANT = pa.timestamp("us", tz="UTC")


def window_rows(
    plan: WindowPlan,
    keys: Sequence[Column],
    bounds: tuple[Ints | pa.Array | None, Ints | pa.Array | None],
    results: Sequence[Column],
    firing: Sequence[Column] = (),
    *,
    kind: int = 0,
    tag: str = MAIN,
) -> pa.Table:
    """Return rows of the main output, or of a side output (``tag``) of window functions.

    ``bounds`` are the start and end of each row's window in engine units, or None for the global window. ``firing`` comes from
    :func:`firing_columns`, and ``kind`` is the number of the kind of windows.
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
        raise InvalidPlanError(
            f"the window function sent to the output {tag!r}: declare it, .side_output({tag!r}, schema); {hint}"
        )
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


__all__ = ["firing_columns", "side_schema", "window_rows"]
