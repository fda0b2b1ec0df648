"""Errors in few words: those of Spark, and ours on their way out of a worker. Spark's classes are not asked for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from traceback import format_exception_only

from panestream.errors import PanestreamError


def of_spark(error: BaseException) -> bool:
    """Whether Spark raised it."""
    return any(cls.__module__.split(".")[0] in ("pyspark", "py4j", "grpc") for cls in type(error).__mro__)


def java_is_gone(error: BaseException) -> bool:
    """Whether nobody answers any more where Java was."""
    # Of py4j's errors those without an answer from Java; where only Connect's client is installed, there is no py4j to ask.
    names = {cls.__name__ for cls in type(error).__mro__}
    return isinstance(error, (ConnectionError, EOFError)) or bool(names & {"Py4JNetworkError"})


_ENDED = re.compile(
    r"SparkContext was shut down|stopped SparkContext|SparkSession.* stopped|Connection refused|Connection reset|"
    r"StatusCode\.UNAVAILABLE|INVALID_HANDLE\.SESSION|\bcancelled\b"
)


def of_ended_spark(error: BaseException) -> bool:
    """Whether Spark failed because it was stopped or killed meanwhile: then what it was to read may be as good as ever."""
    return java_is_gone(error) or _ENDED.search(words_of(error)) is not None


def words_of(error: BaseException) -> str:
    """All that an error of Spark's says."""
    # What PySpark did not translate into an error of its own begins with py4j's words; Java knows better.
    java = getattr(error, "java_exception", None)
    return str(error) if java is None else str(java.getMessage())


_WRAPPING = re.compile(
    r"\A(?:\[STREAM_FAILED\] Query \[id = [^]]*\] terminated with exception: )?"
    r"(?:Job aborted due to stage failure: .*? most recent failure: Lost task \S+ in stage \S+ \(TID \d+\) \(.*?\): )?"
)
"""What Spark says before the cause: numbers of the query and of the task."""


def first_sentence(error: BaseException) -> str:
    """What an error of Spark's says, without its plan and stack; what a Python worker said, where one failed."""
    words = words_of(error)
    lines = [line.strip() for line in _WRAPPING.sub("", words).splitlines()]
    raised = [line for line in lines if re.match(r"[A-Za-z_][\w.]*(Error|Exception): ", line)]
    if raised and "Traceback (most recent call last)" in words:
        return raised[-1]
    said = next((line for line in lines if line), type(error).__name__)
    return said.split(" SQLSTATE: ")[0].removesuffix(";").strip()


@contextmanager
def in_few_words() -> Iterator[None]:
    """For what runs in Spark's workers: an error of panestream's leaves it as its text alone.

    Spark quotes the whole traceback of a worker, causes included. Our text has the user's own lines; what led there inside of
    panestream helps nobody.
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
        # Of what is no ordinary exception Spark's text has no line that could be found again.
        raised = "".join(format_exception_only(error)).strip()
        lines = [f"a function in the windows raised {raised}", *(BAR + line for line in users_lines(error))]
        raise WindowFunctionError("\n".join(lines)) from None
