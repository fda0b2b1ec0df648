"""Rows that arrive as a stream in the micro-batches one wants: for examples, and for tests of one's own windows on Spark."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from panestream.engine.kernels.python_values import arrow_column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_EPOCH = 1_700_000_000


class MicroBatches:
    """Rows in Parquet files, one file for each micro-batch: the same rows as a stream and as a batch.

    With the trigger ``availableNow`` a stream takes the files one by one and then ends; later, with the same checkpoint, those
    that were added meanwhile.

        clicks = MicroBatches(spark, "clicks", "user string, at timestamp")
        clicks.add([("ann", noon), ("bob", noon)])      # the first micro-batch
        clicks.add([("ann", one_o_clock)])              # the second
        pst.stream(clicks.stream()) ...

    Args:
        spark: the session.
        folder: a directory of this machine, made where there is none.
        schema: the columns as DDL. A ``timestamp`` is given as a ``datetime`` with a time zone.
    """

    def __init__(self, spark: SparkSession, folder: str | Path, schema: str) -> None:
        # Here, not above: the rest of panestream.testing needs no Spark.
        from panestream.spark.places import escaped
        from panestream.spark.types import schema_of

        self._spark = spark
        self._folder = Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._read_from = escaped(str(self._folder))
        self._schema = schema
        self._arrow: pa.Schema = schema_of(spark, schema)

    def add(self, rows: Sequence[Sequence[Any]]) -> MicroBatches:
        """One more micro-batch; returns the object itself."""
        number = len(list(self._folder.glob("*.parquet")))
        columns: Iterable[Sequence[Any]] = zip(*rows, strict=True) if rows else [()] * len(self._arrow)
        arrays = [arrow_column(column, field) for column, field in zip(columns, self._arrow, strict=True)]
        path = self._folder / f"{number:06d}.parquet"
        # Spark must not see half a file, and takes files in the order of their times, of which two may be equal.
        half = path.with_suffix(".writing")
        pq.write_table(pa.Table.from_arrays(arrays, schema=self._arrow), half)
        os.utime(half, (_EPOCH + number, _EPOCH + number))
        half.rename(path)
        return self

    def stream(self) -> DataFrame:
        """The rows as a stream, a file for each micro-batch."""
        reader = self._spark.readStream.schema(self._schema).option("maxFilesPerTrigger", 1)
        return reader.option("pathGlobFilter", "*.parquet").parquet(self._read_from)

    def batch(self) -> DataFrame:
        """All rows so far, at once."""
        return self._spark.read.schema(self._schema).option("pathGlobFilter", "*.parquet").parquet(self._read_from)
