"""Read the position of each source of a query from Spark's log of offsets, and convert it to options of a reader.

Each line of that log is the end of one source, in the order of Spark's numbers. It is JSON in the source's own form.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from panestream.errors import CheckpointError
from panestream.spark.checkpoint.records import list_files
from panestream.spark.places import escaped
from panestream.spark.savepoint.checksums import FileSums

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES, KAFKA, DELTA, ICEBERG, NOTHING, OTHER = "files", "kafka", "delta", "iceberg", "nothing", "other"
_VOID = "-"
"""Spark's entry for a source that had no rows yet."""
_WHOLE_VERSION = (-1, -100)
"""Delta's index before the first file of a version, in the two versions of its offsets."""
_WAY_OUT = (
    "start(savepoint=, source_offsets='job') leaves it to the source's own options where it begins: then rows may be lost or "
    "come "
    "twice, and nothing is checked"
)


@dataclass(frozen=True)
class SourcePosition:
    """The position of one source of a query.

    ``kind`` is one of the constants above, such as ``files``, or ``nothing`` before the first row. ``offset`` is the text in
    Spark's log. A source of ``files`` has the number of ``files`` that it has read, and the checksums of their list (empty if
    unknown).
    """

    number: int
    kind: str
    offset: str
    files: int = 0
    checksums: FileSums = field(default_factory=dict, repr=False, hash=False)

    def options(self) -> dict[str, str]:
        """Return the options with which a stream begins here, or raise CheckpointError with the way out if it cannot.

        The result is empty before the first row, and for files, which ``start`` handles.
        """
        if self.kind in (FILES, NOTHING):
            return {}
        if self.kind == KAFKA:
            return {"startingOffsets": json.dumps(self.ends(), separators=(",", ":"), sort_keys=True)}
        if self.kind == DELTA:
            return {"startingVersion": str(self._version())}
        if self.kind == ICEBERG:
            raise CheckpointError(
                f"source {self.number} is an Iceberg table, read up to {self.offset}: Spark can begin such a stream at a time "
                "(stream-from-timestamp), not at a snapshot. Find the commit time of the snapshot after it in the table's "
                f"snapshots, and give that; {_WAY_OUT}"
            )
        raise CheckpointError(
            f"source {self.number} was read up to {self.offset}; by which option a stream of it begins there is not known (of "
            f"Kafka, Delta and files it is). {_WAY_OUT}"
        )

    def ends(self) -> dict[str, dict[str, int]]:
        """Return Kafka's first unread offset of each topic and partition."""
        told: dict[str, dict[str, int]] = json.loads(self.offset)
        return told

    def _version(self) -> int:
        told = json.loads(self.offset)
        version, index = int(told["reservoirVersion"]), int(told["index"])
        if told.get("isStartingVersion") or index not in _WHOLE_VERSION:
            first = "the table as it was found" if told.get("isStartingVersion") else f"version {version}"
            raise CheckpointError(
                f"source {self.number} is a Delta table that was read up to the midst of {first} (file {index}): a stream can "
                "begin at a whole version only. Let the old query go on with trigger='availableNow', which ends at one's end, "
                f"and take the savepoint then; {_WAY_OUT}"
            )
        return version


def read_positions(spark: SparkSession, checkpoint: str, batch_id: int) -> list[SourcePosition]:
    """Return the position of each source after a micro-batch; raises CheckpointError if Spark's log is missing or unknown."""
    log = f"{escaped(checkpoint)}/offsets/{batch_id}"
    found = spark.read.text(log, wholetext=True).collect() if list_files(spark, log) else []
    lines = found[0].value.splitlines() if found else []
    if not lines or lines[0].strip() != "v1":
        said = f"begins with {lines[0]!r}" if lines else "is gone"
        raise CheckpointError(
            f"where the sources were after micro-batch {batch_id} cannot be told: Spark's log, {checkpoint}/offsets/{batch_id}, "
            f"{said}; known is version v1"
        )
    # The second line is Spark's data of the micro-batch, perhaps empty.
    return [SourcePosition(number, kind_of(text), text) for number, text in enumerate(lines[2:])]


def kind_of(offset: str) -> str:
    """Return the kind of source that writes such an offset.

    >>> kind_of('{"logOffset":3}'), kind_of('{"clicks":{"0":23}}'), kind_of("-"), kind_of("17")
    ('files', 'kafka', 'nothing', 'other')
    """
    if offset.strip() == _VOID:
        return NOTHING
    try:
        told = json.loads(offset)
    except ValueError:
        return OTHER
    if not isinstance(told, dict):
        return OTHER
    if set(told) == {"logOffset"}:
        return FILES
    if {"reservoirId", "reservoirVersion", "index"} <= set(told):
        return DELTA
    if {"snapshot_id", "position", "scan_all_files"} <= set(told):
        return ICEBERG
    return KAFKA if told and all(map(_is_partitions, told.values())) else OTHER


def _is_partitions(value: object) -> bool:
    """Return whether the value maps Kafka's partitions to offsets."""
    if not isinstance(value, dict) or not value:
        return False
    return all(re.fullmatch(r"\d+", number) and isinstance(offset, int) for number, offset in value.items())


def as_saved(positions: Sequence[SourcePosition]) -> list[dict[str, Any]]:
    """Convert positions for the manifest."""
    return [asdict(each) for each in positions]


def of_saved(saved: Sequence[Mapping[str, Any]]) -> list[SourcePosition]:
    """Convert positions from the manifest."""
    return [
        SourcePosition(
            int(one["number"]), str(one["kind"]), str(one["offset"]), int(one.get("files", 0)), dict(one.get("checksums", {}))
        )
        for one in saved
    ]


__all__ = [
    "DELTA",
    "FILES",
    "ICEBERG",
    "KAFKA",
    "NOTHING",
    "OTHER",
    "SourcePosition",
    "as_saved",
    "kind_of",
    "of_saved",
    "read_positions",
]
