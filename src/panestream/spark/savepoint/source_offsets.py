"""The position of each source of a query: read from Spark's logs, saved, and set and checked for a new query.

Each line of Spark's log of offsets is the end of one source, in the order of Spark's numbers, as JSON in the source's own form.
Spark's source of files cannot begin at a position, so the files that an old query has read are excluded. The savepoint stores
their list as Parquet, and the new checkpoint gets a copy. The copy is needed until the source has listed each file once, and as
long as a micro-batch may come again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from panestream.errors import CheckpointError, warn
from panestream.spark.checkpoint.lineage import RestoredFrom
from panestream.spark.checkpoint.records import list_files
from panestream.spark.compat import silence_analysis_errors
from panestream.spark.failures import first_sentence, writing
from panestream.spark.places import escaped
from panestream.spark.savepoint.integrity import FileSums, WrittenPart, file_sums, total, verify
from panestream.spark.savepoint.manifest import SOURCES

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

FILES, KAFKA, DELTA, ICEBERG, NOTHING, OTHER = "files", "kafka", "delta", "iceberg", "nothing", "other"
_VOID = "-"
"""Spark's entry for a source that had no rows yet."""
_WHOLE_VERSION = (-1, -100)
"""Delta's index before the first file of a version, in the two versions of its offsets."""
_WAY_OUT = (
    "start(savepoint=, source_offsets='job') lets the options of the source decide where it starts, without checks: rows may be "
    "lost or repeated"
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
        record: dict[str, dict[str, int]] = json.loads(self.offset)
        return record

    def _version(self) -> int:
        record = json.loads(self.offset)
        version, index = int(record["reservoirVersion"]), int(record["index"])
        if record.get("isStartingVersion") or index not in _WHOLE_VERSION:
            first = "the table as it was found" if record.get("isStartingVersion") else f"version {version}"
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
            f"the positions of the sources after micro-batch {batch_id} are unknown: Spark's log, "
            f"{checkpoint}/offsets/{batch_id}, "
            f"{said}; the supported version is v1"
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
        record = json.loads(offset)
    except ValueError:
        return OTHER
    if not isinstance(record, dict):
        return OTHER
    if set(record) == {"logOffset"}:
        return FILES
    if {"reservoirId", "reservoirVersion", "index"} <= set(record):
        return DELTA
    if {"snapshot_id", "position", "scan_all_files"} <= set(record):
        return ICEBERG
    return KAFKA if record and all(map(_is_partitions, record.values())) else OTHER


def _is_partitions(value: object) -> bool:
    """Return whether the value maps Kafka's partitions to offsets."""
    if not isinstance(value, dict) or not value:
        return False
    return all(re.fullmatch(r"\d+", number) and isinstance(offset, int) for number, offset in value.items())


def positions_as_saved(positions: Sequence[SourcePosition]) -> list[dict[str, Any]]:
    """Convert positions for the manifest."""
    return [asdict(each) for each in positions]


def positions_of_saved(saved: Sequence[Mapping[str, Any]]) -> list[SourcePosition]:
    """Convert positions from the manifest."""
    return [
        SourcePosition(
            int(each["number"]),
            str(each["kind"]),
            str(each["offset"]),
            int(each.get("files", 0)),
            dict(each.get("checksums", {})),
        )
        for each in saved
    ]


_WITH_LOGS = (FILES, KAFKA)
"""Sources that are known to keep a log."""


def numbers_of_logs(spark: SparkSession, checkpoint: str, positions: Sequence[SourcePosition]) -> Mapping[int, int]:
    """Return the number of the log folder by the number of the source. Looked up only if there are sources of files.

    Raises CheckpointError if some inputs are the same DataFrame and cannot be identified.
    """
    alike = {each.number: each.number for each in positions}
    if all(each.kind != FILES for each in positions):
        return alike  # the logs of other sources are not needed
    place = checkpoint.rstrip("/")
    folders = {
        int(name) for path in list_files(spark, f"{escaped(place)}/sources/*/*") if (name := path.split("/")[-2]).isdigit()
    }
    if all(each.number in folders for each in positions if each.kind in _WITH_LOGS):
        return alike
    if all(each.kind in _WITH_LOGS for each in positions):
        histories = _histories(spark, place, len(positions))
        firsts = list(dict.fromkeys(histories))
        if set(range(len(firsts))) == folders:
            return {number: firsts.index(history) for number, history in enumerate(histories)}
    raise CheckpointError(
        f"{len(positions)} inputs of the query have {len(folders)} logs in {place}/sources: some of them are one DataFrame, "
        f"which Spark reads as one source, so the logs are ambiguous. Read it separately for each (spark.readStream…load(…) for "
        "every input), with a new checkpoint"
    )


def _histories(spark: SparkSession, checkpoint: str, sources: int) -> list[tuple[str, ...]]:
    """Return the ends of each source after every micro-batch that is still in Spark's log."""
    logs = list_files(spark, f"{escaped(checkpoint)}/offsets/*")
    texts = [row.value.splitlines()[2:] for row in spark.read.text(logs, wholetext=True).collect()] if logs else []
    kept = [lines for lines in texts if len(lines) == sources]
    return [tuple(lines[number] for lines in kept) for number in range(sources)]


_LITERALS = 20_000
"""The maximum number of names in the query itself, with which Spark skips a file without opening it (decision 0147)."""
_ENTRY = "path string, timestamp bigint, batchId bigint"
_PATH = "path"
LISTED = f"{_PATH} string"
"""The schema of a list of files."""
_OF_FILE = "_metadata.file_path"
_LOCAL = "file:/+"
"""Spark writes a local path with one slash in some places, and with three in others."""


def files_read(spark: SparkSession, checkpoint: str, number: int, last: int) -> DataFrame:
    """Return the files that a source has read, in the column ``path``; raises CheckpointError if the log is missing.

    ``number`` is that of the source's log (:func:`~panestream.spark.savepoint.source_offsets.numbers_of_logs`), and ``last`` the
    last entry that counts (``logOffset``).
    """
    folder = f"{checkpoint.rstrip('/')}/sources/{number}"
    names = [path.rsplit("/", 1)[-1] for path in list_files(spark, escaped(folder))]
    logs = [name for name in names if name.removesuffix(".compact").isdigit()]
    # A compacted log includes all earlier entries, which may be deleted, and perhaps later ones.
    if not any(int(name.removesuffix(".compact")) >= last for name in logs):
        raise CheckpointError(f"the files that source {number} has read are unknown: its log in {folder} lacks the entry {last}")
    lines = spark.read.text([f"{escaped(folder)}/{name}" for name in logs])
    entries = lines.where(F.col("value").startswith("{")).select(F.from_json("value", _ENTRY).alias("entry")).select("entry.*")
    return entries.where(F.col("batchId") <= last).select(_as_one_spelling(F.col(_PATH)).alias(_PATH)).distinct()


def without_files(df: DataFrame, files: DataFrame, count: int) -> DataFrame:
    """Return a stream without the rows of ``count`` files, as :func:`files_read` returns them. If few, they are not opened.

    ``df`` is the stream or a row-by-row transformation of it. Raises CheckpointError if its rows no longer have their file.
    """
    if count == 0:
        return df
    check_rows_have_files(df, count)
    return _without(df, files, count)


def check_rows_have_files(df: DataFrame, count: int) -> None:
    """Raise CheckpointError with the way out if a stream's rows no longer have their file; ``count`` is for the message."""
    try:
        with silence_analysis_errors():
            _ = df.select(F.col(_OF_FILE)).columns
    except AnalysisException as error:
        raise CheckpointError(
            f"the savepoint says which files were read ({count}), but start() cannot leave them out, because the file of a row "
            f"is unknown after a union, an aggregation, a Python function or a join. Leave them out when the files are read: df "
            f"= "
            "pst.state.read_savepoint(spark, DIR).unread(spark.readStream…load(…), source=0), for each source with its number "
            "(in a join the left stream is 0 and the right stream is 1, see .positions), and start(…, source_offsets='job'). "
            f"(Spark says: {first_sentence(error)})"
        ) from error


def _without(df: DataFrame, files: DataFrame, count: int) -> DataFrame:
    if count <= _LITERALS:
        return df.where(~_among([row[_PATH] for row in files.collect()]))
    # Add a column first, because in a join the list, which is read from files too, would also have a path of that name.
    with_file = df.withColumn("__panestream_file", _as_one_spelling(F.col(_OF_FILE)))
    listed = F.broadcast(files.select(F.col(_PATH).alias("__panestream_file")))
    return with_file.join(listed, "__panestream_file", "left_anti").drop("__panestream_file")


def _among(paths: Sequence[str]) -> Column:
    """Return whether a row's file is in ``paths``, as text for Spark's parser, which can take thousands of names."""
    every = [spelling for path in sorted(paths) for spelling in _spellings(path)]
    # Spark's parser substitutes variables for ${...}, even in literals.
    plain = [path for path in every if not set(path) & set("'\\$")]
    odd = sorted(set(every) - set(plain))
    found = F.col(_OF_FILE).isin(odd) if odd else F.lit(False)
    if plain:
        # Text, since a separate literal for each takes milliseconds.
        listed = ", ".join(f"'{path}'" for path in plain)
        found = found | F.expr(f"{_OF_FILE} IN ({listed})")
    return F.coalesce(found, F.lit(False))


def _as_one_spelling(path: Column) -> Column:
    return F.regexp_replace(path, f"^{_LOCAL}", "file:/")


def _spellings(path: str) -> list[str]:
    """Return how Spark may write the path.

    >>> _spellings("file:/in/a.json"), _spellings("hdfs://host/in/a.json")
    (['file:/in/a.json', 'file:///in/a.json'], ['hdfs://host/in/a.json'])
    """
    return [path, "file:///" + path.removeprefix("file:/")] if path.startswith("file:/") else [path]


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
    def of(cls, restored: RestoredFrom | None, checkpoint: str) -> Sources:
        """Return the sources of a query whose checkpoint began with the savepoint ``restored``, or without one."""
        if restored is None:
            return cls(checkpoint=checkpoint)
        return cls(tuple(positions_of_saved(restored.sources)), restored.path, checkpoint, restored.own_position)

    def check(self, df: DataFrame) -> None:
        """Refuse a source that cannot begin at its position, or a changed list of files.

        Warns if the position cannot be checked.
        """
        if self._file_sources:
            check_rows_have_files(df, sum(each.files for each in self._file_sources))
        for each in self._file_sources:
            _check_listed(df.sparkSession, self.savepoint, each)
        for each in () if self.own else self.positions:
            given = each.options()
            if each.kind == DELTA:
                warn(
                    f"source {each.number} of the savepoint {self.savepoint} is a Delta table, read up to version "
                    f"{given['startingVersion']}, exclusive. panestream cannot check if the stream starts there: it must have "
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
        for each in self._file_sources:
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
        mine = self._file_sources
        if not mine:
            return df
        folder = escaped(self.checkpoint.rstrip("/"))

        def read(part: str) -> DataFrame:
            return df.sparkSession.read.schema(LISTED).parquet(f"{folder}/{part}")

        parts = {f"{_IN_CHECKPOINT}/{each.number}": WrittenPart(each.files, each.checksums, copied=True) for each in mine}
        verify(f"the checkpoint {self.checkpoint}", parts, read)
        return without_files(df, reduce(DataFrame.unionAll, map(read, parts)), sum(each.files for each in mine))

    @property
    def _file_sources(self) -> list[SourcePosition]:
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
        of_topics = [each for each in (begun.get(saved.number), *begun.values()) if each is not None and set(ends) <= set(each)]
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
                        f"the stream begins {where}: records between {what}. {self._way_out(saved)}"
                    )

    def _check_delta(self, saved: SourcePosition, there: Sequence[Mapping[str, Any]]) -> None:
        record = json.loads(saved.offset)
        mine = [each for each in there if each["reservoirId"] == record["reservoirId"]]
        # A table has an offset only after a micro-batch with rows.
        if mine and (mine[0].get("isStartingVersion") or mine[0]["reservoirVersion"] < record["reservoirVersion"]):
            raise CheckpointError(
                f"the savepoint {self.savepoint} has the Delta table of source {saved.number} up to version "
                f"{record['reservoirVersion']}, without it, and the stream begins before that: rows would come twice. "
                f"{self._way_out(saved)}"
            )

    def _way_out(self, saved: SourcePosition) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in saved.options().items())
        return (
            f"Give the stream .options(**pst.state.read_savepoint(spark, {self.savepoint!r}).source_options({saved.number})), "
            "which is "
            f"{given} (of from_kafka: starting=), and start on another new checkpoint, because this checkpoint keeps its start. "
            f"{self._on_purpose()}"
        )

    def _on_purpose(self) -> str:
        return "If this is intended, write start(…, source_offsets='job')"


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
    return positions_as_saved(found)


def _with_files(spark: SparkSession, checkpoint: str, position: SourcePosition, log: int, path: str) -> SourcePosition:
    if position.kind != FILES:
        return position
    folder = _folder(path, position.number)
    last = int(json.loads(position.offset)["logOffset"])
    with writing(folder):
        files_read(spark, checkpoint, log, last).write.mode("overwrite").parquet(folder)
    sums = file_sums(_listed(spark, path, position))
    return replace(position, files=total(sums)[0], checksums=sums)


def without_read_files(spark: SparkSession, df: DataFrame, savepoint: str, position: SourcePosition) -> DataFrame:
    """Return the stream without rows of the files that a source of the savepoint had read.

    Raises:
        CheckpointError: the rows no longer have their file.
        StateDamagedError: the list of files differs from the saved one.
    """
    _check_listed(spark, savepoint, position)
    return without_files(df, _listed(spark, savepoint, position), position.files)


def _check_listed(spark: SparkSession, savepoint: str, position: SourcePosition) -> None:
    """Refuse an incomplete list of files: the missing ones would be read a second time."""

    def read(_: str) -> DataFrame:
        return _listed(spark, savepoint, position)

    part = WrittenPart(position.files, position.checksums)
    verify(f"the savepoint {savepoint}", {f"{SOURCES}/{position.number}": part}, read)


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
            record = json.loads(text)
        except ValueError:
            continue  # a source of files has lines of JSON there
        if isinstance(record, dict) and all(isinstance(each, dict) for each in record.values()):
            found[int(number)] = record
    return found
