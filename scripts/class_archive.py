"""Save the classes that Spark loads in a file that Java maps at its start. The tests start Java some seventy times.

    python scripts/class_archive.py        # makes SYS.PREFIX/spark-classes.jsa, once for each PySpark and Java

A short run of Spark spends half of its processor time on loading and verifying classes. (A session, one stream and one batch take
17 s, and 9 s with the file.) ``tests/conftest.py`` passes the file to Java if it exists. Java ignores a file that does not fit
(another Java, another class path), so it is optional. If the file cannot be made, this script prints the reason, and tests take
longer.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ARCHIVE = Path(sys.prefix) / "spark-classes.jsa"
OPTIONS = " ".join(
    [
        *("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
        # Compile only what runs five times as often as usual: most methods of a short run are not worth it.
        *("-XX:Tier3InvocationThreshold=1000", "-XX:Tier3MinInvocationThreshold=500", "-XX:Tier3CompileThreshold=8000"),
        # With one compiler, Java limits compiled code to 48 MB, so it drops code and compiles it again.
        "-XX:ReservedCodeCacheSize=256m",
        "-Xmn256m",
        # Hadoop starts a process for each file on a local file system. This option starts it without a helper process in between.
        *(["-Djdk.lang.Process.launchMechanism=VFORK"] if sys.platform == "linux" else []),
    ]
)
"""Options of every Java in the tests. Without the second compiler and parallel collectors, short runs use a fifth less processor
time. More space for code and young objects saves another tenth (a session with twelve streams: 63 s, then 57 s).
"""
_PROGRAM = """
import sys
import panestream as pst
from panestream import agg
from pyspark.sql import functions as F

folder = sys.argv[1]
settings = {"spark.ui.enabled": "false", "spark.sql.warehouse.dir": folder + "/warehouse"}
spark = pst.build_session("classes", settings, "local[2]")
spark.sparkContext.setLogLevel("OFF")
for number in range(2):
    rows = spark.range(100).selectExpr("id % 7 k", f"timestamp_seconds(id + {number * 60}) at", "id v", "string(id) s")
    rows.write.mode("append").parquet(folder + "/in")
reader = spark.readStream.schema("k bigint, at timestamp, v bigint, s string").option("maxFilesPerTrigger", 1)
stream = reader.parquet(folder + "/in")

def result(rows):
    timed = pst.stream(rows).assign_timestamps("at", pst.WatermarkStrategy.for_bounded_out_of_orderness("1 second"))
    windows = timed.key_by("k").window(pst.SlidingEventTimeWindows.of("10 seconds", "5 seconds")).side_output_late_data("late")
    return windows.options(key_groups=2).aggregate(agg.count().alias("n"), agg.sum("v").alias("total"))

sinks = {"main": pst.ParquetSink(folder + "/out"), "late": pst.FileSink(folder + "/late", "json")}
result(stream).start(checkpoint=folder + "/checkpoint", **sinks).await_termination()
result(stream).start(checkpoint=folder + "/other", main=pst.MemorySink()).await_termination()
result(spark.read.parquet(folder + "/in")).main.orderBy("k").collect()
native = stream.withWatermark("at", "1 second").groupBy(F.window("at", "10 seconds"), "k").agg(F.sum("v"))
spark.conf.set("spark.sql.shuffle.partitions", "2")
native.writeStream.format("memory").queryName("native").trigger(availableNow=True).start().awaitTermination()
spark.read.parquet(folder + "/out").createOrReplaceTempView("out")
spark.sql("SELECT k, sum(n) FROM out GROUP BY k").collect()
spark.stop()
"""


def made_from() -> str:
    """Return the inputs that the file must match."""
    return f"{os.environ.get('JAVA_HOME', '')} pyspark {version('pyspark')}"


def main() -> None:
    """Make the file, unless it exists and matches."""
    stamp = ARCHIVE.with_suffix(".made-from")
    if ARCHIVE.is_file() and stamp.is_file() and stamp.read_text("utf-8") == made_from():
        return
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT / "src")}
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / ARCHIVE.name
        environment["SPARK_SUBMIT_OPTS"] = f"{OPTIONS} -XX:ArchiveClassesAtExit={made} -Xlog:disable"
        command = [sys.executable, "-W", "ignore", "-c", _PROGRAM, folder]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=600)  # noqa: S603
        if done.returncode or not made.is_file():
            print(f"no archive of Spark's classes, the tests take longer: {done.stderr[-500:] or 'Java made none'}")
            return
        # Move the complete file into place, so that a JVM that starts meanwhile does not see a partial file.
        beside = ARCHIVE.with_suffix(".new")
        beside.write_bytes(made.read_bytes())
        beside.replace(ARCHIVE)
    stamp.write_text(made_from(), "utf-8")


if __name__ == "__main__":
    main()
