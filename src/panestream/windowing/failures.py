"""The error of a user function, with its location and the user's traceback as text, which survives pickling and Spark."""

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
"""The start of every line of the user's traceback."""
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
    """A user function raised. The message names the function, the window and the user's lines; the exception is the cause.

    The traceback follows the first line, each line after a bar, without panestream's own frames:

    .. code-block:: text

        the window function raised KeyError: 'prize' (at key 'ann', window TimeWindow(start=0, end=10), which holds 2 elements)
          | Traceback (most recent call last):
          |   File "shop.py", line 12, in process
          |     yield element["prize"]
          | KeyError: 'prize'

    ``key`` and ``window`` are the location; ``window`` is None if an assigner raised. ``elements`` is their number, or None if
    the engine stores only an accumulator. In Flink, the job fails with the bare exception.

    >>> import panestream as pst
    >>> harness = pst.testing.WindowTestHarness(pst.tumbling("1 minute"), apply=lambda key, window, rows: [rows[0]["prize"]])
    >>> harness.process_element({"price": 3}, "5 seconds", key="ann")
    >>> try:
    ...     harness.end_of_input()
    ... except pst.functions.WindowFunctionError as error:
    ...     print(error.key, error.elements, repr(error.__cause__))
    ann 1 KeyError('prize')
    """

    def __init__(self, text: str, key: Any = None, window: Window | None = None, elements: int | None = None) -> None:
        super().__init__(text)
        self.key = key
        self.window = window
        self.elements = elements

    def with_instants(self) -> WindowFunctionError:
        """Return the same error with the window's bounds (microseconds since the epoch, as on Spark) as instants in UTC.

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
        """Return the error for ``cause`` in the function ``what``; ``held`` describes the contents, e.g. ``"is empty"``."""
        where = f"key {key!r}" + ("" if window is None else f", window {window!r}, which {held}")
        summary = "".join(TracebackException.from_exception(cause, lookup_lines=False).format_exception_only()).strip()
        headline = f"{what} raised {summary.splitlines()[0]} (at {where})"
        return cls("\n".join([headline, *(BAR + line for line in users_lines(cause))]), key, window, elements)

    @classmethod
    def from_text(cls, text: str) -> WindowFunctionError | None:
        r"""Return the first such error quoted in a text, e.g. by Spark, or None. Parts that cannot be parsed are None.

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
    """Return the location of a value in words, for an error."""
    return f" (at key {key!r}, window {window!r})"


def in_instants(text: str) -> str:
    """Return the text with bounds of windows as instants in UTC; windows outside the years 1 to 9999 stay unchanged.

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
    """Return the traceback without the frames of this package, both above and below the user's code."""
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
