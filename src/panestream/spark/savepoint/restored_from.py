"""The savepoint that a checkpoint began with. Entries of the checkpoint store it, and it restricts which queries can start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from panestream.errors import CheckpointError
from panestream.spark.places import file_place
from panestream.spark.succession import Lineage, of_saved


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
        return None if saved is None else cls(**{**saved, "succession": of_saved(saved["succession"])})

    def as_json(self) -> Mapping[str, Any]:
        return asdict(self)

    def is_at(self, path: str) -> bool:
        return file_place(self.path) == file_place(path)


def check_restored_from(
    checkpoint: str, restored: RestoredFrom | None, requested: RestoredFrom | None, *, planned: bool, committed: bool
) -> RestoredFrom | None:
    """Return the savepoint of a checkpoint on which a query starts, or None.

    ``restored`` is from its newest entry, ``requested`` is the savepoint that the start requests. ``planned`` and ``committed``
    say whether the checkpoint has a micro-batch in that state. Raises CheckpointError if the checkpoint began differently.
    """
    if requested is None:
        if restored is not None and not committed:
            raise CheckpointError(
                f"the checkpoint {checkpoint} is to begin with the savepoint {restored.path}, and its first micro-batch was not "
                f"committed yet: start once more with savepoint={restored.path!r}; or on a new checkpoint"
            )
        return restored
    if planned and (restored is None or restored.name != requested.name):
        what = "did not begin with a savepoint" if restored is None else f"began with another savepoint ({restored.path})"
        raise CheckpointError(
            f"the checkpoint {checkpoint} {what}: a query starts from a savepoint on a checkpoint that is new. To go on with "
            f"this checkpoint leave out savepoint=; to start from {requested.path} give another checkpoint"
        )
    return requested
