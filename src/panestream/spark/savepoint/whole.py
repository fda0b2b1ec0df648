"""Check that a savepoint is complete. Copying may lose, duplicate, change or mix files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from panestream.errors import StateDamagedError
from panestream.spark.compat import silence_analysis_errors
from panestream.spark.failures import first_sentence, of_ended_spark, of_spark
from panestream.spark.savepoint.checksums import FileSums, difference, file_sums, total

T = TypeVar("T")


@dataclass(frozen=True)
class Part:
    """A state table or a list of files, as it was written.

    ``sums`` is empty for a part of an earlier panestream, or without rows. ``copied`` parts have the same rows in other files.
    """

    rows: int
    sums: FileSums = field(default_factory=dict)
    copied: bool = False


def check_whole(what: str, parts: Mapping[str, Part], read: Callable[[str], DataFrame]) -> None:
    """Raise StateDamagedError with part, file and way out if parts differ from the manifest, in one pass over all rows.

    Without checksums it counts the rows, for which Spark only reads the footers of Parquet. ``what`` names the savepoint or
    checkpoint in errors, and ``read`` returns the rows of a part.
    """
    for name, part in parts.items():
        wrong = _of_sums(what, name, part, read) if part.sums else _of_rows(what, name, part, read)
        if wrong is not None:
            raise _damaged(what, f"{name} {wrong}")


def _of_rows(what: str, name: str, part: Part, read: Callable[[str], DataFrame]) -> str | None:
    found = _asked(what, name, lambda: read(name).count())
    return None if found == part.rows else f"has {found:,} rows, and had {part.rows:,} when it was written"


def _of_sums(what: str, name: str, part: Part, read: Callable[[str], DataFrame]) -> str | None:
    found = _asked(what, name, lambda: file_sums(read(name)))
    (rows, sum_), (_, expected) = total(found), total(part.sums)
    counted = f"has {rows:,} rows, and had {part.rows:,} when it was written"
    if part.copied:
        return counted if rows != part.rows else None if sum_ == expected else "was changed: it has another checksum"
    why = difference(found, part.sums)
    return None if why is None else f"{counted}: {why}" if rows != part.rows else f"was changed: {why}"


def _asked(what: str, name: str, ask: Callable[[], T]) -> T:
    try:
        with silence_analysis_errors():
            return ask()
    except Exception as error:
        if not of_spark(error) or of_ended_spark(error):
            raise
        gone = isinstance(error, AnalysisException) and "PATH_NOT_FOUND" in str(error)
        why = "is gone" if gone else f"cannot be read ({first_sentence(error)})"
        damaged = _damaged(what, f"{name} {why}")
        damaged.spark_error = error
        raise damaged from None


def _damaged(what: str, why: str) -> StateDamagedError:
    return StateDamagedError(
        f"{what} is not what was written there: {why}. Put a copy that is whole in its place, or start from another savepoint"
    )


__all__ = ["Part", "check_whole"]
