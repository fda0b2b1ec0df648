"""The largest rows of each window."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panestream.engine.kernels.slicing import Int64s
from panestream.engine.plan import Top


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
