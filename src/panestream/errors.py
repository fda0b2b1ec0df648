"""What panestream raises, and warns of. Every message says what was wrong, where, and what to do about it."""

from __future__ import annotations

import difflib
import sys
import warnings
from collections.abc import Iterable, Mapping


class PanestreamError(Exception):
    """Base of all errors that panestream raises on purpose.

    Attributes:
        spark_error: the error of Spark's in which it was found, with plan and Java's stack; None where Spark had no part in it.
    """

    spark_error: BaseException | None = None


class InvalidDurationError(PanestreamError, ValueError):
    """A duration could not be understood, or is out of the allowed range.

    What to do: write a number and a unit, as ``"90 seconds"``, ``"1 hour 30 minutes"``, or a :class:`~datetime.timedelta`.
    """


class InvalidWindowError(PanestreamError, ValueError):
    """A window assigner, trigger, evictor or lateness makes no sense: a size of zero, an offset beyond it, a negative lateness.

    What to do: the message names the value and what is allowed. It is raised where the object is made, before anything runs.
    """


class InvalidPlanError(PanestreamError, ValueError):
    """The parts of a windowed query do not fit together: a trigger that the windows do not take, a column that is not there.

    What to do: the message names both parts. It is raised where the query is described, before anything runs.
    """


class UnknownNameError(InvalidPlanError, AttributeError):
    """An object has no such attribute: most often it has another name here than in PySpark or Flink.

    What to do: write the line that the message has. It is an :class:`AttributeError` too, so ``hasattr`` answers as always.
    """


class InvalidEventTimeError(PanestreamError, ValueError):
    """Rows carry no event time, or one that cannot be used: null, NaN, out of range, too far ahead.

    What to do: mend the column or filter the rows; or send such rows to an output of their own, ``.side_output_invalid(tag)``.
    A stream goes on from its checkpoint: nothing of the micro-batch was committed.
    """


class MalformedRecordError(PanestreamError, ValueError):
    """A record of a source is not of the format that it was said to be; the message says which record, and shows it.

    What to do: mend the schema or the producer; or ``malformed="side_output"``, which sends such records to the output for
    invalid rows.
    """


class AggregateOverflowError(PanestreamError, ArithmeticError):
    """A sum left the range of its SQL type.

    What to do: cast the column to a wider one before the windows, ``DECIMAL(38, 2)`` or ``DOUBLE``.
    """


class PlanMismatchError(PanestreamError, RuntimeError):
    """A checkpoint belongs to another plan than the one that was started on it.

    What to do: start the old query again, or the new one on a new checkpoint: without a past, or from a savepoint of the old
    one (docs/how-to/savepoints.md says what may change). Nothing was read or written.

    Attributes:
        changed: what differs, by name, as (then, now); None: absent. Empty where the error came from a worker.
    """

    def __init__(self, message: str, changed: Mapping[str, tuple[str | None, str | None]] | None = None) -> None:
        super().__init__(message)
        self.changed = dict(changed or {})


class StateFormatError(PanestreamError, RuntimeError):
    """What rests in state, or crossed the exchange, is in a format that this version cannot read: an older or a newer one.

    What to do: go on with the version that wrote it (the message says which format is there, and which is read), or begin with a
    new checkpoint. All executors must have the same version of panestream.
    """


class StateDamagedError(PanestreamError, RuntimeError):
    """A value in state is not what was last written there: changed, cut, stale, misplaced, or gone.

    Or a file of the logs that Spark keeps in the checkpoint (``offsets``, ``commits``, ``sources``, ``metadata``) is.

    What to do: the message names it, says what is the matter, and how to go on: most often from an older micro-batch or a
    savepoint. Nothing was computed from it; the micro-batch failed.

    Attributes:
        group: the number of the key group; None where only the message is known, as on the driver.
        space: the table of its state.
        key: the number of the value in it.
    """

    def __init__(self, text: str, group: int | None = None, space: str | None = None, key: int | None = None) -> None:
        super().__init__(text)
        self.group = group
        self.space = space
        self.key = key

    def __reduce__(self) -> tuple[type[StateDamagedError], tuple[str, int | None, str | None, int | None]]:
        return StateDamagedError, (str(self), self.group, self.space, self.key)


class EnvironmentNotReadyError(PanestreamError, RuntimeError):
    """Spark, Java or a setting is not what panestream needs: another state store, too old a Spark, a package that is not there.

    Or Spark may not write to a folder, e.g. of the checkpoint.

    What to do: the message has the line to set, the package to bring, or the folder; most of it must be so before the session
    starts.
    """


class MemoryLimitError(PanestreamError, RuntimeError):
    """More would be taken into a worker's memory at once than the query allows.

    Rows of a window for a function of your own, rows of a key group in one micro-batch, or a value that no state store takes.

    What to do: the message names the key and window, or the key group, and the size. Keep aggregates in place of rows, read less
    at a time, take more key groups; or raise the limit, ``.options(memory_limit=bytes)``. Nothing of the micro-batch was
    committed.
    """


class SinkError(PanestreamError, RuntimeError):
    """A sink cannot be used: it holds another query's output, or lacks a setting.

    What to do: another place for the output, or the setting that the message names. Results of another query are not
    written over.
    """


class FencedError(SinkError):
    """Another copy of the query was started later on the same checkpoint: this one has stopped, and publishes nothing more.

    What to do: nothing, if the other one was meant to take over. Otherwise find who starts it twice; each query needs a
    checkpoint of its own.
    """


class CheckpointError(PanestreamError, RuntimeError):
    """There is no such checkpoint, or it does not hold what was asked for.

    What to do: look at the path; of micro-batches, Spark keeps the last 100 (``spark.sql.streaming.minBatchesToRetain``).
    """


class OperatorError(PanestreamError, RuntimeError):
    """The windows of a micro-batch could not be computed, for a reason that is not panestream's own; the message has it.

    What to do: what the message says of the reason: memory, a worker that was ended, a library. ``spark_error`` has Spark's own.
    The query goes on from its checkpoint.
    """


class CallbackError(PanestreamError, RuntimeError):
    """A function that was handed to ``start`` raised; the message says which, and has its traceback.

    What to do: mend the function and start the query again: it goes on from its checkpoint.

    The query has failed then, also where the function ended in :class:`SystemExit` or :class:`KeyboardInterrupt`: it runs in a
    thread of its own, and ends neither the program nor another thread. What was raised is in ``__context__``.
    """


class JobError(PanestreamError, ValueError):
    """A job file is wrong; the message names file, line, the path of the key and the nearest right name, for all that is wrong.

    What to do: mend those lines; docs/reference/job-files.md lists every key. ``panestream explain JOB`` checks without a run.
    """


class PanestreamWarning(UserWarning):
    """Something that goes on, and that somebody should know: rows that are dropped, a setting that makes a query slow.

    Warned on the driver, through Python's :mod:`warnings`: ``warnings.simplefilter("error", PanestreamWarning)`` makes each one
    an error, ``"ignore"`` silences them.
    """


def warn(message: str) -> None:
    """Warn (:class:`PanestreamWarning`) at the line of the user's code that called panestream."""
    frame, level = sys._getframe(1), 2  # noqa: SLF001 - the frame of the caller
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "panestream":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, PanestreamWarning, stacklevel=level)


def did_you_mean(wrong: str, known: Iterable[str]) -> str:
    """A hint to append to an error about an unknown name: the nearest right ones, or all of them.

    >>> did_you_mean("delai", ["delay", "column"])
    "did you mean 'delay'?"
    """
    names = sorted(known)
    near = difflib.get_close_matches(wrong, names, n=2, cutoff=0.6)
    if near:
        return "did you mean " + " or ".join(repr(name) for name in near) + "?"
    return "known here: " + ", ".join(names)


def __dir__() -> list[str]:
    return sorted(name for name, value in globals().items() if getattr(value, "__module__", None) == __name__)
