"""Requirements of panestream on a Spark session: versions, settings, number of cores."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyspark
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from panestream.errors import EnvironmentNotReadyError

PARTITIONS = "spark.sql.shuffle.partitions"
STATE_STORE = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
ARROW_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
ARROW_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"

TRACEBACK = "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled"
"""Leaves PySpark's own frames out of errors, except in stateful functions, which then have separate workers."""

STREAM_SETTINGS: Mapping[str, str] = {
    STATE_STORE: ROCKSDB,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Counting RocksDB's keys makes every put read first.
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
    # Spark checks a limit in bytes after every row, which takes longer than writing the row. A low limit of rows bounds the
    # memory as well (decision 0053).
    ARROW_ROWS: "1000",
    ARROW_BYTES: str(2**31 - 1),
}
"""Settings that ``result.start()`` applies to its query. If the user set one of the Arrow limits, both stay."""

SOCKETS = "spark.python.unix.domain.socket.enabled"
BIRTH_SETTINGS: Mapping[str, str] = {
    # Over TCP between two processes on one machine, small messages wait in every micro-batch of every key group (decision 0162).
    SOCKETS: "true",
}
"""Settings that ``build_session`` applies, since they cannot change later. Spark before 4.1 ignores them."""
_SOCKETS_SINCE = (4, 1)
_WITH_DEFAULT = {PARTITIONS, STATE_STORE, ARROW_ROWS, ARROW_BYTES}
"""Settings that have a value in every Spark, even if nobody set them."""

FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
LOCAL_FILES: Mapping[str, str] = {
    # Spark's default starts three processes for each file that it creates on a local file system (decision 0162).
    FILE_MANAGER: "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager",
}
"""Settings that ``result.start()`` adds if the checkpoint is on a local file system."""

DEFAULT_GROUPS = 4
"""The default number of key groups, the same on every machine, since a checkpoint keeps it.

Each key group takes some core time in each micro-batch and is processed by one task at a time (decision 0076).
"""

LOCAL = "local[*, 4]"
"""All cores, four attempts for each task."""

UNSET_PARTITIONS = 200
"""Spark's default number of shuffle partitions, taken to mean that nobody chose a number."""


def build_session(
    app_name: str,
    settings: Mapping[str, str] | None = None,
    master: str | None = None,
    *,
    log: str | os.PathLike[str] | None = None,
) -> SparkSession:
    """Build a local Spark session with the settings that panestream needs. Entries of ``settings`` take precedence.

    Args:
        app_name: shown in Spark's UI.
        settings: Spark settings.
        master: e.g. ``"local[2, 4]"``. If None, the value comes from ``settings``, spark-submit, spark-defaults or ``MASTER``. If
            none of them has one, it is ``local[*, 4]``: all cores, and four attempts for each task, as on a cluster. With Spark's
            ``local[2]`` and ``local[*]`` one failed task fails the query.
        log: a file for the error output of Spark and its workers, for example to keep it out of a notebook. It has an effect only
            if this call starts Java; a running Java process keeps its error output.

    Returns:
        The new session, or the active one with these settings applied.

    Raises:
        EnvironmentNotReadyError: Java is missing or ended during the start, or the Spark version is not supported.
        OSError: the file cannot be written.

    Examples:
        >>> session = pst.build_session("clicks", {"spark.ui.enabled": "false"}, master="local[2]")
        >>> session.range(3).count()
        3
    """
    if log is not None:
        with errors_into(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)):
            return build_session(app_name, settings, master)
    # By default Spark's workers use the first python3 on the PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app_name)
    own = {"spark.sql.session.timeZone": "UTC", "spark.ui.showConsoleProgress": "false"}
    defaults = {**STREAM_SETTINGS, **BIRTH_SETTINGS, **own}
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
    """Redirect the error output of processes that start in this block to the open file ``handle``. This process is unaffected."""
    sys.stderr.flush()
    saved = os.dup(2)
    os.dup2(handle, 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(handle)


def _why_no_java(settings: Mapping[str, str]) -> str:
    """Explain why Spark's Java process did not start: PySpark raises the same error for every reason."""
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java", path=f"{home}/bin" if home else None) is None:
        return (
            "Spark could not start Java: install Java 17 or 21 and set JAVA_HOME "
            "(Debian/Ubuntu: apt-get install openjdk-17-jre-headless; macOS: brew install openjdk@17)"
        )
    packages = settings.get("spark.jars.packages")
    cause = (
        f"probably one of spark.jars.packages was not found ({packages}), because it does not exist for PySpark "
        f"{pyspark.__version__}, or Maven Central cannot be reached"
        if packages
        else "Spark needs Java 17 or 21, and memory for it"
    )
    return f"Spark's Java process ended while it started. Its error output has the details: {cause}"


@contextmanager
def _local_by_default(settings: Mapping[str, str]) -> Iterator[None]:
    """Set ``MASTER`` to :data:`LOCAL` while Spark starts. Spark reads it after the builder, spark-submit and spark-defaults."""
    if "MASTER" in os.environ or "SPARK_REMOTE" in os.environ or "spark.remote" in settings:
        yield
        return
    os.environ["MASTER"] = LOCAL
    try:
        yield
    finally:
        del os.environ["MASTER"]


def check_version(spark: SparkSession) -> None:
    """Raise EnvironmentNotReadyError if Spark is older than 4.0 and so lacks ``transformWithState`` for Python."""
    if version(spark) < (4, 0):
        raise EnvironmentNotReadyError(f"panestream needs Spark 4.0 or later, this session runs {spark.version}")


def version(spark: SparkSession) -> tuple[int, int]:
    """Return the version of the session's Spark, e.g. ``(4, 1)``."""
    major, minor = spark.version.split(".")[:2]
    return int(major), int(minor)


def is_connect(spark: SparkSession) -> bool:
    """Return whether the session is a Spark Connect client. Its ``foreachBatch`` runs on the server, not in this process."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def numbers_micro_batches(spark: SparkSession) -> bool:
    """Return whether tasks in ``foreachBatch`` can read the number of their micro-batch.

    They cannot through Connect, nor with ``PYSPARK_PIN_THREAD=false``, as Python's calls then arrive in another Java thread.
    """
    return not is_connect(spark) and os.environ.get("PYSPARK_PIN_THREAD", "true").lower() == "true"


def has_local_executors(spark: SparkSession) -> bool:
    """Return whether executors run on the driver's machine."""
    return (spark.conf.get("spark.master", "") or "").partition("[")[0] == "local"


def explained(df: DataFrame, *, extended: bool = False) -> str:
    """Return Spark's physical plan of rows, or all its plans, as text. EXPLAIN works through Connect, without a job."""
    command = "EXPLAIN EXTENDED SELECT * FROM {df}" if extended else "EXPLAIN SELECT * FROM {df}"
    return str(df.sparkSession.sql(command, df=df).collect()[0][0])


def default_parallelism(spark: SparkSession) -> int:
    """Return the number of concurrent tasks: the splits in a plan of ``range``. EXPLAIN works through Connect, without a job."""
    row = spark.sql("EXPLAIN SELECT id FROM range(65536)").first()
    match = re.search(r"splits=(?:Some\()?(\d+)", str(row[0]) if row is not None else "")
    return int(match[1]) if match else DEFAULT_GROUPS


def known_cores(spark: SparkSession) -> int | None:
    """Return how many tasks the session can ever run concurrently, or None if that is unknown or may grow.

    A cluster may add executors later, so it needs a fixed number of executors for an answer.
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
    """Return the number of shuffle partitions, or None if it is Spark's default."""
    number = int(spark.conf.get(PARTITIONS, str(UNSET_PARTITIONS)) or UNSET_PARTITIONS)
    return None if number == UNSET_PARTITIONS else number


def slow_settings(spark: SparkSession, groups: int) -> list[str]:
    """Return the lines to run before building a query with ``groups`` key groups from ``.main``; empty if all settings fit."""
    wanted = _settings_of_streams(spark, groups)
    differ = [name for name, value in wanted.items() if _says(spark, name, value) is False]
    names = sorted(differ, key=lambda name: name != PARTITIONS)
    return [f'spark.conf.set("{name}", "{wanted[name]}")' for name in names]


def missing_startup_settings(spark: SparkSession) -> str | None:
    """Describe a setting that the session was not created with, its cost and where to set it, or return None."""
    if version(spark) < _SOCKETS_SINCE or _says(spark, SOCKETS, BIRTH_SETTINGS[SOCKETS]) is not False:
        return None
    return (
        f"the session was started without {SOCKETS}=true: Java talks to the Python workers over TCP, where small messages wait, "
        "which is a quarter to a third of the time of micro-batches with few rows. It is read when workers start, so it belongs "
        "where the session is made (--conf, spark-defaults, the compute's Spark configuration; build_session sets it)"
    )


def _says(spark: SparkSession, name: str, value: str) -> bool | None:
    """Return whether a setting has this value, set or by default. None if the platform does not allow reading it."""
    try:
        # Without a default value for a setting that Spark does not define, a Spark Connect server logs an error.
        current = spark.conf.get(name) if name in _WITH_DEFAULT else spark.conf.get(name, None)
    except PySparkException:
        return None
    return str(current).lower() == value.lower()


def settings_for(spark: SparkSession, groups: int, *, local_files: bool = False) -> dict[str, str]:
    """Return the settings for a query in this session. ``local_files``: its checkpoint is on a local file system."""
    settings = _settings_of_streams(spark, groups)
    if not _is_set(spark, TRACEBACK, ("true", "false")):
        # The tasks that pack rows and those that hold state then share Python workers: half the processes to start and to keep.
        settings[TRACEBACK] = "false"
    # Verified with Spark 4.3, not with earlier versions.
    is_verified = local_files and version(spark) >= (4, 3) and not spark.conf.get(FILE_MANAGER, "")
    return {**settings, **LOCAL_FILES} if is_verified else settings


def _settings_of_streams(spark: SparkSession, groups: int) -> dict[str, str]:
    """Return the settings without which a stream is slow or fails, and which users may set themselves."""
    limits = {ARROW_ROWS, ARROW_BYTES}
    # One limit alone may not bound anything. If the user set one, leave both.
    chosen = limits if any(_is_set(spark, name) for name in limits) else set()
    return {name: value for name, value in STREAM_SETTINGS.items() if name not in chosen} | {PARTITIONS: str(groups)}


def _is_set(spark: SparkSession, name: str, offers: Sequence[str] = ("1", "2")) -> bool:
    """Return whether anyone set it. For an unset name Spark returns the default it is given; listing all settings is slow."""
    return {spark.conf.get(name, offered) for offered in offers} != set(offers)


@contextmanager
def session_settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Apply settings within the block. A streaming query keeps a copy of the settings at its start."""
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


def ship(spark: SparkSession) -> None:
    """Send the package to the executors. Call it once, before the first query, in classic Spark or through Spark Connect.

    The executors need Python with pyarrow, numpy and protobuf. Panestream is pure Python and travels as a zip file. The
    equivalent with ``spark-submit`` is ``--py-files panestream.zip``.

    >>> pst.tools.ship(spark)
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
