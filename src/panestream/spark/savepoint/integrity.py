"""Checksums of a savepoint, and the check that it is complete. Copying may lose, duplicate, change or mix files.

A checksum is the number of rows of a Parquet file and a sum over their values, not over bytes. Spark computes it while it reads,
a row at a time, on any file system and through Connect; the bytes of a file would need memory for the whole file. Changed bytes
that change no row are harmless. The order of rows is not included, since state tables are unordered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from panestream.errors import StateDamagedError
from panestream.spark.columns import quoted
from panestream.spark.compat import silence_analysis_errors
from panestream.spark.failures import first_sentence, of_ended_spark, of_spark

FileSums = Mapping[str, Sequence[Any]]
"""Number of rows and their sum (as text) by file name. Empty files are not included."""
_FILE = "_metadata.file_name"


def file_sums(df: DataFrame) -> dict[str, list[Any]]:
    """Return the checksums of the files that a DataFrame reads, in one pass over all rows."""
    hashed = df.select(F.col(_FILE).alias("file"), _row_hash(df).cast("decimal(20,0)").alias("hash"))
    found = hashed.groupBy("file").agg(F.count("*").alias("rows"), F.sum("hash").cast("string").alias("sum")).collect()
    return {row["file"]: [row["rows"], row["sum"]] for row in sorted(found, key=lambda row: row["file"])}


def total(sums: FileSums) -> tuple[int, int]:
    """Return rows and sum of all files together, which are independent of how rows are distributed over files.

    >>> total({"a": [2, "7"], "b": [1, "-3"]})
    (3, 4)
    """
    return sum(int(rows) for rows, _ in sums.values()), sum(int(each) for _, each in sums.values())


def difference(found: FileSums, written: FileSums) -> str | None:
    """Describe the first changed file in words, or return None.

    >>> difference({"a": [2, "7"]}, {"a": [2, "7"], "b": [1, "3"]})
    'the file b is missing or empty'
    >>> difference({"a": [2, "8"]}, {"a": [2, "7"]})
    'the file a was changed: it has another checksum'
    >>> difference({"a": [3, "9"]}, {"a": [2, "7"]})
    'the file a has 3 rows, and had 2 when it was written'
    >>> difference({"a": [2, "7"], "c": [1, "0"]}, {"a": [2, "7"]})
    'the file c was not there when it was written'
    """
    for name in sorted({*found, *written}):
        if name not in found:
            return f"the file {name} is missing or empty"
        if name not in written:
            return f"the file {name} was not there when it was written"
        rows, sum_ = found[name]
        if rows != written[name][0]:
            return f"the file {name} has {rows:,} rows, and had {written[name][0]:,} when it was written"
        if sum_ != written[name][1]:
            return f"the file {name} was changed: it has another checksum"
    return None


def _row_hash(df: DataFrame) -> Column:
    """Hash a row. Spark's hash skips nulls and rejects maps, so null flags are hashed too, and maps are converted to text."""
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


Result = TypeVar("Result")


@dataclass(frozen=True)
class WrittenPart:
    """A state table or a list of files, as it was written.

    ``sums`` is empty for a part of an earlier panestream, or without rows. ``copied`` parts have the same rows in other files.
    """

    rows: int
    sums: FileSums = field(default_factory=dict)
    copied: bool = False


def verify(what: str, parts: Mapping[str, WrittenPart], read: Callable[[str], DataFrame]) -> None:
    """Raise StateDamagedError with part, file and way out if parts differ from the manifest, in one pass over all rows.

    Without checksums it counts the rows, for which Spark only reads the footers of Parquet. ``what`` names the savepoint or
    checkpoint in errors, and ``read`` returns the rows of a part.
    """
    for name, part in parts.items():
        wrong = _checksum_fault(what, name, part, read) if part.sums else _count_fault(what, name, part, read)
        if wrong is not None:
            raise _error(what, f"{name} {wrong}")


def _count_fault(what: str, name: str, part: WrittenPart, read: Callable[[str], DataFrame]) -> str | None:
    found = _read(what, name, lambda: read(name).count())
    return None if found == part.rows else f"has {found:,} rows, and had {part.rows:,} when it was written"


def _checksum_fault(what: str, name: str, part: WrittenPart, read: Callable[[str], DataFrame]) -> str | None:
    found = _read(what, name, lambda: file_sums(read(name)))
    (rows, sum_), (_, expected) = total(found), total(part.sums)
    counted = f"has {rows:,} rows, and had {part.rows:,} when it was written"
    if part.copied:
        return counted if rows != part.rows else None if sum_ == expected else "was changed: it has another checksum"
    why = difference(found, part.sums)
    return None if why is None else f"{counted}: {why}" if rows != part.rows else f"was changed: {why}"


def _read(what: str, name: str, ask: Callable[[], Result]) -> Result:
    try:
        with silence_analysis_errors():
            return ask()
    except Exception as error:
        if not of_spark(error) or of_ended_spark(error):
            raise
        gone = isinstance(error, AnalysisException) and "PATH_NOT_FOUND" in str(error)
        why = "is gone" if gone else f"cannot be read ({first_sentence(error)})"
        damaged = _error(what, f"{name} {why}")
        damaged.spark_error = error
        raise damaged from None


def _error(what: str, why: str) -> StateDamagedError:
    return StateDamagedError(
        f"{what} is not what was written there: {why}. Put a copy that is whole in its place, or start from another savepoint"
    )
