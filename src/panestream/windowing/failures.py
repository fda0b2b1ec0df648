"""The error of a function of the user's own: where it was, and the user's own traceback, in a text that survives any journey."""

from __future__ import annotations

import ast
import os
import re
from datetime import datetime, timedelta, timezone
from pathlib import Path
from traceback import TracebackException
from typing import Any

from panestream.errors import PanestreamError
from panestream.windowing.windows import GlobalWindow, TimeWindow, Window

BAR = "  | "
"""Every line of the user's traceback begins so."""
_PACKAGE = str(Path(__file__).parent.parent) + os.sep
_INSTANT = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{6})?"
_BOUNDS = re.compile(r"window TimeWindow\(start=(-?\d+), end=(-?\d+)\)")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_WHERE = re.compile(
    r"\(at key (?P<key>.*?)"
    r"(?:, window (?:TimeWindow\(start=(?P<start>-?\d+), end=(?P<end>-?\d+)\)|(?P<all>GlobalWindow\(\))"
    rf"|(?P<since>{_INSTANT}) to (?P<until>{_INSTANT}) UTC)"
    r"(?:, which (?:holds (?:(?P<elements>\d+) elements?|one accumulator)|is empty))?)?\)$"
)


class WindowFunctionError(PanestreamError, RuntimeError):
    """A function of the user's own raised: says what, where, and on which of the user's lines. The exception is the cause.

    The text has one line, and below it the traceback, each of its lines after a bar; panestream's own frames are left out:

    .. code-block:: text

        the window function raised KeyError: 'prize' (at key 'ann', window TimeWindow(start=0, end=10), which holds 2 elements)
          | Traceback (most recent call last):
          |   File "shop.py", line 12, in process
          |     yield element["prize"]
          | KeyError: 'prize'

    Flink has no such error: the job fails with the bare exception.

    Attributes:
        key: whose window it was.
        window: None where there was none yet: an assigner raised.
        elements: how many elements the window held; None where the engine keeps only an accumulator.
    """

    def __init__(self, text: str, key: Any = None, window: Window | None = None, elements: int | None = None) -> None:
        super().__init__(text)
        self.key = key
        self.window = window
        self.elements = elements

    def with_instants(self) -> WindowFunctionError:
        """The same error with the window's bounds as instants in UTC, where times are microseconds since the epoch, as on Spark.

        >>> error = WindowFunctionError("no (at key 7, window TimeWindow(start=0, end=60000000))", 7, TimeWindow(0, 60_000_000))
        >>> str(error.with_instants())
        'no (at key 7, window 1970-01-01 00:00:00 to 1970-01-01 00:01:00 UTC)'
        """
        headline, *lines = str(self).split("\n")
        shown = in_instants(headline)
        if shown == headline:
            return self
        return WindowFunctionError("\n".join([shown, *lines]), self.key, self.window, self.elements)

    def __reduce__(self) -> tuple[Any, ...]:
        return WindowFunctionError, (str(self), self.key, self.window, self.elements)

    @classmethod
    def of(
        cls, what: str, key: Any, window: Window | None, held: str, elements: int | None, cause: BaseException
    ) -> WindowFunctionError:
        """The error that ``cause`` becomes.

        Args:
            what: whose code raised, in words.
            key: whose window it was.
            window: None where there was none yet.
            held: what the window held, in words: ``"holds 3 elements"``, ``"holds one accumulator"``, ``"is empty"``.
            elements: the same as a number; None where elements are not kept.
            cause: what was raised; the caller chains it.
        """
        where = f"key {key!r}" + ("" if window is None else f", window {window!r}, which {held}")
        summary = "".join(TracebackException.from_exception(cause, lookup_lines=False).format_exception_only()).strip()
        headline = f"{what} raised {summary.splitlines()[0]} (at {where})"
        return cls("\n".join([headline, *(BAR + line for line in users_lines(cause))]), key, window, elements)

    @classmethod
    def from_text(cls, text: str) -> WindowFunctionError | None:
        r"""The first such error that a longer text quotes, as Spark's do of what a Python worker raised.

        Key, window and number of elements are read back as far as their texts say what they were; else they are None.

        Args:
            text: any text.

        Returns:
            The error, without a cause; None where the text quotes none.

        >>> error = WindowFunctionError.from_text(
        ...     "org.apache.spark.SparkException: ...\n"
        ...     "panestream.windowing.failures.WindowFunctionError: the window function raised KeyError: 'prize' "
        ...     "(at key ('ann', 3), window TimeWindow(start=0, end=10), which holds 2 elements)\n"
        ...     "  | KeyError: 'prize'\n"
        ...     "and so on"
        ... )
        >>> error.key, error.window, error.elements
        (('ann', 3), TimeWindow(start=0, end=10), 2)
        """
        lines = text.splitlines()
        at = next((at for at, line in enumerate(lines) if f"{cls.__name__}: " in line), None)
        if at is None:
            return None
        headline = lines[at].split(f"{cls.__name__}: ", 1)[1]
        quoted = [headline]
        for line in lines[at + 1 :]:
            if not line.startswith(BAR.rstrip()):
                break
            quoted.append(line)
        found = _WHERE.search(headline)
        if found is None:
            return cls("\n".join(quoted))
        window: Window | None = GlobalWindow() if found["all"] else None
        if found["start"]:
            window = TimeWindow(int(found["start"]), int(found["end"]))
        if found["since"]:
            window = TimeWindow(_micros(found["since"]), _micros(found["until"]))
        elements = int(found["elements"]) if found["elements"] else None
        return cls("\n".join(quoted), _literal(found["key"]), window, elements)


def at_window(key: Any, window: Window) -> str:
    """Return the place of a value in words, to be put into an error."""
    return f" (at key {key!r}, window {window!r})"


def in_instants(text: str) -> str:
    """Return a text whose windows have instants in UTC for bounds; windows outside the years 1 to 9999 stay as they are.

    >>> in_instants("no (at key 7, window TimeWindow(start=0, end=60000000))")
    'no (at key 7, window 1970-01-01 00:00:00 to 1970-01-01 00:01:00 UTC)'
    """
    return _BOUNDS.sub(_instants_of, text)


def _instants_of(found: re.Match[str]) -> str:
    try:
        bounds = [_EPOCH + timedelta(microseconds=int(time)) for time in found.groups()]
    except OverflowError:
        return found[0]
    start, end = (bound.replace(tzinfo=None).isoformat(" ") for bound in bounds)
    return f"window {start} to {end} UTC"


def users_lines(cause: BaseException) -> list[str]:
    """The traceback without the frames of this package: what called the user's code, and what the user's code called of it."""
    summary = TracebackException.from_exception(cause, compact=True)
    seen: TracebackException | None = summary
    while seen is not None:
        seen.stack[:] = [frame for frame in seen.stack if not frame.filename.startswith(_PACKAGE)]
        seen = seen.__cause__ or seen.__context__
    return "".join(summary.format()).splitlines()


def _micros(instant: str) -> int:
    return (datetime.fromisoformat(instant).replace(tzinfo=timezone.utc) - _EPOCH) // timedelta(microseconds=1)


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return None


__all__ = ["BAR", "WindowFunctionError", "at_window", "in_instants", "users_lines"]
