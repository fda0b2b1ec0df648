"""A script that runs queries with one version of Spark, from the savepoints of another. Not a test module.

    saved.py FOLDER FIRST LAST GROUPS NAME,NAME,… [remote]

It adds the micro-batches FIRST to LAST, and runs the queries of these names until they have processed them. The queries start from
savepoints if FIRST is not 0. The script takes savepoints unless these micro-batches are the last.
"""

from __future__ import annotations

import json
import sys
import warnings
from dataclasses import replace
from pathlib import Path

from tests.versions.carried import ROWS, SCHEMA, queries


def main() -> None:
    """Run the script, as the module describes."""
    warnings.simplefilter("ignore")
    folder, first, last, groups = Path(sys.argv[1]), *map(int, sys.argv[2:5])
    import panestream as pst
    from panestream.testing import MicroBatches

    if "remote" in sys.argv:
        from pyspark.sql import SparkSession

        spark = SparkSession.builder.remote("local[2]").getOrCreate()
    else:
        spark = pst.build_session("saved", {"spark.ui.enabled": "false", "spark.driver.memory": "1g"}, master="local[2]")
        spark.sparkContext.setLogLevel("ERROR")
    batches = MicroBatches(spark, folder / f"in-{first}", SCHEMA)
    for rows in ROWS[first : last + 1]:
        batches.add(rows)
    taken = {}
    for name in sys.argv[5].split(","):
        result = queries()[name](batches.stream())
        result = replace(result, windowed=replace(result.windowed, groups=groups))
        sinks = {
            tag: pst.ParquetSink(str(folder / f"out-{first}" / name / tag)) for tag in ("main", "late") if tag in result.plan.tags
        }
        checkpoint, saved = str(folder / f"checkpoint-{first}" / name), str(folder / f"saved-{first}" / name)
        begins = {"savepoint": str(folder / "saved-0" / name)} if first else {}
        result.start(checkpoint=checkpoint, **begins, **sinks).await_termination()
        if last < len(ROWS) - 1:
            taken[name] = dict(pst.savepoint(spark, checkpoint, saved).manifest.versions)
    print(json.dumps({"spark": spark.version, "taken": taken}))
    spark.stop()


if __name__ == "__main__":
    main()
