"""Panestream's own errors for failures of the operator, a sink, or a function passed to ``start``.

Java calls ``foreachBatch`` and waits for the answer. Any error in it becomes an ordinary exception, the only kind that py4j can
answer with, and Spark reports it as the failure of a "user provided function". So panestream names the error immediately. The
caller that waits for the query finds it as an object or, through Spark Connect, in Spark's text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from traceback import TracebackException, format_exception_only
from typing import NoReturn, Protocol

from panestream import errors
from panestream.errors import CallbackError, EnvironmentNotReadyError, OperatorError, PanestreamError, SinkError
from panestream.windowing.failures import BAR, WindowFunctionError, users_lines


def of_spark(error: BaseException) -> bool:
    """Return whether Spark raised it."""
    return any(cls.__module__.split(".")[0] in ("pyspark", "py4j", "grpc") for cls in type(error).__mro__)


def java_is_gone(error: BaseException) -> bool:
    """Return whether the Java process no longer answers."""
    # Among py4j's errors, those without an answer from Java. Compared by name, as an installation with only Connect lacks py4j.
    names = {cls.__name__ for cls in type(error).__mro__}
    return isinstance(error, (ConnectionError, EOFError)) or bool(names & {"Py4JNetworkError"})


_ENDED = re.compile(
    r"SparkContext was shut down|stopped SparkContext|SparkSession.* stopped|Connection refused|Connection reset|"
    r"StatusCode\.UNAVAILABLE|INVALID_HANDLE\.SESSION|\bcancelled\b"
)


def of_ended_spark(error: BaseException) -> bool:
    """Return whether Spark failed because it was stopped or killed. Then its input may be undamaged."""
    return java_is_gone(error) or _ENDED.search(words_of(error)) is not None


def words_of(error: BaseException) -> str:
    """Return the whole text of one of Spark's errors."""
    # An error that PySpark did not translate begins with py4j's text; Java's message is better.
    java = getattr(error, "java_exception", None)
    return str(error) if java is None else str(java.getMessage())


_WRAPPING = re.compile(
    r"\A(?:\[STREAM_FAILED\] Query \[id = [^]]*\] terminated with exception: )?"
    r"(?:Job aborted due to stage failure: .*? most recent failure: Lost task \S+ in stage \S+ \(TID \d+\) \(.*?\): )?"
)
"""Spark's text before the cause: numbers of the query and of the task."""


def first_sentence(error: BaseException) -> str:
    """Return the text of one of Spark's errors without plan and stack, or that of the Python worker that failed."""
    words = words_of(error)
    lines = [line.strip() for line in _WRAPPING.sub("", words).splitlines()]
    raised = [line for line in lines if re.match(r"[A-Za-z_][\w.]*(Error|Exception): ", line)]
    if raised and "Traceback (most recent call last)" in words:
        return raised[-1]
    line_of_error = next((line for line in lines if line), type(error).__name__)
    return line_of_error.split(" SQLSTATE: ")[0].removesuffix(";").strip()


@contextmanager
def without_internal_traceback() -> Iterator[None]:
    """Reduce panestream's errors in the block, which runs in a Spark worker, to their text.

    Spark quotes a worker's whole traceback, with causes. Our text has the user's own lines, and the frames inside panestream
    would not help.
    """
    from panestream.windowing.failures import BAR, WindowFunctionError, in_instants, users_lines

    try:
        yield
    except WindowFunctionError as error:
        raise error.with_instants().with_traceback(None) from None
    except PanestreamError as error:
        error.args = tuple(in_instants(part) if isinstance(part, str) else part for part in error.args)
        raise error.with_traceback(None) from None
    except (SystemExit, GeneratorExit) as error:
        # For exceptions that do not derive from Exception, Spark's text lacks a line by which they could be recognised.
        raised = "".join(format_exception_only(error)).strip()
        lines = [f"a function in the windows raised {raised}", *(BAR + line for line in users_lines(error))]
        raise WindowFunctionError("\n".join(lines)) from None


class Described(Protocol):
    """Anything that can describe itself briefly, such as a sink."""

    def describe(self) -> str:
        """Return the description."""


_OURS = re.compile(r"(?<!concat\()panestream\.errors\.(\w+): (.*?)(?=\n\s*(?:at |File |SQLSTATE|\Z)|\n\n|\Z)", re.DOTALL)
"""Excludes errors in a plan (``raise_error(… concat(panestream.errors…``): Spark quotes the plan of a failed stream."""
_NO_MEMORY = (
    "Java ran out of memory. Give it more (spark.driver.memory on a local master, otherwise spark.executor.memory), or read "
    "fewer rows in a micro-batch (maxFilesPerTrigger, maxOffsetsPerTrigger); if single rows are large, send fewer rows at once "
    "to Python (spark.sql.execution.arrow.maxRecordsPerBatch or maxBytesPerBatch)"
)
_NO_STATE = (
    "Spark cannot load the state of the query from its checkpoint. If files below its folder state/ are damaged or missing, put "
    "back a copy of the whole checkpoint from before the damage, or start on a new checkpoint"
)
_NO_RIGHT = (
    "Spark may not use a file or folder. Give the user of Spark's processes the right to read and write there (the file system "
    "may be mounted read-only), or choose another folder"
)
_STATE_SIGNS = ("CANNOT_LOAD_STATE_STORE", "MISSING_STATE_DIRECTORY")
_REASONS = {
    "No space left on device": (
        "a disk is full: the disk of the checkpoint, of the sink, or of Spark's temporary files (spark.local.dir on every "
        "executor). Free some space, and start the query again; it repeats the micro-batch without losing rows"
    ),
    "Python worker failed to connect back": (
        "a Python process that Spark started on an executor did not answer: this Python does not exist (PYSPARK_PYTHON must be "
        "on every executor, with the driver's version), it cannot import PySpark, or the machine lacks memory or processors. "
        "The executor's error output has the details"
    ),
    "Mkdirs failed to create": _NO_RIGHT,
    "Permission denied": _NO_RIGHT,
    "Read-only file system": _NO_RIGHT,
    "AccessControlException": _NO_RIGHT,
    "AccessDenied": _NO_RIGHT,
}
"""Signs deep in the causes that Spark quotes, which explain more than Spark's first sentence."""
_CAUSE = re.compile(r"^Caused by: (?:[\w$]+\.)*([\w$]+: .*)$", re.MULTILINE)
_INTERRUPTION = re.compile(
    r"^: java\.(?:lang\.Interrupted|io\.InterruptedIO|nio\.channels\.ClosedByInterrupt)Exception", re.MULTILINE
)


def own_error(text: str) -> PanestreamError | None:
    """Return the panestream error inside Spark's report of a failed Python worker, or None."""
    raised = WindowFunctionError.from_text(text)
    if raised is not None:
        return raised
    match = _OURS.search(text)
    kind = getattr(errors, match.group(1), None) if match else None
    if match is None or not (isinstance(kind, type) and issubclass(kind, PanestreamError)):
        return None
    # Spark appends its own SQLSTATE to errors raised in SQL.
    return kind(re.sub(r"\s*SQLSTATE: \w+\s*$", "", match.group(2)).strip())


@contextmanager
def of_operator(batch_id: int | None) -> Iterator[None]:
    """Raise any error in the block as panestream's own, or as OperatorError. Without ``batch_id`` it is a batch query."""
    try:
        yield
    except BaseException as error:  # noqa: BLE001 (Java waits for an answer)
        ours = _own(error)
        if ours is None:
            where = _where(batch_id)
            ours = OperatorError(f"the windows could not be computed{where}: {_why(error)}")
        raise_as(ours, error)


@contextmanager
def as_ours() -> Iterator[None]:
    """Raise an error that panestream raised in a worker as that error. Other errors pass unchanged."""
    try:
        yield
    except Exception as error:
        ours = _own(error)
        if ours is None:
            raise
        raise_as(ours, error)


@contextmanager
def of_sink(tag: str, sink: Described, batch_id: int | None) -> Iterator[None]:
    """Raise any error in the block as panestream's own, or as SinkError with the sink and its output ``tag``.

    Without ``batch_id`` it is a batch query.
    """
    try:
        yield
    except BaseException as error:
        if batch_id is None and not isinstance(error, Exception):
            raise  # a batch runs in the user's own thread
        ours = _own(error)
        if ours is None:
            ours = SinkError(f"the sink of the output {tag!r} ({sink.describe()}) failed{_where(batch_id)}: {_why(error)}")
        raise_as(ours, error)


@contextmanager
def of_callback(name: str, batch_id: int) -> Iterator[None]:
    """Raise any error in the block as CallbackError. ``name`` is the argument of ``start`` that the function was passed as."""
    try:
        yield
    except BaseException as error:  # noqa: BLE001 (Java waits for an answer)
        ours = CallbackError(f"{name} failed{_where(batch_id)}, whose rows are written: {_why(error)}")
        raise_as(ours, error)


@contextmanager
def writing(path: str, *, any_reason: bool = False) -> Iterator[None]:
    """Raise EnvironmentNotReadyError with the folder if Spark fails in the block because it cannot write there.

    Args:
        path: the folder.
        any_reason: whether Spark does nothing else in the block, so that every error is about the folder.
    """
    try:
        yield
    except Exception as error:
        if not of_spark(error) or of_ended_spark(error):
            raise
        why = _reason_of_machine(error) or (first_sentence(error) if any_reason else None)
        if why is None:
            raise
        raise_as(EnvironmentNotReadyError(f"Spark cannot write {path}: {why}"), error)


def without_java(error: BaseException) -> OperatorError:
    """Return the error of a query whose Java process ended. Java ends by itself if a task runs out of memory."""
    ours = OperatorError(
        f"Spark's Java process has ended while the query ran. Mostly {_NO_MEMORY}. Its own last words "
        f"are on its error output ({type(error).__name__}: {error})"
    )
    ours.spark_error = error
    return ours


def raise_as(ours: PanestreamError, error: BaseException) -> NoReturn:
    """Raise ``ours`` without the chain of ``error``: Spark's text is long, and ``ours`` includes the user's lines."""
    # Stopping a query interrupts it in Java. By the text of that error Spark recognises that nothing has failed.
    if ours is error or _is_interruption(error):
        raise error
    if of_spark(error):
        ours.spark_error = error
    raise ours from None


def known_reason(error: BaseException) -> str | None:
    """Return why Spark failed and what to do, with Spark's first sentence, or None for an error without a known sign."""
    reason = _reason_of_machine(error)
    if reason is not None:
        return reason
    words, first = words_of(error), first_sentence(error)
    if any(sign in words for sign in _STATE_SIGNS):
        # Spark's first sentence may end here; the cause has the reason and for some files the name.
        return f"{_NO_STATE} ({'; '.join([first, *_CAUSE.findall(str(error))[-1:]])})"
    return f"{_NO_MEMORY} ({first})" if "OutOfMemoryError" in words or "Java heap space" in words else None


def _reason_of_machine(error: BaseException) -> str | None:
    """Return the reason if it is a disk, a permission or a process, or None."""
    words, first = words_of(error), first_sentence(error)
    for sign, reason in _REASONS.items():
        if sign in words or sign in str(error):
            return f"{reason} ({first if sign in first else f'{sign}; {first}'})"
    return None


def _is_interruption(error: BaseException) -> bool:
    return of_spark(error) and _INTERRUPTION.search(str(error)) is not None


def _own(error: BaseException) -> PanestreamError | None:
    if isinstance(error, PanestreamError):
        return error
    return own_error(str(error)) if of_spark(error) else None


def _where(batch_id: int | None) -> str:
    return "" if batch_id is None else f" in micro-batch {batch_id}"


def _why(error: BaseException) -> str:
    """Return a one-line summary of an error, followed by the user's own lines."""
    if of_spark(error):
        return known_reason(error) or first_sentence(error)
    summary = "".join(TracebackException.from_exception(error, lookup_lines=False).format_exception_only()).strip()
    return "\n".join([summary.splitlines()[0], *(BAR + line for line in users_lines(error))])
