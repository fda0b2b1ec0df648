"""Stored tiles as DataFrames: their manifest, the inspection of a store, and the tasks that compute windows and answers.

The manifest is self-contained JSON in the column ``tile``. All tiles of a query have the same text there, and Parquet stores it
once for a block of rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql import types as T

from panestream.engine.aggregates import Aggregation
from panestream.engine.aggregates.saved_partials import parts_of
from panestream.engine.kernels.columns import numbers, plain, typed, valid_of
from panestream.engine.kernels.panes import PaneGrid
from panestream.engine.savepoint.recipes import recipe_json, recipe_of
from panestream.engine.tiles.as_of import AsOf, AsOfRequest, AsOfRows
from panestream.engine.tiles.format import END, TILES_FORMAT, Tiles, partial_columns, windows_of_tiles
from panestream.errors import InvalidPlanError, PanestreamError
from panestream.spark.columns import micros_of
from panestream.spark.compat import cache_zip_imports, without_pandas
from panestream.spark.failures import without_internal_traceback
from panestream.spark.types import to_arrow, to_spark
from panestream.windowing.aggregates import Aggregate
from panestream.windowing.assigners import WindowAssigner

MANIFEST = "tile"
"""The column with the manifest."""


@dataclass(frozen=True, slots=True)
class TilesManifest:
    """The description of some tiles.

    Attributes:
        slices: the windows of the partials.
        keys: the names of the key columns.
        inputs: the input expressions of the aggregates, and their types.
        partials: the column of each partial, and its meaning.
        aggregates: the aggregates as text for people.
    """

    slices: WindowAssigner
    keys: tuple[str, ...]
    inputs: Mapping[str, pa.DataType]
    partials: Mapping[str, str]
    aggregates: tuple[str, ...]

    @classmethod
    def of(
        cls, slices: WindowAssigner, keys: Sequence[str], aggregates: Sequence[Aggregate], aggregation: Aggregation
    ) -> TilesManifest:
        """Return the manifest of the tiles that a query makes."""
        inputs = dict(zip(aggregation.inputs, aggregation.input_types, strict=True))
        partials = dict(zip(partial_columns(aggregation), parts_of(aggregation), strict=True))
        return cls(slices, tuple(keys), inputs, partials, tuple(map(repr, aggregates)))

    def text(self) -> str:
        """Return the manifest as JSON."""
        inputs = {text: to_spark(type_).jsonValue() for text, type_ in self.inputs.items()}
        header = {"format": TILES_FORMAT, "slices": recipe_json(self.slices), "keys": self.keys, "inputs": inputs}
        return json.dumps({**header, "partials": self.partials, "aggregates": self.aggregates})

    @classmethod
    def read(cls, text: str | None) -> TilesManifest:
        """Parse the result of :meth:`text`. Raise InvalidPlanError if it is invalid or of another format."""
        try:
            fields = json.loads(text or "")
            version = fields["format"]
        except (ValueError, TypeError, LookupError) as error:
            raise _no_manifest(text) from error
        if version != TILES_FORMAT:
            newer = "a newer" if isinstance(version, int) and version > TILES_FORMAT else "another"
            raise InvalidPlanError(
                f"the tiles have format {version!r}, this version of panestream reads {TILES_FORMAT}: {newer} one wrote them"
            )
        try:
            slices, keys, aggregates = recipe_of(fields["slices"]), tuple(fields["keys"]), tuple(fields["aggregates"])
            inputs = {text: _type_of(kind, text) for text, kind in fields["inputs"].items()}
            partials = {str(name): str(of) for name, of in fields["partials"].items()}
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            if isinstance(error, PanestreamError):
                raise
            raise _no_manifest(text) from error
        if not isinstance(slices, WindowAssigner):
            raise _no_manifest(text)
        return cls(slices, keys, inputs, partials, aggregates)


def _type_of(kind: Any, text: str) -> pa.DataType:
    field = {"name": "one", "type": kind, "nullable": True, "metadata": {}}
    return to_arrow(T.StructType.fromJson({"type": "struct", "fields": [field]})[0].dataType, f"the input {text!r}")


def _no_manifest(text: str | None) -> InvalidPlanError:
    shown = "null" if text is None else repr(text if len(text) <= 80 else f"{text[:80]}…")
    return InvalidPlanError(
        f"the column {MANIFEST!r} has {shown}, which is not what .panes(...) writes there: keep that column in the store of tiles"
    )


TILE, ROW, QUESTION = "tile", "row", "question"
_MOST_ROWS = 1 << 14
"""The maximum number of rows in a batch for Spark."""


def rows_of_kind(df: DataFrame, kind: str, keys: Sequence[Column], columns: Sequence[Column]) -> DataFrame:
    """Return rows of one ``kind``: the keys, and all other columns in a struct with the name of the kind."""
    named = [key.alias(f"key_{place}") for place, key in enumerate(keys)]
    inner = [column.alias(f"column_{place}") for place, column in enumerate(columns)]
    return df.select(F.lit(kind).alias("kind"), *named, F.struct(*inner).alias(kind))


def partitioned_by_key(parts: Sequence[DataFrame], keys: int, partitions: int) -> DataFrame:
    """Return all parts, with the rows of each key in one partition. Without keys there is one partition."""
    whole = parts[0]
    for other in parts[1:]:
        whole = whole.unionByName(other, allowMissingColumns=True)
    if not keys:
        return whole.repartition(1)
    return whole.repartition(partitions, *(F.col(f"key_{place}") for place in range(keys)))


@dataclass(frozen=True, slots=True)
class ReadWindows:
    """The function for ``mapInArrow`` that computes windows from tiles. ``grid`` has the panes of the windows."""

    aggregation: Aggregation
    grid: PaneGrid

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        cache_zip_imports()
        with without_internal_traceback():
            partition = _Partition.of(batches, self.aggregation)
            if partition is None:
                return
            rows, partials = partition.rows(), None
            if rows is not None:
                own = self.aggregation
                times = rows.times if own.needs_timestamps else None
                partials = own.partials(rows.keys, self.grid.panes_of(rows.times), rows.values, times)
            results = windows_of_tiles(self.aggregation, self.grid, partition.tiles(), partials)
        yield from results.to_batches(max_chunksize=_MOST_ROWS)


@dataclass(frozen=True, slots=True)
class ReadAnswers:
    """The function for ``mapInArrow`` that answers questions.

    Attributes:
        asked: the computation for each question.
        names: the columns of the answers, which are for each length the columns of the aggregates.
        schema: the original columns of the questions.
    """

    asked: AsOf
    names: tuple[str, ...]
    schema: tuple[str, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        cache_zip_imports()
        with without_internal_traceback():
            partition = _Partition.of(batches, self.asked.aggregation)
            if partition is None:
                return
            keys, (time, *columns_of_questions) = partition.some(QUESTION)
            questions = AsOfRequest(keys, numbers(time), valid_of(time))
            answers = self.asked.answers(questions, partition.tiles(), partition.rows())
        columns = [*columns_of_questions, *(column for table in answers for column in table.columns)]
        results = pa.Table.from_arrays(columns, names=[*self.schema, *self.names])
        yield from results.to_batches(max_chunksize=_MOST_ROWS)


@dataclass(frozen=True, slots=True)
class _Partition:
    """The input of a task."""

    table: pa.Table
    aggregation: Aggregation

    @classmethod
    def of(cls, batches: Iterable[pa.RecordBatch], aggregation: Aggregation) -> _Partition | None:
        """Return the partition, or None without batches."""
        given = list(batches)
        return cls(pa.Table.from_batches(given), aggregation) if given else None

    def tiles(self) -> Tiles:
        keys, columns = self.some(TILE)
        return Tiles.of(keys, columns, self.aggregation)

    def rows(self) -> AsOfRows | None:
        """Return the rows, or None if the query does not use rows."""
        if ROW not in self.table.column_names:
            return None
        keys, (time, *values) = self.some(ROW)
        wanted = self.aggregation.input_types
        typed_values = [typed(value, type_) for value, type_ in zip(values, wanted, strict=True)]
        return AsOfRows(keys, numbers(time), typed_values)

    def some(self, kind: str) -> tuple[list[pa.Array], list[pa.Array]]:
        """Return the keys and the columns of one kind."""
        rows = self.table.filter(pc.equal(self.table.column("kind"), kind))
        schema = self.aggregation.key_schema
        keys = [typed(plain(rows.column(f"key_{place}")), key.type) for place, key in enumerate(schema)]
        return keys, plain(rows.column(kind)).flatten()


def map_partitions(df: DataFrame, function: ReadWindows | ReadAnswers, schema: T.StructType) -> DataFrame:
    """Apply a function to each partition."""
    with without_pandas():
        return df.mapInArrow(function.__call__, schema)


_MOST_MANIFESTS = 1000
_FEW = 1 << 16


@dataclass(frozen=True, slots=True)
class StoredTiles:
    """The result of the inspection.

    Attributes:
        manifests: the distinct manifests of the tiles.
        until: the end of the last slice that has a tile, in microseconds.
        few: whether the tiles come directly from files, and one task reads the few tiles faster than a shuffle.
    """

    manifests: tuple[TilesManifest, ...]
    until: int
    few: bool = False


def inspect_tiles(tiles: DataFrame) -> StoredTiles:
    """Inspect all tiles, by two columns. Raise InvalidPlanError for no tiles or for a missing manifest.

    Usually one query wrote them to files, and one job of one stage suffices. Otherwise they are grouped by manifest.
    """
    try:
        stored = _observed(tiles)
    except PySparkException:
        # The union of two places does not have a file name for each row.
        stored = None
    return stored or _grouped(tiles)


def _observed(tiles: DataFrame) -> StoredTiles | None:
    """Return the result for tiles that are in files and have the same manifest, otherwise None."""
    # After a shuffle rows do not have a file name. So with a file name, one task can read all tiles without much computation.
    stored = (F.input_file_name() != F.lit("")).alias("stored")
    seen = tiles.select(F.col(MANIFEST), micros_of(tiles, END, None).alias("until"), stored)
    observation = Observation()
    bounds = [F.min(MANIFEST).alias("least"), F.max(MANIFEST).alias("most"), F.max("until").alias("until")]
    counts = [F.count(F.lit(1)).alias("tiles"), F.count(MANIFEST).alias("said"), F.min("stored").alias("stored")]
    # Metrics come with the rows' own stage, without a second stage for their sum.
    seen.observe(observation, *bounds, *counts).write.format("noop").mode("overwrite").save()
    metrics = observation.get
    if not metrics.get("stored") or metrics["said"] < metrics["tiles"] or metrics["least"] != metrics["most"]:
        return None
    return StoredTiles((TilesManifest.read(metrics["least"]),), metrics["until"], metrics["tiles"] <= _FEW)


def _grouped(tiles: DataFrame) -> StoredTiles:
    latest = F.max(micros_of(tiles, END, None)).alias("until")
    rows = tiles.groupBy(MANIFEST).agg(latest).limit(_MOST_MANIFESTS).collect()
    if not rows:
        raise InvalidPlanError("tiles are missing: an empty store does not define its aggregates")
    return StoredTiles(tuple(TilesManifest.read(row[MANIFEST]) for row in rows), max(row["until"] for row in rows))
