"""Brings panestream to executors on which it is not installed."""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path

from pyspark.sql import SparkSession


def ship(spark: SparkSession) -> None:
    """Sends the package to the executors (classic Spark and Spark Connect); call it once, before the first query.

    The executors need Python with pyarrow, numpy and protobuf; panestream itself is pure Python and travels as a zip file. With
    ``spark-submit`` the same is ``--py-files panestream.zip``.
    """
    ship_module(spark, Path(__file__).resolve().parents[1])


def ship_module(spark: SparkSession, home: Path) -> None:
    """Sends a module to the executors, from which functions come that run there.

    Args:
        spark: the session.
        home: the module's file, or the folder of a package, which travels as a zip file of its Python files.
    """
    if home.is_file():
        spark.addArtifacts(str(home), pyfile=True)
        return
    archive = Path(tempfile.mkdtemp(prefix="panestream-")) / f"{home.name}.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as target:
        for file in sorted(home.rglob("*")):
            if file.suffix == ".py" or file.name == "py.typed":
                target.write(file, file.relative_to(home.parent))
    spark.addArtifacts(str(archive), pyfile=True)
