"""Inspection of a store of tiles before it is read: manifests, end of the data, number of tiles."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from panestream.engine.tiles.format import END
from panestream.errors import InvalidPlanError
from panestream.spark.columns import micros_of
from panestream.spark.tiles.manifest import MANIFEST, TilesManifest

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


def look(tiles: DataFrame) -> StoredTiles:
    """Inspect all tiles, by two columns. Raise InvalidPlanError for no tiles or for a missing manifest.

    Usually one query wrote them to files, and one job of one stage suffices. Otherwise they are grouped by manifest.
    """
    try:
        found = _observed(tiles)
    except PySparkException:
        # The union of two places does not have a file name for each row.
        found = None
    return found or _grouped(tiles)


def _observed(tiles: DataFrame) -> StoredTiles | None:
    """Return the result for tiles that are in files and have the same manifest, otherwise None."""
    # After a shuffle rows do not have a file name. So with a file name, one task can read all tiles without much computation.
    stored = (F.input_file_name() != F.lit("")).alias("stored")
    seen = tiles.select(F.col(MANIFEST), micros_of(tiles, END, None).alias("until"), stored)
    asked = Observation()
    known = [F.min(MANIFEST).alias("least"), F.max(MANIFEST).alias("most"), F.max("until").alias("until")]
    counts = [F.count(F.lit(1)).alias("tiles"), F.count(MANIFEST).alias("said"), F.min("stored").alias("stored")]
    # Metrics come with the rows' own stage, without a second stage for their sum.
    seen.observe(asked, *known, *counts).write.format("noop").mode("overwrite").save()
    found = asked.get
    if not found.get("stored") or found["said"] < found["tiles"] or found["least"] != found["most"]:
        return None
    return StoredTiles((TilesManifest.read(found["least"]),), found["until"], found["tiles"] <= _FEW)


def _grouped(tiles: DataFrame) -> StoredTiles:
    latest = F.max(micros_of(tiles, END, None)).alias("until")
    found = tiles.groupBy(MANIFEST).agg(latest).limit(_MOST_MANIFESTS).collect()
    if not found:
        raise InvalidPlanError("there are no tiles yet: what they are of is read from them")
    return StoredTiles(tuple(TilesManifest.read(row[MANIFEST]) for row in found), max(row["until"] for row in found))


__all__ = ["StoredTiles", "look"]
