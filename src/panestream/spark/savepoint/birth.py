"""Which savepoint a checkpoint was born of: it rests in the checkpoint's entries, and says what may be started on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from panestream.errors import CheckpointError
from panestream.spark.places import file_place
from panestream.spark.succession import Succession, of_saved


@dataclass(frozen=True)
class Birth:
    """The savepoint that a query starts from.

    Attributes:
        name: the savepoint's.
        path: where it was.
        succession: what the query has from the one that it was taken from; None: that was history.
        sources: how far the sources were read (:mod:`panestream.spark.savepoint.positions`).
        own_position: whether the sources begin where their own options say, whatever the savepoint says.
        until: rows with an event time before this are in the history that it was made of; None: it was not, or all of history is.
    """

    name: str
    path: str
    succession: Succession | None = None
    sources: Sequence[Mapping[str, Any]] = ()
    own_position: bool = False
    until: int | None = None

    @classmethod
    def of_json(cls, saved: Mapping[str, Any] | None) -> Birth | None:
        """What :meth:`as_json` gave."""
        return None if saved is None else cls(**{**saved, "succession": of_saved(saved["succession"])})

    def as_json(self) -> Mapping[str, Any]:
        """For the checkpoint's entries."""
        return asdict(self)

    def lies_at(self, path: str) -> bool:
        """Whether the savepoint was there."""
        return file_place(self.path) == file_place(path)


def birth_of_next(checkpoint: str, born: Birth | None, asked: Birth | None, *, planned: bool, committed: bool) -> Birth | None:
    """The birth of a checkpoint on which a query is to be started.

    Args:
        checkpoint: its path, for errors.
        born: what its newest entry says.
        asked: the savepoint that the query is to start from; None: it was given none.
        planned: whether a micro-batch is in the checkpoint, begun or done.
        committed: whether one is done.

    Raises:
        CheckpointError: the checkpoint was born otherwise.
    """
    if asked is None:
        if born is not None and not committed:
            raise CheckpointError(
                f"the checkpoint {checkpoint} is to begin with the savepoint {born.path}, and its first micro-batch was not "
                f"committed yet: start once more with savepoint={born.path!r}; or on a new checkpoint"
            )
        return born
    if planned and (born is None or born.name != asked.name):
        what = "did not begin with a savepoint" if born is None else f"began with another savepoint ({born.path})"
        raise CheckpointError(
            f"the checkpoint {checkpoint} {what}: a query starts from a savepoint on a checkpoint that is new. To go on with "
            f"this checkpoint leave out savepoint=; to start from {asked.path} give another checkpoint"
        )
    return asked


__all__ = ["Birth", "birth_of_next"]
