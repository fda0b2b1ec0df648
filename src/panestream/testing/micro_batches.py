"""Rows that arrive as a stream in chosen micro-batches, for examples and for tests of windows on Spark."""

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

    With the trigger ``availableNow``, a stream reads the files one by one and then ends. A later run with the same checkpoint
    reads the files added since then.

        clicks = MicroBatches(spark, "clicks", "user string, at timestamp")
        clicks.add([("ann", noon), ("bob", noon)])      # the first micro-batch
        pst.stream(clicks.stream()) ...

    Args:
        spark: the session.
        folder: a local directory, created if missing.
        schema: the columns as DDL. Values of a ``timestamp`` are ``datetime`` with a time zone.

    Examples:
        >>> from datetime import datetime, timezone
        >>> noon = datetime(2026, 5, 1, 12, tzinfo=timezone.utc)
        >>> clicks = pst.testing.MicroBatches(spark, folder, "user string, at timestamp")
        >>> clicks = clicks.add([("ann", noon), ("bob", noon)]).add([("ann", noon)])
        >>> clicks.batch().count(), clicks.stream().isStreaming
        (3, True)
    """

    def __init__(self, spark: SparkSession, folder: str | Path, schema: str) -> None:
        # Imported late because other tools of panestream.testing do not need Spark.
        from panestream.spark.places import escaped
        from panestream.spark.types import schema_of

        self._spark = spark
        self._folder = Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._read_from = escaped(str(self._folder))
        self._schema = schema
        self._arrow: pa.Schema = schema_of(spark, schema)

    def add(self, rows: Sequence[Sequence[Any]]) -> MicroBatches:
        """Add a micro-batch and return the object itself."""
        number = len(list(self._folder.glob("*.parquet")))
        columns: Iterable[Sequence[Any]] = zip(*rows, strict=True) if rows else [()] * len(self._arrow)
        arrays = [arrow_column(column, field) for column, field in zip(columns, self._arrow, strict=True)]
        path = self._folder / f"{number:06d}.parquet"
        # Spark must not see an incomplete file. It sorts files by time, and two times may be equal.
        half = path.with_suffix(".writing")
        pq.write_table(pa.Table.from_arrays(arrays, schema=self._arrow), half)
        os.utime(half, (_EPOCH + number, _EPOCH + number))
        half.rename(path)
        return self

    def stream(self) -> DataFrame:
        """Return the rows as a stream with one file in each micro-batch."""
        reader = self._spark.readStream.schema(self._schema).option("maxFilesPerTrigger", 1)
        return reader.option("pathGlobFilter", "*.parquet").parquet(self._read_from)

    def batch(self) -> DataFrame:
        """Return all rows so far as a batch."""
        return self._spark.read.schema(self._schema).option("pathGlobFilter", "*.parquet").parquet(self._read_from)
