"""Explain why Spark cannot read a state. Its own errors do not name the key group and have a hundred lines of stack trace."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from panestream.errors import StateDamagedError
from panestream.spark.checkpoint.records import list_files
from panestream.spark.failures import as_ours, first_sentence, of_spark, raise_as, words_of
from panestream.spark.places import escaped
from panestream.spark.savepoint.values import StoredState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_WAY_OUT = "Put back a copy of the whole checkpoint from before the damage, or take another micro-batch (batch_id=, --batch)"


@contextmanager
def reading(stored: StoredState) -> Iterator[None]:
    """Read a state within this context: damaged or missing parts raise StateDamagedError, and workers' errors are passed on."""
    try:
        with as_ours():
            yield
    except Exception as error:
        why = _why(stored, error) if of_spark(error) else None
        if why is None:
            raise
        what = f"the state of the checkpoint {stored.path} after micro-batch {stored.batch_id}"
        raise_as(StateDamagedError(f"{what} cannot be read: {why}. {_WAY_OUT}"), error)


def check_last_partition(spark: SparkSession, path: str, operator_id: int, partitions: int) -> None:
    """Raise StateDamagedError if the last of ``partitions`` is missing: Spark's reader only counts the existing folders."""
    folder = f"state/{operator_id}/{partitions - 1}"
    if not list_files(spark, f"{escaped(path)}/{folder}"):
        raise StateDamagedError(f"the state of the checkpoint {path} cannot be read: {folder} is gone. {_WAY_OUT}")


def check_all_told(stored: StoredState, told: int) -> None:
    """Raise StateDamagedError if only ``told`` key groups have state, because the first row calls all of them."""
    if 0 < told < stored.plan.groups:
        raise StateDamagedError(
            f"the state of the checkpoint {stored.path} after micro-batch {stored.batch_id} lacks key groups: there are {told} "
            f"of {stored.plan.groups}. {_WAY_OUT}"
        )


def _why(stored: StoredState, error: Exception) -> str | None:
    """Return the damage of the state, or None if the error has another cause."""
    if "CANNOT_LOAD_STATE_STORE" in words_of(error):
        return first_sentence(error)
    # If a partition is missing, Spark's planner only reports an internal bug.
    folder = f"state/{stored.operator_id}"
    files = list_files(stored.spark, f"{escaped(stored.path)}/{folder}/[0-9]*/*")
    there = {int(file.rsplit(f"/{folder}/", 1)[-1].split("/")[0]) for file in files}
    gone = next((number for number in range(max(there, default=-1) + 1) if number not in there), None)
    return None if gone is None else f"{folder}/{gone} is gone"


__all__ = ["check_all_told", "check_last_partition", "reading"]
