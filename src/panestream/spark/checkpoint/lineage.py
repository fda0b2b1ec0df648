"""Succession: a query that starts from a savepoint continues another query in the same places.

Spark numbers the new query's micro-batches from 0 again. Sinks continue the old numbers from the savepoint, so they replace only
what the old query left of an uncommitted micro-batch. An entry in the old query's checkpoint stops the old query.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from panestream.errors import CheckpointError
from panestream.spark.checkpoint.epoch import (
    SUCCESSOR,
)
from panestream.spark.checkpoint.records import write_marker
from panestream.spark.failures import first_sentence, of_spark
from panestream.spark.places import file_place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_JOINT = "+"


@dataclass(frozen=True)
class Lineage:
    """The inheritance from earlier queries, stored in the savepoint and in each entry of the new checkpoint.

    Attributes:
        queries: the identities of the earlier queries, the first one first.
        first: the number that sinks use for micro-batch 0.
        places: the places of outputs that received committed micro-batches.
        checkpoint: the checkpoint of the last earlier query.
        batch_id: the micro-batch of that query after which the savepoint was taken.
    """

    queries: tuple[str, ...]
    first: int
    places: tuple[str, ...] = ()
    checkpoint: str = ""
    batch_id: int = -1

    @property
    def root(self) -> str:
        """The identity of the first query. The identities of its successors begin with it."""
        return root_of(self.queries[0])

    def new_identity(self) -> str:
        """Return an identity for a query that succeeds these."""
        return f"{self.root}{_JOINT}{uuid.uuid4().hex}"

    def as_saved(self) -> dict[str, Any]:
        """Return the form in savepoints and entries."""
        return asdict(self)


def root_of(query: str) -> str:
    """Return the identity of the first query in the line of succession of this one."""
    return query.split(_JOINT, 1)[0]


def is_writer_of(writer: str, lineage: str) -> bool:
    """Return whether a writer (query and output as one text) belongs to a line of succession.

    >>> [is_writer_of(each, "q/main") for each in ("q/main", "q+17/main", "q/late", "other/main")]
    [True, True, False, False]
    """
    query, _, output = writer.rpartition("/")
    return f"{root_of(query)}/{output}" == lineage


def lineage_of_saved(saved: Mapping[str, Any] | None) -> Lineage | None:
    """Read the result of :meth:`Lineage.as_saved`, or return None if the query did not succeed another."""
    if not saved:
        return None
    queries, places = tuple(saved["queries"]), tuple(saved["places"])
    return Lineage(queries, int(saved["first"]), places, str(saved["checkpoint"]), int(saved["batch_id"]))


def lineage_after(entries: Iterable[Mapping[str, Any]], checkpoint: str, batch_id: int) -> Lineage:
    """Return what a query inherits that starts from the savepoint of ``batch_id``. The newest of ``entries`` is the last."""
    runs = list(entries)
    before = lineage_of_saved((runs[-1].get("born") or {}).get("succession")) if runs else None
    queries = dict.fromkeys([*(before.queries if before else ()), *(str(run["query"]) for run in runs)])
    places = {place for run in runs if batch_id > run["after"] for place in run["places"]}
    places |= set(before.places if before else ())
    first = (before.first if before else 0) + batch_id + 1
    return Lineage(tuple(queries), first, tuple(sorted(places)), checkpoint, batch_id)


def check_not_continued(old: Lineage, last: int, shared: Iterable[str]) -> None:
    """Raise CheckpointError if the old query committed ``last`` to the shared places after its savepoint."""
    if last > old.batch_id:
        raise CheckpointError(
            f"the savepoint is of micro-batch {old.batch_id}, but the query went on in {old.checkpoint} up to micro-batch {last} "
            f"and wrote to {', '.join(sorted(shared))}: its later rows would be written twice. Take another savepoint of its "
            f"last micro-batch, or give the new query other outputs"
        )


def fence_predecessor(spark: SparkSession, entry: str, newest: Mapping[str, Any], last: int, successor: str) -> None:
    """Write an entry into the old checkpoint that stops its query. Raise CheckpointError if Spark cannot write there."""
    try:
        write_marker(spark, entry, {**newest, "after": last, "places": [], SUCCESSOR: successor})
    except Exception as error:
        if not of_spark(error):
            raise
        raise CheckpointError(
            f"{entry} cannot be written ({first_sentence(error)}): it must record that {successor} continues with the same "
            f"outputs. Let the job write there, or give the new query other outputs"
        ) from error


def successors(entries: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the checkpoints of the successors since the last start, the last first. The newest of ``entries`` is the last."""
    fencing = takewhile(lambda entry: SUCCESSOR in entry, reversed(list(entries)))
    return list(dict.fromkeys(str(entry[SUCCESSOR]) for entry in fencing))


def check_not_succeeded(entries: Iterable[Mapping[str, Any]], checkpoint: str, last_of: Callable[[str], int]) -> None:
    """Raise CheckpointError if a successor of this query has committed. ``last_of`` returns the last commit of a checkpoint."""
    for successor in successors(entries):
        if last_of(successor) >= 0:
            raise CheckpointError(
                f"the query of the checkpoint {checkpoint} has a successor that started from a savepoint, with the checkpoint "
                f"{successor}, and writes to the same outputs: both would write everything twice. Start the successor; or to "
                f"return to this query, stop the successor permanently and delete {successor} (its rows stay in tables and "
                f"topics)"
            )


def check_only_successor(
    old: Lineage, others: Mapping[str, Iterable[Mapping[str, Any]]], shared: Iterable[str], last_of: Callable[[str], int]
) -> None:
    """Raise CheckpointError if another successor (``others``: entries by checkpoint) has committed to the shared places."""
    for checkpoint, entries in others.items():
        both = {place for entry in entries for place in entry["places"]} & set(shared)
        if both and last_of(checkpoint) >= 0:
            raise CheckpointError(
                f"another query continued from {old.checkpoint} already, with the checkpoint {checkpoint}, and wrote to "
                f"{', '.join(sorted(both))}: its rows would be deleted or repeated. Start that query, or start from a savepoint "
                f"of it, or give the new query other outputs; to return to this savepoint, stop that query permanently and "
                f"delete {checkpoint} (its rows stay in tables and topics)"
            )


@dataclass(frozen=True)
class RestoredFrom:
    """The savepoint that a query starts from.

    Attributes:
        succession: the identity and places that the query inherits, or None.
        own_position: whether sources begin where their own options say, not at their positions in ``sources``.
        until: the time before which rows are in the history, or None without history or without limit.
    """

    name: str
    path: str
    succession: Lineage | None = None
    sources: Sequence[Mapping[str, Any]] = ()
    own_position: bool = False
    until: int | None = None

    @classmethod
    def of_json(cls, saved: Mapping[str, Any] | None) -> RestoredFrom | None:
        return None if saved is None else cls(**{**saved, "succession": lineage_of_saved(saved["succession"])})

    def as_json(self) -> Mapping[str, Any]:
        return asdict(self)

    def lies_at(self, path: str) -> bool:
        return file_place(self.path) == file_place(path)


def next_restored_from(
    checkpoint: str, earlier: RestoredFrom | None, requested: RestoredFrom | None, *, planned: bool, committed: bool
) -> RestoredFrom | None:
    """Return the savepoint that a checkpoint begins with, on which a query starts.

    ``earlier`` is from its newest entry, ``requested`` from the start. ``planned`` and ``committed`` say whether the
    checkpoint has a micro-batch in that state. Raises CheckpointError if the checkpoint began differently.
    """
    if requested is None:
        if earlier is not None and not committed:
            raise CheckpointError(
                f"the checkpoint {checkpoint} is to begin with the savepoint {earlier.path}, and its first micro-batch was not "
                f"committed yet: start once more with savepoint={earlier.path!r}; or on a new checkpoint"
            )
        return earlier
    if planned and (earlier is None or earlier.name != requested.name):
        what = "did not begin with a savepoint" if earlier is None else f"began with another savepoint ({earlier.path})"
        raise CheckpointError(
            f"the checkpoint {checkpoint} {what}: a query starts from a savepoint on a checkpoint that is new. To go on with "
            f"this checkpoint leave out savepoint=; to start from {requested.path} give another checkpoint"
        )
    return requested
