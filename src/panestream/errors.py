"""What panestream raises, and warns of. Every message says what was wrong, where, and what to do about it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping


class PanestreamError(Exception):
    """Base of all errors that panestream raises on purpose.

    Attributes:
        spark_error: the error of Spark's in which it was found, with plan and Java's stack; None where Spark had no part in it.
    """

    spark_error: BaseException | None = None


class InvalidDurationError(PanestreamError, ValueError):
    """A duration could not be understood, or is out of the allowed range."""


class InvalidWindowError(PanestreamError, ValueError):
    """A window assigner, trigger, evictor or lateness makes no sense."""


class InvalidPlanError(PanestreamError, ValueError):
    """The parts of a windowed query do not fit together."""


class InvalidEventTimeError(PanestreamError, ValueError):
    """Rows carry no event time, or one that cannot be used."""


class MalformedRecordError(PanestreamError, ValueError):
    """A record of a source is not of the format that it was said to be; the message says which record, and shows it."""


class AggregateOverflowError(PanestreamError, ArithmeticError):
    """A sum left the range of its SQL type."""


class PlanMismatchError(PanestreamError, RuntimeError):
    """A checkpoint belongs to another plan than the one that was started on it.

    Attributes:
        changed: what differs, by name, as (then, now); None: absent. Empty where the error came from a worker.
    """

    def __init__(self, message: str, changed: Mapping[str, tuple[str | None, str | None]] | None = None) -> None:
        super().__init__(message)
        self.changed = dict(changed or {})


class StateFormatError(PanestreamError, RuntimeError):
    """What rests in state, or crossed the exchange, is in a format that this version cannot read: an older or a newer one."""


class StateDamagedError(PanestreamError, RuntimeError):
    """A value in state is not what was last written there: changed, cut, stale, misplaced, or gone.

    The message names it, says what is the matter, and what to do. Nothing was computed from it; the micro-batch failed.

    Attributes:
        group: the number of the key group; None where only the message is known, as on the driver.
        space, key: where in its state.
    """

    def __init__(self, text: str, group: int | None = None, space: str | None = None, key: int | None = None) -> None:
        super().__init__(text)
        self.group = group
        self.space = space
        self.key = key

    def __reduce__(self) -> tuple[type[StateDamagedError], tuple[str, int | None, str | None, int | None]]:
        return StateDamagedError, (str(self), self.group, self.space, self.key)


class EnvironmentNotReadyError(PanestreamError, RuntimeError):
    """Spark, Java or a setting is not what panestream needs; the message has the line to set."""


class SinkError(PanestreamError, RuntimeError):
    """A sink cannot be used: it holds another query's output, or lacks a setting."""


class FencedError(SinkError):
    """Another copy of the query was started later on the same checkpoint: this one has stopped, and publishes nothing more."""


class CheckpointError(PanestreamError, RuntimeError):
    """There is no such checkpoint, or it does not hold what was asked for."""


class OperatorError(PanestreamError, RuntimeError):
    """The windows of a micro-batch could not be computed, for a reason that is not panestream's own; the message has it."""


class CallbackError(PanestreamError, RuntimeError):
    """A function that was handed to ``start`` raised; the message says which, and has its traceback.

    The query has failed then, also where the function ended in :class:`SystemExit` or :class:`KeyboardInterrupt`: it runs in a
    thread of its own, and ends neither the program nor another thread. What was raised is in ``__context__``.
    """


class JobError(PanestreamError, ValueError):
    """A job file is wrong; the message names the path of the key and the nearest right name."""


class PanestreamWarning(UserWarning):
    """Something that goes on, and that somebody should know: rows that are dropped, a setting that makes a query slow.

    Warned on the driver, through Python's :mod:`warnings`: ``warnings.simplefilter("error", PanestreamWarning)`` makes each one
    an error, ``"ignore"`` silences them.
    """


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
