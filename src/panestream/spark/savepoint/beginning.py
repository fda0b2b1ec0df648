"""Set and check where the sources begin if a query starts from a savepoint, as far as Spark allows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame

from panestream.errors import CheckpointError, warn
from panestream.spark.checkpoint.lineage import RestoredFrom
from panestream.spark.checkpoint.records import list_files
from panestream.spark.failures import writing
from panestream.spark.places import escaped
from panestream.spark.savepoint.checksums import file_sums, total
from panestream.spark.savepoint.files_read import LISTED, check_tells_files, files_read, left_out
from panestream.spark.savepoint.manifest import SOURCES
from panestream.spark.savepoint.positions import DELTA, FILES, KAFKA, SourcePosition, as_saved, of_saved, read_positions
from panestream.spark.savepoint.source_logs import numbers_of_logs
from panestream.spark.savepoint.whole import Part, check_whole

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_IN_CHECKPOINT = "panestream/files_read"
_DELTA_SETTINGS = {"spark.databricks.delta.changeDataFeed.timestampOutOfRange.enabled": "true"}
"""Lets a Delta stream begin after the last version. Otherwise it fails until somebody writes to the table."""


@dataclass(frozen=True)
class Sources:
    """The positions at which the sources of a query that started from a savepoint must begin.

    With ``own`` they begin where their own options say, without checks, and no files are left out. ``savepoint`` is for errors.
    """

    positions: tuple[SourcePosition, ...] = ()
    savepoint: str = ""
    checkpoint: str = ""
    own: bool = False

    @classmethod
    def of(cls, restored_from: RestoredFrom | None, checkpoint: str) -> Sources:
        """Return the sources of a query whose checkpoint began with the savepoint ``restored_from``, or without one."""
        if restored_from is None:
            return cls(checkpoint=checkpoint)
        return cls(tuple(of_saved(restored_from.sources)), restored_from.path, checkpoint, restored_from.own_position)

    def check(self, df: DataFrame) -> None:
        """Refuse a source that cannot begin at its position, or a changed list of files.

        Warns if the position cannot be checked.
        """
        if self._of_files:
            check_tells_files(df, sum(each.files for each in self._of_files))
        for each in self._of_files:
            _check_listed(df.sparkSession, self.savepoint, each)
        for each in () if self.own else self.positions:
            given = each.options()
            if each.kind == DELTA:
                warn(
                    f"source {each.number} of the savepoint {self.savepoint} is a Delta table, read up to version "
                    f"{given['startingVersion']}, without it. Whether the stream begins there cannot be seen: it must have "
                    f".options(**pst.state.read_savepoint(spark, {self.savepoint!r}).source_options({each.number})), and "
                    "own_position="
                    "True then ends this warning"
                )

    def prepare(self, spark: SparkSession) -> None:
        """Prepare the sources before the query is started.

        The checkpoint gets a copy of the lists of files, which it needs after the savepoint is deleted. Delta's setting stays in
        the session of the stream: its source reads it there when the first micro-batch is planned.
        """
        if any(each.kind == DELTA for each in self.positions):
            for name, value in _DELTA_SETTINGS.items():
                spark.conf.set(name, value)
        for each in self._of_files:
            listed = _listed(spark, self.savepoint, each)
            folder = f"{self.checkpoint.rstrip('/')}/{_IN_CHECKPOINT}/{each.number}"
            with writing(folder):
                listed.write.mode("overwrite").parquet(folder)

    def unread(self, df: DataFrame) -> DataFrame:
        """Return the stream without rows of the savepoint's files, by the lists that :meth:`prepare` wrote into the checkpoint.

        Raises:
            CheckpointError: the rows no longer have their file.
            StateDamagedError: the list in the checkpoint was changed.
        """
        mine = self._of_files
        if not mine:
            return df
        folder = escaped(self.checkpoint.rstrip("/"))

        def read(part: str) -> DataFrame:
            return df.sparkSession.read.schema(LISTED).parquet(f"{folder}/{part}")

        parts = {f"{_IN_CHECKPOINT}/{each.number}": Part(each.files, each.checksums, copied=True) for each in mine}
        check_whole(f"the checkpoint {self.checkpoint}", parts, read)
        return left_out(df, reduce(DataFrame.unionAll, map(read, parts)), sum(each.files for each in mine))

    @property
    def _of_files(self) -> list[SourcePosition]:
        return [each for each in self.positions if each.kind == FILES and each.files and not self.own]

    def check_begun(self, spark: SparkSession) -> None:
        """Raise CheckpointError if Spark's plan of the first micro-batch begins elsewhere; then no output is published yet."""
        if self.own:
            return
        kafka = [each for each in self.positions if each.kind == KAFKA]
        begun = _kafka_beginnings(spark, self.checkpoint) if kafka else {}
        for each in kafka:
            self._check_kafka(each, begun)
        if any(each.kind == DELTA for each in self.positions):
            found = [each for each in read_positions(spark, self.checkpoint, 0) if each.kind == DELTA]
            for each in self.positions:
                if each.kind == DELTA:
                    self._check_delta(each, [json.loads(one.offset) for one in found])

    def _check_kafka(self, saved: SourcePosition, begun: Mapping[int, Mapping[str, Mapping[str, int]]]) -> None:
        ends = saved.ends()
        of_topics = [one for one in (begun.get(saved.number), *begun.values()) if one is not None and set(ends) <= set(one)]
        if not of_topics:
            raise CheckpointError(
                f"source {saved.number} of the savepoint {self.savepoint} is the topic {', '.join(ends)} of Kafka, which the "
                f"query does not read. {self._on_purpose()}"
            )
        there = of_topics[0]
        for topic, partitions in ends.items():
            for partition, end in partitions.items():
                begins = there[topic].get(partition)
                if begins != end:
                    where = "nowhere" if begins is None else f"at offset {begins}"
                    what = "would be lost" if begins is None or begins > end else "would come twice"
                    raise CheckpointError(
                        f"the savepoint {self.savepoint} has partition {partition} of the topic {topic} up to offset {end}, and "
                        f"the stream begins {where}: records between {what}. {self._told(saved)}"
                    )

    def _check_delta(self, saved: SourcePosition, there: Sequence[Mapping[str, Any]]) -> None:
        told = json.loads(saved.offset)
        mine = [one for one in there if one["reservoirId"] == told["reservoirId"]]
        # A table has an offset only after a micro-batch with rows.
        if mine and (mine[0].get("isStartingVersion") or mine[0]["reservoirVersion"] < told["reservoirVersion"]):
            raise CheckpointError(
                f"the savepoint {self.savepoint} has the Delta table of source {saved.number} up to version "
                f"{told['reservoirVersion']}, without it, and the stream begins before that: rows would come twice. "
                f"{self._told(saved)}"
            )

    def _told(self, saved: SourcePosition) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in saved.options().items())
        return (
            f"Give the stream .options(**pst.state.read_savepoint(spark, {self.savepoint!r}).source_options({saved.number})), "
            "which is "
            f"{given} (of from_kafka: starting=), and start on another new checkpoint: this one keeps where it began. "
            f"{self._on_purpose()}"
        )

    def _on_purpose(self) -> str:
        return "If it is meant so, start(…, source_offsets='job') says it"


def save_positions(
    spark: SparkSession, checkpoint: str, batch_id: int, path: str, *, signals: bool = False
) -> list[dict[str, Any]]:
    """Return the positions of a query's sources after a micro-batch, and save the lists of files that were read.

    With ``signals`` the last source is panestream's own, which another checkpoint does not have. Raises CheckpointError if
    Spark's logs are missing.
    """
    positions = read_positions(spark, checkpoint, batch_id)
    logs = numbers_of_logs(spark, checkpoint, positions)
    positions = positions[:-1] if signals else positions
    found = [_with_files(spark, checkpoint, each, logs[each.number], path) for each in positions]
    return as_saved(found)


def _with_files(spark: SparkSession, checkpoint: str, position: SourcePosition, log: int, path: str) -> SourcePosition:
    if position.kind != FILES:
        return position
    folder = _folder(path, position.number)
    last = int(json.loads(position.offset)["logOffset"])
    with writing(folder):
        files_read(spark, checkpoint, log, last).write.mode("overwrite").parquet(folder)
    sums = file_sums(_listed(spark, path, position))
    return replace(position, files=total(sums)[0], checksums=sums)


def unread(spark: SparkSession, df: DataFrame, savepoint: str, position: SourcePosition) -> DataFrame:
    """Return the stream without rows of the files that a source of the savepoint had read.

    Raises:
        CheckpointError: the rows no longer have their file.
        StateDamagedError: the list of files differs from the saved one.
    """
    _check_listed(spark, savepoint, position)
    return left_out(df, _listed(spark, savepoint, position), position.files)


def _check_listed(spark: SparkSession, savepoint: str, position: SourcePosition) -> None:
    """Refuse an incomplete list of files: the missing ones would be read a second time."""

    def read(_: str) -> DataFrame:
        return _listed(spark, savepoint, position)

    part = Part(position.files, position.checksums)
    check_whole(f"the savepoint {savepoint}", {f"{SOURCES}/{position.number}": part}, read)


def _listed(spark: SparkSession, savepoint: str, position: SourcePosition) -> DataFrame:
    return spark.read.schema(LISTED).parquet(_folder(escaped(savepoint), position.number))


def _folder(savepoint: str, number: int) -> str:
    return f"{savepoint.rstrip('/')}/{SOURCES}/{number}"


def _kafka_beginnings(spark: SparkSession, checkpoint: str) -> dict[int, dict[str, dict[str, int]]]:
    """Return the first offsets of each Kafka source of a query, by its number, from Spark's record."""
    logs = list_files(spark, f"{escaped(checkpoint)}/sources/*/0")
    if not logs:
        return {}
    rows = spark.read.text(f"{escaped(checkpoint)}/sources/*/0", wholetext=True).selectExpr(
        "_metadata.file_path AS path", "value"
    )
    found = {}
    for row in rows.collect():
        number, text = row.path.split("/")[-2], row.value[row.value.find("{") :]
        try:
            told = json.loads(text)
        except ValueError:
            continue  # a source of files has lines of JSON there
        if isinstance(told, dict) and all(isinstance(one, dict) for one in told.values()):
            found[int(number)] = told
    return found


__all__ = ["Sources", "save_positions", "unread"]
