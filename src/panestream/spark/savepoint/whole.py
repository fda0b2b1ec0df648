"""Whether a savepoint has all that was written into it: its files may have been lost, doubled or mixed where it was copied."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from panestream.errors import StateDamagedError
from panestream.spark.asking import asking
from panestream.spark.reasons import first_sentence, of_spark


def check_whole(what: str, parts: Mapping[str, int], read: Callable[[str], DataFrame]) -> None:
    """Refuses a savepoint whose parts have other numbers of rows than its manifest says. Of Parquet only the footers are read.

    Args:
        what: it is, for the error: a savepoint or a checkpoint, and its folder.
        parts: how many rows each has, by what it is called.
        read: gives the rows of one.

    Raises:
        StateDamagedError: names the part, and what to do.
    """
    for name, rows in parts.items():
        found = _count(what, name, read)
        if found != rows:
            raise _damaged(what, f"{name} has {found:,} rows, and had {rows:,} when it was written")


def _count(what: str, name: str, read: Callable[[str], DataFrame]) -> int:
    try:
        with asking():
            return read(name).count()
    except Exception as error:
        if not of_spark(error):
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


__all__ = ["check_whole"]
