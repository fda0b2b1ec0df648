"""Small notes beside data, in a checkpoint and in a sink's folder, read and written by Spark: so on any file system."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def read_note(spark: SparkSession, path: str) -> dict[str, Any] | None:
    """A small JSON note that :func:`write_note` left; None where there is none. Through Spark, so on any file system."""
    try:
        lines = [row.value for row in spark.read.text(path).collect()]
    except AnalysisException as error:
        if "PATH_NOT_FOUND" in str(error):
            return None
        raise
    return dict(json.loads(lines[0])) if lines else None


def write_note(spark: SparkSession, path: str, note: Mapping[str, Any]) -> None:
    """Leaves a small JSON note in a directory of its own."""
    text = json.dumps(note, sort_keys=True)
    spark.range(1).select(F.lit(text).alias("value")).coalesce(1).write.mode("overwrite").text(path)


def holds_files(spark: SparkSession, path: str) -> bool:
    """Whether there is any file below ``path``."""
    try:
        files = spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(path).select("path")
        return files.first() is not None
    except AnalysisException as error:
        if "PATH_NOT_FOUND" in str(error):
            return False
        raise
