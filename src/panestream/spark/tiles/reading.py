"""Readers of tiles in Spark tasks. A partition has the tiles, rows and questions of some keys, distinguished by ``kind``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from panestream.engine.aggregates import Aggregation
from panestream.engine.kernels.columns import numbers, plain, valid_of
from panestream.engine.kernels.slicing import PaneGrid
from panestream.engine.kernels.storable import typed
from panestream.engine.tiles.as_of import AsOf, AsOfRequest, AsOfRows
from panestream.engine.tiles.format import Tiles
from panestream.engine.tiles.windows import windows_of_tiles
from panestream.spark.compat import cache_zip_imports, without_pandas
from panestream.spark.failures import without_internal_traceback

TILE, ROW, QUESTION = "tile", "row", "question"
_MOST_ROWS = 1 << 14
"""The maximum number of rows in a batch for Spark."""


def part(df: DataFrame, kind: str, keys: Sequence[Column], columns: Sequence[Column]) -> DataFrame:
    """Return rows of one ``kind``: the keys, and all other columns in a struct with the name of the kind."""
    named = [key.alias(f"key_{place}") for place, key in enumerate(keys)]
    inner = [column.alias(f"column_{place}") for place, column in enumerate(columns)]
    return df.select(F.lit(kind).alias("kind"), *named, F.struct(*inner).alias(kind))


def together(parts: Sequence[DataFrame], keys: int, partitions: int) -> DataFrame:
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
            found = _Partition.of(batches, self.aggregation)
            if found is None:
                return
            rows, partials = found.rows(), None
            if rows is not None:
                own = self.aggregation
                times = rows.times if own.needs_timestamps else None
                partials = own.partials(rows.keys, self.grid.panes_of(rows.times), rows.values, times)
            made = windows_of_tiles(self.aggregation, self.grid, found.tiles(), partials)
        yield from made.to_batches(max_chunksize=_MOST_ROWS)


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
            found = _Partition.of(batches, self.asked.aggregation)
            if found is None:
                return
            keys, (time, *given) = found.some(QUESTION)
            questions = AsOfRequest(keys, numbers(time), valid_of(time))
            answers = self.asked.answers(questions, found.tiles(), found.rows())
        columns = [*given, *(column for table in answers for column in table.columns)]
        made = pa.Table.from_arrays(columns, names=[*self.schema, *self.names])
        yield from made.to_batches(max_chunksize=_MOST_ROWS)


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
        ours = self.table.filter(pc.equal(self.table.column("kind"), kind))
        schema = self.aggregation.key_schema
        keys = [typed(plain(ours.column(f"key_{place}")), key.type) for place, key in enumerate(schema)]
        return keys, plain(ours.column(kind)).flatten()


def mapped(df: DataFrame, function: ReadWindows | ReadAnswers, schema: T.StructType) -> DataFrame:
    """Apply a function to each partition."""
    with without_pandas():
        return df.mapInArrow(function.__call__, schema)


__all__ = ["QUESTION", "ROW", "TILE", "ReadAnswers", "ReadWindows", "mapped", "part", "together"]
