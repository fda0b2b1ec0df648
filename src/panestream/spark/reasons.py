"""Short texts of Spark's errors, and of our errors that leave a worker. Does not import Spark's classes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from traceback import format_exception_only

from panestream.errors import PanestreamError


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
    said = next((line for line in lines if line), type(error).__name__)
    return said.split(" SQLSTATE: ")[0].removesuffix(";").strip()


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
