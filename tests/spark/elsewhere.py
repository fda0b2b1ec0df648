"""A script for a separate process: a stream and a batch on a given session. Not a test module.

    elsewhere.py FOLDER remote|MASTER [ship]

It writes its results to FOLDER/found.json. A session of another kind needs another process than the tests' own session.
"""

from __future__ import annotations

import io
import json
import sys
from contextlib import redirect_stdout
from pathlib import Path


def main() -> None:
    folder, where = Path(sys.argv[1]), sys.argv[2]
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    if where == "remote":
        spark = builder.remote("local[2]").getOrCreate()
    else:
        settings = {"spark.ui.enabled": "false", "spark.executor.memory": "800m"}
        # The number of executors is fixed. Two tasks on two machines process four key groups in turn.
        settings |= {"spark.executor.instances": "2", "spark.executor.cores": "1"}
        spark = builder.master(where).config(map=settings).getOrCreate()
    import said
    from pyspark.sql import functions as F

    import panestream as pst
    from panestream import agg
    from panestream.spark.columns import text_of

    if "ship" in sys.argv:
        from panestream.spark.session import ship

        ship(spark)
    schema = "user string, ts timestamp, price bigint"

    def result_of(df, column=None, key=None):
        strategy = pst.WatermarkStrategy.for_bounded_out_of_orderness("5 seconds")
        keyed = (
            pst.stream(df)
            .assign_timestamps("ts", strategy)
            .side_output_invalid("invalid")
            .key_by(df.user if key is None else key)
        )
        windowed = keyed.window(pst.SlidingEventTimeWindows.of("20 seconds", "10 seconds")).side_output_late_data("late")
        return windowed.aggregate(
            agg.count(F.lit(1) if column is None else column).alias("n"),
            agg.sum(F.col("price") * F.lit(1)).alias("total"),
            agg.max_by("price", "ts").alias("newest"),
        )

    stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    result = result_of(stream)
    sinks = {tag: pst.ParquetSink(str(folder / tag)) for tag in ("main", "late", "invalid")}
    result.start(checkpoint=str(folder / "checkpoint"), **sinks).await_termination()
    in_batch = result_of(spark.read.schema(schema).parquet(str(folder / "in"))).main.selectExpr(
        "user", "unix_seconds(window_start) AS s", "n", "total", "newest"
    )
    some, other = (spark.createDataFrame([], said.SCHEMA) for _ in range(2))
    found = {
        "session": type(spark).__module__,
        "groups": result.plan.groups,
        "explained": str(result.explain()),
        "identity": result.plan.identity(),
        "called": [[text, text_of(some, column, "it")] for text, column in said.columns(some).items()],
        "errors": [
            said.refused(lambda given=given: result_of(some, given)) for given in (F.sum("price"), other.price, F.col("prize"))
        ],
        "batch": sorted([list(row) for row in in_batch.collect()], key=repr),
    }
    if where == "remote":
        # History up to the middle of a window, and then the same files as a stream, which skips the late rows of a stream.
        kept, seamed = "user NOT IN ('late', 'none')", {"main": pst.ParquetSink(str(folder / "seamed"))}
        after = result_of(stream.where(kept), key="user")
        history = spark.read.schema(schema).parquet(str(folder / "in")).where(kept)
        saved = after.bootstrap(history, str(folder / "saved"), until="2026-01-01T00:01:35Z", **seamed)
        running = after.start(checkpoint=str(folder / "after"), savepoint=saved.path, **seamed)
        with redirect_stdout(io.StringIO()) as told:
            pst.tools.live(running)
        saved = pst.savepoint(spark, str(folder / "after"), str(folder / "again"))
        found["saved"] = [saved.batch_id, saved.manifest.groups, saved.manifest.tables.get("panes", 0)]
        found["live"] = told.getvalue().splitlines()
    if where.startswith("spark://"):
        status = spark.sparkContext._jsc.sc().statusTracker()
        found["executors"] = len(status.getExecutorInfos()) - 1
    (folder / "found.json").write_text(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main()
