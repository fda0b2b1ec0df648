"""A script for Spark 4.0 through Spark Connect: batches run, and a stream is refused. Not a test module."""

from __future__ import annotations

import sys
import tempfile

from pyspark.sql import SparkSession

import panestream as pst
from panestream.errors import EnvironmentNotReadyError
from panestream.testing import MicroBatches
from tests.versions.carried import ROWS, SCHEMA, queries


def main() -> None:
    """Print the number of rows of each batch, and the error of the stream."""
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    with tempfile.TemporaryDirectory() as folder:
        rows = MicroBatches(spark, f"{folder}/in", SCHEMA).add(ROWS[0])
        for name in ("panes", "row"):
            print(name, len(queries()[name](rows.batch()).main.collect()))
        for start in (
            lambda: queries()["panes"](rows.stream()).main,
            lambda: queries()["panes"](rows.stream()).start(main=pst.ParquetSink(f"{folder}/out"), checkpoint=f"{folder}/c"),
        ):
            try:
                start()
            except EnvironmentNotReadyError as error:
                print(error)


if __name__ == "__main__":
    sys.exit(main())
