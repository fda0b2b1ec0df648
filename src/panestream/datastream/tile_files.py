"""Tiles in files, read for single keys without Spark: an application that serves features needs no session and no Java."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from panestream.datastream.stored import aggregation_of, check_aggregates, even_slices, keys_in, window_lengths
from panestream.engine.explain import ReprHtml
from panestream.engine.kernels.columns import plain
from panestream.engine.tiles.as_of import AsOf, AsOfRequest
from panestream.engine.tiles.format import END, ROWS, START, Tiles, partial_columns
from panestream.errors import InvalidPlanError
from panestream.spark.tiles import MANIFEST, TilesManifest
from panestream.windowing.aggregates import Aggregate
from panestream.windowing.time import Duration, instant


class TileFiles(ReprHtml):
    """Tiles that a query with :meth:`WindowedStream.panes` wrote to Parquet files, for lookups of single keys without Spark.

    The answers equal those of :meth:`StoredPanes.as_of` without rows, so training and serving agree. Only the row groups that
    may have the key are read.

    Args:
        path: the folder of the tiles, or a URI that pyarrow can read, such as ``s3://bucket/tiles``.
        *aggregates: what to compute, as for :func:`from_panes`.

    Raises:
        InvalidPlanError: the files are not tiles, lack what an aggregate needs, or their slices differ in length.

    Examples:
        >>> hours.panes(agg.sum("price")).run(main=pst.ParquetSink(folder + "/tiles"))
        >>> tiles = pst.tools.TileFiles(folder + "/tiles", agg.sum("price").alias("spent"))
        >>> tiles.lookup("ann", windows={"1h": "1 hour", "24h": "24 hours"})
        {'spent_1h': 5.0, 'spent_24h': 8.0}
    """

    def __init__(self, path: str, *aggregates: Aggregate) -> None:
        check_aggregates("TileFiles", aggregates)
        self._path, self._aggregates = str(path), aggregates
        self.refresh()

    def refresh(self) -> TileFiles:
        """List the files again, to find tiles that were written since then, and return the object itself."""
        try:
            self._dataset = ds.dataset(self._path, format="parquet", partitioning="hive")
        except (OSError, pa.ArrowInvalid) as error:
            raise InvalidPlanError(f"there are no tiles in {self._path!r}: {error}") from error
        missing = [name for name in (MANIFEST, START, END, ROWS) if name not in self._dataset.schema.names]
        if missing:
            raise InvalidPlanError(
                f"the files in {self._path!r} have no column {missing[0]!r}: give the folder to which .panes(...) was written"
            )
        rows = self._dataset.to_table([MANIFEST, END])
        if not rows.num_rows:
            raise InvalidPlanError(f"there are no tiles in {self._path!r}: an empty store does not define its aggregates")
        manifests = [TilesManifest.read(text) for text in pc.unique(rows.column(MANIFEST)).to_pylist()]
        schema = self._dataset.schema
        types = {name: schema.field(name).type for name in keys_in(schema.names, manifests[0])}
        self._aggregation = aggregation_of(manifests, self._aggregates, types, schema.names)
        self._slices, self._until = even_slices(manifests[0].slices), pc.max(_micros(rows.column(END))).as_py()
        return self

    def lookup(self, *key: Any, windows: Mapping[str, Duration], at: datetime | str | None = None) -> dict[str, Any]:
        """Return the aggregates of a key over the time before an instant.

        A window ends where the slice of the instant begins, so an answer is up to one slice old.

        Args:
            *key: the value of each key column, in their order.
            windows: window lengths by the suffix of their results, e.g. ``{"24h": "24 hours"}``, multiples of a slice.
            at: the instant, as a ``datetime`` with a time zone. The default is the end of the last tile.

        Returns:
            A value for each aggregate and window, named ``<aggregate>_<window>``. A key without rows gets a count of 0 and None
            for other aggregates.

        Raises:
            InvalidPlanError: another number of key values, a value of another type, or an invalid window or instant.
        """
        aggregation, slices = self._aggregation, self._slices
        lengths = window_lengths(windows, slices, with_rows=False)
        names = aggregation.key_schema.names
        if len(key) != len(names):
            raise InvalidPlanError(f"lookup takes a value for each key ({', '.join(names) or 'none'}), got {len(key)} values")
        now = self._until if at is None else instant(at, "at")
        try:
            keys = [pa.array([value], field.type) for value, field in zip(key, aggregation.key_schema, strict=True)]
        except (pa.ArrowException, TypeError) as error:
            raise InvalidPlanError(f"the key {key!r} does not have the types {aggregation.key_schema.types}: {error}") from error
        kind = self._dataset.schema.field(END).type
        near = ds.field(END) <= _scalar(now, kind)
        near &= ds.field(START) >= _scalar(now - max(lengths) - slices.period, kind)
        for name, value in zip(names, keys, strict=True):
            near &= ds.field(name).is_null() if value.null_count else ds.field(name) == value[0]
        counted = [ROWS, *partial_columns(aggregation)]
        rows = self._dataset.to_table([*names, START, END, *counted], filter=near)
        columns = [*(_micros(rows.column(name)) for name in (START, END)), *(plain(rows.column(name)) for name in counted)]
        stored_keys = [plain(rows.column(field.name)).cast(field.type) for field in aggregation.key_schema]
        tiles = Tiles.of(stored_keys, columns, aggregation)
        asked = AsOfRequest(keys, np.array([now], np.int64))
        answers = AsOf(aggregation, slices, lengths).answers(asked, tiles, None)
        return {
            f"{name}_{label}": column[0].as_py()
            for label, table in zip(windows, answers, strict=True)
            for name, column in zip(table.column_names, table.columns, strict=True)
        }

    def _parts(self) -> Mapping[str, str]:
        return {"tiles": self._path, "aggregates": ", ".join(map(repr, self._aggregates))}


def _scalar(micros: int, kind: pa.TimestampType) -> pa.Scalar:
    return pa.array([micros], pa.int64()).cast(pa.timestamp("us", kind.tz)).cast(kind)[0]


def _micros(column: pa.ChunkedArray) -> pa.Array:
    """Return microseconds. Spark's default format for timestamps, INT96, is read as nanoseconds without a time zone."""
    return plain(column.cast(pa.timestamp("us", column.type.tz))).cast(pa.int64())
