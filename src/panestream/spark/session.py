"""What panestream needs of a Spark session: versions, settings, the number of cores."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pyspark
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from panestream.errors import EnvironmentNotReadyError

PARTITIONS = "spark.sql.shuffle.partitions"
STATE_STORE = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
ARROW_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
ARROW_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"

TRACEBACK = "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled"
"""Without PySpark's own frames, in the errors of Python functions."""

STREAM_SETTINGS: Mapping[str, str] = {
    STATE_STORE: ROCKSDB,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Counting RocksDB's keys makes every put read first.
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
    # A limit of bytes is asked after every single row, which takes longer than writing the row: a low limit of rows bounds the
    # memory as well (decision 0053).
    ARROW_ROWS: "1000",
    ARROW_BYTES: str(2**31 - 1),
}
"""What a stream of panestream's should run with; ``result.start()`` sets it for its query. Where the session was given a limit of
Arrow by its user, both stay as they are."""

SOCKETS = "spark.python.unix.domain.socket.enabled"
BIRTH_SETTINGS: Mapping[str, str] = {
    # Over TCP between two processes of one machine small messages wait: in every micro-batch of every key group (decision 0162).
    SOCKETS: "true",
}
"""What a session should be born with, as it cannot be set later; ``build_session`` sets it. Spark before 4.1 ignores it."""
_SOCKETS_SINCE = (4, 1)
_WITH_DEFAULT = {PARTITIONS, STATE_STORE, ARROW_ROWS, ARROW_BYTES}
"""Settings of which every Spark has a value, also where nobody set one."""

FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
LOCAL_FILES: Mapping[str, str] = {
    # Spark's default starts three processes for each file that it makes on a local file system (decision 0162).
    FILE_MANAGER: "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager",
}
"""What a stream with its checkpoint on a local file system should run with besides; ``result.start()`` sets it for its query."""

DEFAULT_GROUPS = 4
"""Key groups of a stream where nobody chose a number: the same on every machine, since a checkpoint keeps it for good. Each costs
some time of a core in each micro-batch, and is the work of one task at a time (decision 0076)."""

LOCAL = "local[*, 4]"
"""All cores, four attempts for each task."""

UNSET_PARTITIONS = 200
"""Spark's default number of shuffle partitions: not anybody's choice."""


def build_session(
    app_name: str,
    settings: Mapping[str, str] | None = None,
    master: str | None = None,
    *,
    log: str | os.PathLike[str] | None = None,
) -> SparkSession:
    """A local session with what panestream needs; ``settings`` win.

    Args:
        app_name: shown in Spark's UI.
        settings: Spark settings.
        master: e.g. ``"local[2]"``; None: what ``settings``, spark-submit, spark-defaults or ``MASTER`` say, else
            ``local[*, 4]``: all cores, and a task that fails is tried again, four times in all, as on a cluster. (Spark's
            ``local[2]`` and ``local[*]`` try once: a failure of one task fails the query. Write ``local[2, 4]``.)
        log: a file to which goes what Spark and its workers write to the error output, such as in a notebook, where it would
            stand between the results. Only where this starts Java: where it runs already, that writes where it wrote before.

    Raises:
        EnvironmentNotReadyError: Java is missing or ended while it started, or Spark is of a version that does not work.
        OSError: the file cannot be written.
    """
    if log is not None:
        with errors_into(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)):
            return build_session(app_name, settings, master)
    # Without this Spark's workers take whatever python3 is on the PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app_name)
    ours = {"spark.sql.session.timeZone": "UTC", "spark.ui.showConsoleProgress": "false", TRACEBACK: "true"}
    defaults = {**STREAM_SETTINGS, **BIRTH_SETTINGS, **ours}
    if master is not None:
        builder = builder.master(master)
    for name, value in {**defaults, **(settings or {})}.items():
        builder = builder.config(name, value)
    try:
        with _local_by_default(settings or {}):
            spark = builder.getOrCreate()
    except Exception as error:
        if "JAVA" in str(error).upper():
            raise EnvironmentNotReadyError(_why_no_java(settings or {})) from error
        raise
    check_version(spark)
    return spark


@contextmanager
def errors_into(handle: int) -> Iterator[None]:
    """Whatever is started meanwhile writes its error output to the open file ``handle``, for good; this process does not."""
    sys.stderr.flush()
    ours = os.dup(2)
    os.dup2(handle, 2)
    try:
        yield
    finally:
        os.dup2(ours, 2)
        os.close(ours)
        os.close(handle)


def _why_no_java(settings: Mapping[str, str]) -> str:
    """What to do where Spark's Java process did not come up: PySpark has one error for whatever the reason was."""
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java", path=f"{home}/bin" if home else None) is None:
        return (
            "Spark could not start Java: install Java 17 or 21 and set JAVA_HOME "
            "(Debian/Ubuntu: apt-get install openjdk-17-jre-headless; macOS: brew install openjdk@17)"
        )
    packages = settings.get("spark.jars.packages")
    asked = (
        f"mostly one of spark.jars.packages was not found ({packages}): each is released for certain versions of Spark, this is "
        f"PySpark {pyspark.__version__}; or Maven Central cannot be reached"
        if packages
        else "Spark needs Java 17 or 21, and memory for it"
    )
    return f"Spark's Java process ended while it started, its own words are on its error output: {asked}"


@contextmanager
def _local_by_default(settings: Mapping[str, str]) -> Iterator[None]:
    """While Spark starts, ``MASTER`` says :data:`LOCAL`: the last thing that Spark asks, after spark-submit and spark-defaults.

    A master that is set on the builder would win over both. With Spark Connect there is none to say.
    """
    if "MASTER" in os.environ or "SPARK_REMOTE" in os.environ or "spark.remote" in settings:
        yield
        return
    os.environ["MASTER"] = LOCAL
    try:
        yield
    finally:
        del os.environ["MASTER"]


def check_version(spark: SparkSession) -> None:
    """Refuses a Spark without ``transformWithState`` for Python.

    Raises:
        EnvironmentNotReadyError: Spark is older than 4.0.
    """
    if version(spark) < (4, 0):
        raise EnvironmentNotReadyError(f"panestream needs Spark 4.0 or later, this session runs {spark.version}")


def version(spark: SparkSession) -> tuple[int, int]:
    """Which line of Spark the session runs, e.g. ``(4, 1)``."""
    major, minor = spark.version.split(".")[:2]
    return int(major), int(minor)


def is_connect(spark: SparkSession) -> bool:
    """Whether the session is a client of Spark Connect: then `foreachBatch` runs on the server, out of reach of this process."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def numbers_micro_batches(spark: SparkSession) -> bool:
    """Whether Spark tells the tasks of ``foreachBatch`` the number of their micro-batch.

    Through Connect it does not, nor with ``PYSPARK_PIN_THREAD=false``, where Python's calls arrive in another thread of Java.
    """
    return not is_connect(spark) and os.environ.get("PYSPARK_PIN_THREAD", "true").lower() == "true"


def has_local_executors(spark: SparkSession) -> bool:
    """Whether executors run on the driver's machine."""
    return (spark.conf.get("spark.master", "") or "").partition("[")[0] == "local"


def default_parallelism(spark: SparkSession) -> int:
    """How many tasks run at a time, asked in a way that Spark Connect answers too: into how many parts ``range`` would be cut.

    From its plan: nothing is run for it. EXPLAIN is a command, whose answer is there without a job.
    """
    row = spark.sql("EXPLAIN SELECT id FROM range(65536)").first()
    found = re.search(r"splits=(?:Some\()?(\d+)", str(row[0]) if row is not None else "")
    return int(found[1]) if found else DEFAULT_GROUPS


def known_cores(spark: SparkSession) -> int | None:
    """How many tasks the session runs at a time, for as long as it lives; None: nobody knows, or the number may grow.

    On one machine Spark has all its cores from the start. On a cluster executors may come later, so what it runs now says
    nothing: only a fixed number of executors does.
    """

    def setting(name: str) -> str:
        return spark.conf.get(name, "") or ""

    local = re.fullmatch(r"local(?:\[(\d+|\*).*\])?", setting("spark.master"))
    if local is not None:
        return default_parallelism(spark) if local[1] == "*" else int(local[1] or 1)
    executors, cores = setting("spark.executor.instances"), setting("spark.executor.cores")
    if setting("spark.dynamicAllocation.enabled") == "true" or not (executors.isdecimal() and cores.isdecimal()):
        return None
    return max(1, int(executors) * (int(cores) // int(setting("spark.task.cpus") or 1)))


def chosen_partitions(spark: SparkSession) -> int | None:
    """The number of shuffle partitions if somebody chose one; None where it is Spark's default."""
    number = int(spark.conf.get(PARTITIONS, str(UNSET_PARTITIONS)) or UNSET_PARTITIONS)
    return None if number == UNSET_PARTITIONS else number


def slow_settings(spark: SparkSession, groups: int) -> list[str]:
    """Lines to set before a query of so many key groups is built from ``.main``; none where the session has what it needs."""
    wanted = settings_for(spark, groups)
    differ = [name for name, value in wanted.items() if _says(spark, name, value) is False]
    names = sorted(differ, key=lambda name: name != PARTITIONS)
    return [f'spark.conf.set("{name}", "{wanted[name]}")' for name in names]


def missed_at_birth(spark: SparkSession) -> str | None:
    """What the session should have been started with and was not, what that costs, and where to set it; None: nothing."""
    if version(spark) < _SOCKETS_SINCE or _says(spark, SOCKETS, BIRTH_SETTINGS[SOCKETS]) is not False:
        return None
    return (
        f"the session was started without {SOCKETS}=true: Java talks to the Python workers over TCP, where small messages wait, "
        "which is a quarter to a third of the time of micro-batches with few rows. It is read when workers start, so it belongs "
        "where the session is made (--conf, spark-defaults, the compute's Spark configuration; build_session sets it)"
    )


def _says(spark: SparkSession, name: str, value: str) -> bool | None:
    """Whether the session has this value, set or by Spark's own default; None: the platform does not tell."""
    try:
        # Asked without a default for what Spark has none of, a server of Spark Connect writes an error into its log.
        found = spark.conf.get(name) if name in _WITH_DEFAULT else spark.conf.get(name, None)
    except PySparkException:
        return None
    return str(found).lower() == value.lower()


def settings_for(spark: SparkSession, groups: int, *, local_files: bool = False) -> dict[str, str]:
    """What a query of so many key groups is to run with in this session.

    Args:
        spark: the session.
        groups: the number of key groups.
        local_files: whether its checkpoint lies on a local file system.
    """
    limits = {ARROW_ROWS, ARROW_BYTES}
    # One of them alone may bound nothing: with a limit of the user's own both are as the user has them.
    kept = limits if any(_is_set(spark, name) for name in limits) else set()
    found = {name: value for name, value in STREAM_SETTINGS.items() if name not in kept} | {PARTITIONS: str(groups)}
    # Spark 4.3 is where it was looked at.
    known = local_files and version(spark) >= (4, 3) and not spark.conf.get(FILE_MANAGER, "")
    return {**found, **LOCAL_FILES} if known else found


def _is_set(spark: SparkSession, name: str) -> bool:
    """Whether somebody set it. (Of what nobody set Spark gives whatever it is offered; to list all that is set takes it long.)"""
    return {spark.conf.get(name, offered) for offered in ("1", "2")} != {"1", "2"}


@contextmanager
def session_settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Sets settings and puts the old values back: a streaming query keeps a copy of what holds when it starts."""
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)
