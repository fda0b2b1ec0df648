"""What a store of tiles is asked for before it is read: what tiles say of themselves, where they end, whether they are few."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from panestream.engine.tiles.format import END
from panestream.errors import InvalidPlanError
from panestream.spark.columns import micros_of
from panestream.spark.tiles.manifest import MANIFEST, Manifest

_MOST_MANIFESTS = 1000
_FEW = 1 << 16


@dataclass(frozen=True, slots=True)
class Found:
    """What was found.

    Attributes:
        manifests: what tiles say of themselves, each once.
        until: the end of the last slice that has a tile, in microseconds.
        few: whether the tiles are read from files as they lie there, and are so few that one task reads them sooner than a
            shuffle deals them out.
    """

    manifests: tuple[Manifest, ...]
    until: int
    few: bool = False


def look(tiles: DataFrame) -> Found:
    """Looks at all tiles, by two columns.

    Mostly one query wrote them, and they lie in files: then it is one job of one stage. Else they are grouped by what they say.

    Raises:
        InvalidPlanError: there are none, or they do not say what they are of.
    """
    try:
        found = _observed(tiles)
    except PySparkException:
        # What is read from two places cannot say from which file a row is.
        found = None
    return found or _grouped(tiles)


def _observed(tiles: DataFrame) -> Found | None:
    """What the tiles say where all say the same and lie in files; None: they do not."""
    # Behind a shuffle no row knows its file: with this it is known that one task may read all without computing much.
    stored = (F.input_file_name() != F.lit("")).alias("stored")
    seen = tiles.select(F.col(MANIFEST), micros_of(tiles, END, None).alias("until"), stored)
    asked = Observation()
    known = [F.min(MANIFEST).alias("least"), F.max(MANIFEST).alias("most"), F.max("until").alias("until")]
    counts = [F.count(F.lit(1)).alias("tiles"), F.count(MANIFEST).alias("said"), F.min("stored").alias("stored")]
    # Metrics come with the rows' own stage: no second one adds them up.
    seen.observe(asked, *known, *counts).write.format("noop").mode("overwrite").save()
    found = asked.get
    if not found.get("stored") or found["said"] < found["tiles"] or found["least"] != found["most"]:
        return None
    return Found((Manifest.read(found["least"]),), found["until"], found["tiles"] <= _FEW)


def _grouped(tiles: DataFrame) -> Found:
    latest = F.max(micros_of(tiles, END, None)).alias("until")
    found = tiles.groupBy(MANIFEST).agg(latest).limit(_MOST_MANIFESTS).collect()
    if not found:
        raise InvalidPlanError("there are no tiles yet: what they are of is read from them")
    return Found(tuple(Manifest.read(row[MANIFEST]) for row in found), max(row["until"] for row in found))


__all__ = ["Found", "look"]
