"""Checksums of what a savepoint is made of: of each Parquet file how many rows it has, and a sum over all that is in them.

Of rows, not of bytes: Spark computes it where it reads, a row at a time, on any file system and through Connect; the bytes of
a file would have to lie in memory as a whole. Bytes that change no row do no harm. The order of rows is not in it: a table of
a state has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from panestream.spark.columns import quoted

FileSums = Mapping[str, Sequence[Any]]
"""By the name of a file: how many rows it has, and their sum, as text. Files without rows have none."""
_FILE = "_metadata.file_name"


def file_sums(df: DataFrame) -> dict[str, list[Any]]:
    """The checksums of the files that a DataFrame is read from: one pass over all rows.

    Args:
        df: what ``spark.read`` has of a folder.
    """
    hashed = df.select(F.col(_FILE).alias("file"), _of_row(df).cast("decimal(20,0)").alias("hash"))
    found = hashed.groupBy("file").agg(F.count("*").alias("rows"), F.sum("hash").cast("string").alias("sum")).collect()
    return {row["file"]: [row["rows"], row["sum"]] for row in sorted(found, key=lambda row: row["file"])}


def total(sums: FileSums) -> tuple[int, int]:
    """Rows and sum of all files together: the same rows in other files have the same.

    >>> total({"a": [2, "7"], "b": [1, "-3"]})
    (3, 4)
    """
    return sum(int(rows) for rows, _ in sums.values()), sum(int(each) for _, each in sums.values())


def difference(found: FileSums, written: FileSums) -> str | None:
    """What of some files is not as it was written, in words that name the file; None: all is.

    >>> difference({"a": [2, "7"]}, {"a": [2, "7"], "b": [1, "3"]})
    'the file b is gone, or empty'
    >>> difference({"a": [2, "8"]}, {"a": [2, "7"]})
    'the file a was changed: it has another checksum'
    >>> difference({"a": [3, "9"]}, {"a": [2, "7"]})
    'the file a has 3 rows, and had 2 when it was written'
    >>> difference({"a": [2, "7"], "c": [1, "0"]}, {"a": [2, "7"]})
    'the file c was not there when it was written'
    """
    for name in sorted({*found, *written}):
        if name not in found:
            return f"the file {name} is gone, or empty"
        if name not in written:
            return f"the file {name} was not there when it was written"
        rows, sum_ = found[name]
        if rows != written[name][0]:
            return f"the file {name} has {rows:,} rows, and had {written[name][0]:,} when it was written"
        if sum_ != written[name][1]:
            return f"the file {name} was changed: it has another checksum"
    return None


def _of_row(df: DataFrame) -> Column:
    """The hash of a row. Spark's passes over nulls, and takes no maps: where a null is, is a value of its own, maps are texts."""
    columns = [(F.col(quoted(field.name)), field.dataType) for field in df.schema.fields]
    return F.xxhash64(
        *(column.isNull() for column, _ in columns),
        *(F.to_json(F.struct(column)) if _has_map(kind) else column for column, kind in columns),
    )


def _has_map(kind: T.DataType) -> bool:
    inner: Iterable[T.DataType] = ()
    if isinstance(kind, T.StructType):
        inner = (field.dataType for field in kind.fields)
    elif isinstance(kind, T.ArrayType):
        inner = (kind.elementType,)
    return isinstance(kind, (T.MapType, T.VariantType)) or any(map(_has_map, inner))


__all__ = ["FileSums", "difference", "file_sums", "total"]
