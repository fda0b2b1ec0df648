"""A query that starts from a savepoint succeeds another: it goes on in the same places, as if it were that one.

Spark numbers its micro-batches from 0 again, and it has an identity of its own. What sinks call a micro-batch goes on from the
savepoint's, so that nothing of the old query is replaced, and what that one left of a micro-batch that it never committed is. The
old one is told in its own checkpoint that it holds its places no more.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from panestream.errors import CheckpointError
from panestream.spark.markers import write_marker
from panestream.spark.reasons import first_sentence, of_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SUCCESSOR = "successor"
"""In an entry of the old checkpoint: the new one."""
_JOINT = "+"


@dataclass(frozen=True)
class Succession:
    """What a query has from those before it; rests in the savepoint and in each entry of the new checkpoint.

    Attributes:
        queries: their identities, of the first one first.
        first: what sinks call micro-batch 0.
        places: of their outputs, to which they had micro-batches committed.
        checkpoint: where that of the last of them was.
        batch_id: after which micro-batch of it the savepoint was taken.
    """

    queries: tuple[str, ...]
    first: int
    places: tuple[str, ...] = ()
    checkpoint: str = ""
    batch_id: int = -1

    @property
    def root(self) -> str:
        """The identity of the first query of all: identities of those that follow begin with it."""
        return root_of(self.queries[0])

    def new_identity(self) -> str:
        """For a query that succeeds these."""
        return f"{self.root}{_JOINT}{uuid.uuid4().hex}"

    def as_saved(self) -> dict[str, Any]:
        """As it rests in savepoints and entries."""
        return asdict(self)


def root_of(query: str) -> str:
    """The first query of those that succeeded each other, which this one is of."""
    return query.split(_JOINT, 1)[0]


def is_of(writer: str, lineage: str) -> bool:
    """Whether a writer, a query and its output as one text, is of those that succeed each other.

    >>> [is_of(each, "q/main") for each in ("q/main", "q+17/main", "q/late", "other/main")]
    [True, True, False, False]
    """
    query, _, output = writer.rpartition("/")
    return f"{root_of(query)}/{output}" == lineage


def of_saved(saved: Mapping[str, Any] | None) -> Succession | None:
    """What :meth:`Succession.as_saved` gave; None where a query began by itself."""
    if not saved:
        return None
    queries, places = tuple(saved["queries"]), tuple(saved["places"])
    return Succession(queries, int(saved["first"]), places, str(saved["checkpoint"]), int(saved["batch_id"]))


def succession_after(entries: Iterable[Mapping[str, Any]], checkpoint: str, batch_id: int) -> Succession:
    """What a query has that starts from a savepoint of a checkpoint.

    Args:
        entries: of the checkpoint's runs, the newest last.
        checkpoint: where it is.
        batch_id: after which micro-batch the savepoint is taken.
    """
    runs = list(entries)
    before = of_saved((runs[-1].get("born") or {}).get("succession")) if runs else None
    queries = dict.fromkeys([*(before.queries if before else ()), *(str(run["query"]) for run in runs)])
    places = {place for run in runs if batch_id > run["after"] for place in run["places"]}
    places |= set(before.places if before else ())
    first = (before.first if before else 0) + batch_id + 1
    return Succession(tuple(queries), first, tuple(sorted(places)), checkpoint, batch_id)


def check_not_gone_on(old: Succession, last: int, shared: Iterable[str]) -> None:
    """Refuses to go on in places of an old query that went on there itself after its savepoint.

    Args:
        old: what is succeeded.
        last: the last micro-batch that it committed.
        shared: places that both have.

    Raises:
        CheckpointError: names the places and what to do.
    """
    if last > old.batch_id:
        raise CheckpointError(
            f"the savepoint is of micro-batch {old.batch_id}, but the query went on in {old.checkpoint} up to micro-batch {last} "
            f"and wrote to {', '.join(sorted(shared))}: what it wrote since would be there twice. Take another savepoint, of its "
            "last micro-batch; or give the new query other places"
        )


def tell_old(spark: SparkSession, entry: str, newest: Mapping[str, Any], last: int, successor: str) -> None:
    """Leaves an entry in the old checkpoint: whoever runs on it holds its places no more.

    Args:
        spark: the session.
        entry: its folder.
        newest: the entry of the run that holds the checkpoint.
        last: the last micro-batch that was committed there.
        successor: the new checkpoint.

    Raises:
        CheckpointError: nothing can be written there.
    """
    try:
        write_marker(spark, entry, {**newest, "after": last, "places": [], SUCCESSOR: successor})
    except Exception as error:
        if not of_spark(error):
            raise
        raise CheckpointError(
            f"{entry} cannot be written ({first_sentence(error)}): it is to say that {successor} goes on in the same places, so "
            "that nobody else does. Let the job write there, or give the new query other places"
        ) from error


def successors(entries: Iterable[Mapping[str, Any]]) -> list[str]:
    """The checkpoints of the queries that succeed one, since it was last started itself, the last first.

    Args:
        entries: of its checkpoint's runs, the newest last.
    """
    told = takewhile(lambda entry: SUCCESSOR in entry, reversed(list(entries)))
    return list(dict.fromkeys(str(entry[SUCCESSOR]) for entry in told))


def check_not_succeeded(entries: Iterable[Mapping[str, Any]], checkpoint: str, last_of: Callable[[str], int]) -> None:
    """Refuses to start a query again that another one has succeeded.

    Args:
        entries: of its checkpoint's runs, the newest last.
        checkpoint: its checkpoint.
        last_of: gives the last micro-batch that was committed to a checkpoint.

    Raises:
        CheckpointError: it has; says how to go back.
    """
    for successor in successors(entries):
        if last_of(successor) >= 0:
            raise CheckpointError(
                f"the query of the checkpoint {checkpoint} went on from a savepoint, with the checkpoint {successor}, and writes "
                "to the same places: both together would write everything twice. Start that one. To go back to this one, stop "
                f"the other for good and delete {successor}; what it appended to tables and topics stays there"
            )


def check_only_heir(
    old: Succession, others: Mapping[str, Iterable[Mapping[str, Any]]], shared: Iterable[str], last_of: Callable[[str], int]
) -> None:
    """Refuses to go on in places in which another query went on already, from the same query.

    Args:
        old: what is succeeded.
        others: the entries of the checkpoints of the queries that succeed it as well.
        shared: places that the new one has of the old one.
        last_of: gives the last micro-batch that was committed to a checkpoint.

    Raises:
        CheckpointError: one did; names the places and what to do.
    """
    for checkpoint, entries in others.items():
        both = {place for entry in entries for place in entry["places"]} & set(shared)
        if both and last_of(checkpoint) >= 0:
            raise CheckpointError(
                f"another query went on from {old.checkpoint} already, with the checkpoint {checkpoint}, and wrote to "
                f"{', '.join(sorted(both))}: what it wrote would be withdrawn, or be there twice. Start that one, or from a "
                "savepoint of it; or give the new query other places. To go back to this savepoint, stop the other for good and "
                f"delete {checkpoint}; what it appended to tables and topics stays there"
            )


__all__ = [
    "SUCCESSOR",
    "Succession",
    "check_not_gone_on",
    "check_not_succeeded",
    "check_only_heir",
    "is_of",
    "of_saved",
    "root_of",
    "succession_after",
    "successors",
    "tell_old",
]
