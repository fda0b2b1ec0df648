"""Arrow tables as pandas frames whose whole numbers are exact."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def frame_of(table: pa.Table) -> Any:
    """Return the rows of a table as a pandas frame.

    pandas makes floats of whole numbers next to a null, which changes numbers above 2**53. So a column with nulls becomes one of
    pandas' nullable types, such as ``Int64``; within a list, struct or map such numbers are Python's own.
    """
    frame = table.to_pandas(use_threads=False, integer_object_nulls=True)
    for field, column in zip(table.schema, table.columns, strict=True):
        if pa.types.is_integer(field.type) and column.null_count:
            # "int64" in Arrow is "Int64" in pandas.
            frame[field.name] = frame[field.name].astype(str(field.type).replace("int", "Int").replace("uI", "UI"))
    return frame


__all__ = ["frame_of"]
