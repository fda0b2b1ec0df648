"""The errors and warnings of panestream. Every message has the problem, its location, and the solution.

>>> import panestream as pst
>>> try:
...     pst.tumbling("1 horu")
... except pst.errors.PanestreamError as error:
...     print(error)
size '1 horu': unknown unit 'horu'; did you mean 'hour'?
"""

from __future__ import annotations

import difflib
import sys
import warnings
from collections.abc import Iterable, Mapping


class PanestreamError(Exception):
    """Base of all errors that panestream raises on purpose. ``spark_error`` is the Spark error that contained it, or None.

    >>> import panestream as pst
    >>> try:
    ...     pst.tumbling("1 horu")
    ... except PanestreamError as error:
    ...     print(error.spark_error)
    None
    """

    spark_error: BaseException | None = None


class InvalidDurationError(PanestreamError, ValueError):
    """A duration is not a timedelta, or a number and a unit such as ``"1 hour 30 minutes"``, or is out of range.

    >>> import panestream as pst
    >>> pst.tumbling("1 horu")
    Traceback (most recent call last):
        ...
    panestream.errors.InvalidDurationError: size '1 horu': unknown unit 'horu'; did you mean 'hour'?
    """


class InvalidWindowError(PanestreamError, ValueError):
    """An invalid assigner, trigger, evictor or lateness, raised on creation; the message has the allowed range.

    >>> import panestream as pst
    >>> pst.sliding("1 hour", "0 minutes")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    panestream.errors.InvalidWindowError: size and slide of a sliding window must be positive, got size '1 hour', slide ...
    """


class InvalidPlanError(PanestreamError, ValueError):
    """The parts of a query do not fit together, e.g. trigger and windows, raised while it is built; the message names both.

    >>> import panestream as pst
    >>> pst.state.ReducingStateDescriptor("sum", 3)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    panestream.errors.InvalidPlanError: ReducingStateDescriptor needs a function of a and b, got 3; write it like lambda ...
    """


class UnknownNameError(InvalidPlanError, AttributeError):
    """An unknown attribute, often a PySpark or Flink name; the message has the line to write, and ``hasattr`` works as usual.

    >>> import panestream as pst
    >>> pst.tumblin
    Traceback (most recent call last):
        ...
    panestream.errors.UnknownNameError: module 'panestream' has no attribute 'tumblin': did you mean 'tumbling'?
    """


class InvalidEventTimeError(PanestreamError, ValueError):
    """The event time of rows is missing or unusable: null, NaN, out of range, too far ahead.

    Correct the column, filter the rows, or send them to ``.side_output_invalid(tag)``. The micro-batch was not committed.

    >>> pst.stream(df, time="user", out_of_orderness="5 seconds")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    panestream.errors.InvalidEventTimeError: ...
    """


class MalformedRecordError(PanestreamError, ValueError):
    """A record does not have the declared format; the message shows it.

    Correct the schema or the producer, or use ``malformed="side_output"`` to send it to the output for invalid rows.

    >>> try:
    ...     ended = query.await_termination()
    ... except pst.errors.MalformedRecordError as error:
    ...     print("correct the producer:", error)
    """


class AggregateOverflowError(PanestreamError, ArithmeticError):
    """A sum left the range of its SQL type; cast the column before the windows, ``DECIMAL(38, 2)`` or ``DOUBLE``.

    >>> import panestream as pst
    >>> harness = pst.testing.WindowTestHarness(pst.tumbling("1 hour"), aggregate=pst.agg.sum("n"), columns={"n": "int64"})
    >>> for _ in range(2):
    ...     harness.process_element({"n": 2**63 - 1}, "1 minute")
    >>> harness.end_of_input()  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    panestream.errors.AggregateOverflowError: agg.sum('n') (column 'sum(n)') left the range of int64: cast the expression ...
    """


class PlanMismatchError(PanestreamError, RuntimeError):
    """A checkpoint belongs to another plan. Nothing was read or written.

    Start the old query again, or the new query on a new checkpoint, empty or from a savepoint of the old query
    (docs/how-to/savepoints.md lists the allowed changes). ``changed`` has the differences by name as (old, new), with None for an
    absent value. It is empty in an error from a worker.

    >>> pst.state.read_checkpoint(spark, checkpoint, plan=hours.aggregate(agg.max("price")).plan)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    panestream.errors.PlanMismatchError: ...
    """

    def __init__(self, message: str, changed: Mapping[str, tuple[str | None, str | None]] | None = None) -> None:
        super().__init__(message)
        self.changed = dict(changed or {})


class StateFormatError(PanestreamError, RuntimeError):
    """State or exchanged data has a format of an older or newer version that this version cannot read.

    Continue with the version that wrote it (the message has both formats), or start with a new checkpoint. All executors must
    have the same version of panestream.

    >>> try:
    ...     state = pst.state.read_checkpoint(spark, checkpoint)
    ... except pst.errors.StateFormatError as error:
    ...     print("another version of panestream wrote this checkpoint:", error)
    """


class StateDamagedError(PanestreamError, RuntimeError):
    """A value in state is not the last value written: changed, cut, stale, misplaced, or missing.

    The same for Spark's log files in the checkpoint (``offsets``, ``commits``, ``sources``, ``metadata``). The micro-batch
    failed, and nothing was computed from the value. The message has the damage and how to continue, usually from an older
    micro-batch or a savepoint.

    ``group`` is the number of the key group, or None if only the message is available, as on the driver; ``space`` is the table
    of its state, and ``key`` the number of the value in it.

    >>> try:
    ...     open_windows = pst.state.read_checkpoint(spark, checkpoint).windows.count()
    ... except pst.errors.StateDamagedError as error:
    ...     print("start from the last savepoint:", error)
    """

    def __init__(self, text: str, group: int | None = None, space: str | None = None, key: int | None = None) -> None:
        super().__init__(text)
        self.group = group
        self.space = space
        self.key = key

    def __reduce__(self) -> tuple[type[StateDamagedError], tuple[str, int | None, str | None, int | None]]:
        return StateDamagedError, (str(self), self.group, self.space, self.key)


class EnvironmentNotReadyError(PanestreamError, RuntimeError):
    """Spark, Java, a package, a folder's permission or a setting is unsuitable.

    The message has the line to set, the package to install, or the folder; most of them must be in place before the session
    starts.

    >>> try:
    ...     session = pst.build_session("clicks", {"spark.ui.enabled": "false"}, master="local[2]")
    ... except pst.errors.EnvironmentNotReadyError as error:
    ...     print("install what is missing:", error)
    """


class MemoryLimitError(PanestreamError, RuntimeError):
    """A worker would read more into memory at once than the query allows. Nothing of the micro-batch was committed.

    The message has the size, and the key and window, the key group, or the value that is too large for any state store. Keep
    aggregates instead of rows, read less at a time, use more key groups, or raise the limit, ``.options(memory_limit=bytes)``.

    >>> try:
    ...     ended = query.await_termination()
    ... except pst.errors.MemoryLimitError as error:
    ...     print("start it again with a larger .options(memory_limit=...):", error)
    """


class SinkError(PanestreamError, RuntimeError):
    """A sink cannot be used: it has another query's output, which is never overwritten, or lacks a setting.

    Choose another place for the output, or apply the setting in the message.

    >>> pst.sinks.compact(spark, folder)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    panestream.errors.SinkError: ...
    """


class FencedError(SinkError):
    """Another copy of the query started later on this checkpoint, so this copy stopped. Each query needs its own checkpoint.

    >>> try:
    ...     ended = query.await_termination()
    ... except pst.errors.FencedError:
    ...     print("a newer copy of this query is running")
    """


class CheckpointError(PanestreamError, RuntimeError):
    """A checkpoint does not exist, or lacks the requested data.

    Check the path; Spark keeps the last 100 micro-batches (``spark.sql.streaming.minBatchesToRetain``).

    >>> pst.state.read_checkpoint(spark, folder)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    panestream.errors.CheckpointError: ...
    """


class OperatorError(PanestreamError, RuntimeError):
    """A micro-batch failed for a reason outside panestream, e.g. memory, a killed worker, a library; the message has it.

    ``spark_error`` has Spark's error. The query continues from its checkpoint.

    >>> try:
    ...     ended = query.await_termination()
    ... except pst.errors.OperatorError as error:
    ...     print("Spark failed:", error.spark_error)
    """


class CallbackError(PanestreamError, RuntimeError):
    """A function passed to ``start`` raised; the message has its name and traceback, ``__context__`` the exception.

    The query has failed, even for :class:`SystemExit` or :class:`KeyboardInterrupt`: the function runs in its own thread, and
    ends neither the program nor other threads. A restarted query continues from its checkpoint.

    >>> try:
    ...     ended = query.await_termination()
    ... except pst.errors.CallbackError as error:
    ...     print("the function raised:", error.__context__)
    """


class JobError(PanestreamError, ValueError):
    """A job file is wrong; the message has file, line, key path and the nearest correct name, for all mistakes.

    docs/reference/job-files.md lists every key, and ``panestream explain JOB`` checks without a run.

    >>> from pathlib import Path
    >>> from panestream.jobs.loading import load_job
    >>> try:
    ...     load_job(Path("no_such_job.toml"))
    ... except JobError as error:
    ...     print(error)
    no_such_job.toml: there is no such file
    """


class PanestreamWarning(UserWarning):
    """A problem that does not stop the query, such as dropped rows, or a setting that makes it slow.

    It is issued on the driver: ``warnings.simplefilter("error", PanestreamWarning)`` makes it an error, ``"ignore"`` silences it.

    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always", PanestreamWarning)
    ...     warn("late rows are dropped")
    >>> [str(warning.message) for warning in caught]
    ['late rows are dropped']
    """


def warn(message: str) -> None:
    """Issue a :class:`PanestreamWarning` at the line of the user's code that called panestream."""
    frame, level = sys._getframe(1), 2  # noqa: SLF001 - the frame of the caller
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "panestream":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, PanestreamWarning, stacklevel=level)


def did_you_mean(wrong: str, known: Iterable[str]) -> str:
    """Return a hint for an error about an unknown name: the nearest names, or all of them.

    >>> did_you_mean("delai", ["delay", "column"])
    "did you mean 'delay'?"
    """
    names = sorted(known)
    near = difflib.get_close_matches(wrong, names, n=2, cutoff=0.6)
    if near:
        return "did you mean " + " or ".join(repr(name) for name in near) + "?"
    return "known here: " + ", ".join(names)


def __dir__() -> list[str]:
    return sorted(name for name, value in globals().items() if isinstance(value, type) and value.__module__ == __name__)
