"""Delivery of panestream to executors on which it is not installed."""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path

from pyspark.sql import SparkSession


def ship(spark: SparkSession) -> None:
    """Send the package to the executors. Call it once, before the first query, in classic Spark or through Spark Connect.

    The executors need Python with pyarrow, numpy and protobuf. Panestream is pure Python and travels as a zip file. The
    equivalent with ``spark-submit`` is ``--py-files panestream.zip``.
    """
    ship_module(spark, Path(__file__).resolve().parents[1])


def ship_module(spark: SparkSession, home: Path) -> None:
    """Send a module of functions to the executors: a file, or a package's folder as a zip file of its Python files."""
    if home.is_file():
        spark.addArtifacts(str(home), pyfile=True)
        return
    archive = Path(tempfile.mkdtemp(prefix="panestream-")) / f"{home.name}.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as target:
        for file in sorted(home.rglob("*")):
            if file.suffix == ".py" or file.name == "py.typed":
                target.write(file, file.relative_to(home.parent))
    spark.addArtifacts(str(archive), pyfile=True)
