"""Which folders of a job lie apart: what one part of it writes, another must not read."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

from panestream.jobs.schema import Place
from panestream.spark.places import file_place, is_below, is_hidden

_SIDE_BY_SIDE = "Put them side by side"


def check_apart(place: Place, sources: Mapping[tuple[str, ...], str], sinks: Mapping[str, str], checkpoint: str | None) -> None:
    """Notes a sink or a checkpoint within what is read, and folders one inside the other.

    Args:
        place: the job.
        sources: the path of each source of files, perhaps a pattern, by where it is said.
        sinks: the folder of each output that has one.
        checkpoint: the folder that the job names; None: none.
    """
    written: dict[tuple[str, ...], str] = {("sinks", tag): file_place(path) for tag, path in sinks.items()}
    if checkpoint is not None:
        written[("checkpoint",)] = file_place(checkpoint)
    for where, folder in written.items():
        for source, path in sources.items():
            if is_read(path, folder):
                place.at(*where).note(
                    f"lies in what {_name(source)} reads ({path}): the job would read what it writes. {_SIDE_BY_SIDE}"
                )
            elif is_below(file_place(path), folder):
                place.at(*where).note(
                    f"is a folder in which {_name(source)} lies ({path}): whoever reads the one would find the other's files. "
                    f"{_SIDE_BY_SIDE}"
                )
    known = list(written.items())
    for position, (where, folder) in enumerate(known):
        for other, there in known[:position]:
            if is_below(folder, there) or is_below(there, folder):
                place.at(*where).note(
                    f"and {_name(other)} lie one inside the other: whoever reads the outer folder would find the inner one's "
                    f"files. {_SIDE_BY_SIDE}"
                )


def is_read(path: str, folder: str) -> bool:
    """Whether a source of files that reads ``path``, perhaps a pattern, finds the files of a folder.

    >>> is_read("/in", "file:/in/out"), is_read("/in/*.csv", "file:/in/out"), is_read("/in/*", "file:/in/out")
    (True, False, True)
    >>> is_read("/in[1]", "file:/in[1]/out"), is_read("/in[1]", "file:/in1/out")
    (True, True)
    >>> is_read("/in", "file:/in/_out"), is_read("/in", "file:/in2")
    (False, False)
    """
    pattern, parts = file_place(path).split("/"), folder.split("/")
    matched = (part == one or fnmatchcase(part, one) for part, one in zip(parts, pattern, strict=False))
    if len(parts) < len(pattern) or not all(matched):
        return False
    return not is_hidden("/".join(parts[len(pattern) :]))


def _name(where: tuple[str, ...]) -> str:
    return ".".join(where)


__all__ = ["check_apart", "is_read"]
