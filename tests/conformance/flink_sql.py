"""Rows and expected answers of Flink's tests of SQL windows.

From ``WindowAggregateITCase`` (Flink 1.18), whose table has a watermark one second behind the newest row. Times are seconds after
the first of them. A row of ``ROWS`` has second, bigdec, double, float, string and name. An answer has name, the window's start
and end, count, sum of bigdec, maximum of double, minimum of float, and the distinct strings.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

Row = tuple[Any, ...]

MIDNIGHT = dt.datetime(2020, 10, 10, tzinfo=dt.timezone.utc)
SCHEMA = "ts timestamp, number int, double double, float float, bigdec decimal(10, 2), string string, name string"


def _row(
    second: int, number: int, double: float | None, low: float | None, bigdec: str | None, string: str | None, name: str | None
) -> Row:
    exact = None if bigdec is None else Decimal(bigdec)
    return (MIDNIGHT + dt.timedelta(seconds=second), number, double, low, exact, string, name)


LEFT = [
    _row(1, 1, 1.0, 1.0, "1.11", "Hi", "a"),
    _row(2, 2, 2.0, 2.0, "2.22", "Comment#1", "a"),
    _row(3, 2, 2.0, 2.0, "2.22", "Comment#1", "a"),
    _row(4, 5, 5.0, 5.0, "5.55", None, "a"),
    _row(7, 3, 3.0, 3.0, None, "Hello", "b"),
    _row(6, 6, 6.0, 6.0, "6.66", "Hi", "b"),
    _row(8, 3, None, 3.0, "3.33", "Comment#2", "a"),
    _row(4, 5, 5.0, None, "5.55", "Hi", "a"),
    _row(16, 4, 4.0, 4.0, "4.44", "Hi", "b"),
    _row(32, 7, 7.0, 7.0, "7.77", None, None),
    _row(34, 1, 3.0, 3.0, "3.33", "Comment#3", "b"),
]
"""The eighth row is late if its window ended at second 5."""
RIGHT = [(*row[:6], "a1" if row[6] == "a" else row[6]) for row in LEFT]
"""The second stream of ``WindowJoinITCase``."""
BATCHES = (slice(0, 4), slice(4, 7), slice(7, 9), slice(9, 11))
"""The micro-batches. Spark's watermark advances between them, Flink's with every row."""

HOUR = 3600
_HI, _HELLO, _ONE, _TWO, _THREE = "Hi", "Hello", "Comment#1", "Comment#2", "Comment#3"


def _answer(
    name: str | None, start: int, end: int, count: int, total: str, most: float | None, least: float, *strings: str
) -> Row:
    return (name, start, end, count, Decimal(total), most, least, tuple(sorted(strings)))


TUMBLE = [
    _answer("a", 0, 5, 4, "11.10", 5.0, 1.0, _HI, _ONE),
    _answer("a", 5, 10, 1, "3.33", None, 3.0, _TWO),
    _answer("b", 5, 10, 2, "6.66", 6.0, 3.0, _HELLO, _HI),
    _answer("b", 15, 20, 1, "4.44", 4.0, 4.0, _HI),
    _answer("b", 30, 35, 1, "3.33", 3.0, 3.0, _THREE),
    _answer(None, 30, 35, 1, "7.77", 7.0, 7.0),
]
TUMBLE_OF_ALL = [
    _answer("all", 0, 5, 4, "11.10", 5.0, 1.0, _HI, _ONE),
    _answer("all", 5, 10, 3, "9.99", 6.0, 3.0, _HELLO, _HI, _TWO),
    _answer("all", 15, 20, 1, "4.44", 4.0, 4.0, _HI),
    _answer("all", 30, 35, 2, "11.10", 7.0, 3.0, _THREE),
]


def _days(start: int, end: int) -> list[Row]:
    """Return the answer for a window that has all rows."""
    return [
        _answer("a", start, end, 6, "19.98", 5.0, 1.0, _HI, _ONE, _TWO),
        _answer("b", start, end, 4, "14.43", 6.0, 3.0, _HELLO, _HI, _THREE),
        _answer(None, start, end, 1, "7.77", 7.0, 7.0),
    ]


TUMBLE_OFFSET = _days(-16 * HOUR, 8 * HOUR)
TUMBLE_NEGATIVE_OFFSET = _days(-8 * HOUR, 16 * HOUR)
HOP = [
    _answer("a", -5, 5, 4, "11.10", 5.0, 1.0, _HI, _ONE),
    _answer("a", 0, 10, 6, "19.98", 5.0, 1.0, _TWO, _HI, _ONE),
    _answer("a", 5, 15, 1, "3.33", None, 3.0, _TWO),
    _answer("b", 0, 10, 2, "6.66", 6.0, 3.0, _HELLO, _HI),
    _answer("b", 5, 15, 2, "6.66", 6.0, 3.0, _HELLO, _HI),
    _answer("b", 10, 20, 1, "4.44", 4.0, 4.0, _HI),
    _answer("b", 15, 25, 1, "4.44", 4.0, 4.0, _HI),
    _answer("b", 25, 35, 1, "3.33", 3.0, 3.0, _THREE),
    _answer("b", 30, 40, 1, "3.33", 3.0, 3.0, _THREE),
    _answer(None, 25, 35, 1, "7.77", 7.0, 7.0),
    _answer(None, 30, 40, 1, "7.77", 7.0, 7.0),
]
HOP_OF_ALL = [
    _answer("all", -5, 5, 4, "11.10", 5.0, 1.0, _HI, _ONE),
    _answer("all", 0, 10, 8, "26.64", 6.0, 1.0, _HELLO, _HI, _TWO, _ONE),
    _answer("all", 5, 15, 3, "9.99", 6.0, 3.0, _HELLO, _HI, _TWO),
    _answer("all", 10, 20, 1, "4.44", 4.0, 4.0, _HI),
    _answer("all", 15, 25, 1, "4.44", 4.0, 4.0, _HI),
    _answer("all", 25, 35, 2, "11.10", 7.0, 3.0, _THREE),
    _answer("all", 30, 40, 2, "11.10", 7.0, 3.0, _THREE),
]
HOP_OFFSET = [*_days(-16 * HOUR, 8 * HOUR), *_days(-4 * HOUR, 20 * HOUR)]
HOP_NEGATIVE_OFFSET = [*_days(-20 * HOUR, 4 * HOUR), *_days(-8 * HOUR, 16 * HOUR)]
CUMULATE = [
    _answer("a", 0, 5, 4, "11.10", 5.0, 1.0, _HI, _ONE),
    *(_answer("a", 0, end, 6, "19.98", 5.0, 1.0, _HI, _ONE, _TWO) for end in (10, 15)),
    *(_answer("b", 0, end, 2, "6.66", 6.0, 3.0, _HELLO, _HI) for end in (10, 15)),
    *(_answer("b", 15, end, 1, "4.44", 4.0, 4.0, _HI) for end in (20, 25, 30)),
    *(_answer("b", 30, end, 1, "3.33", 3.0, 3.0, _THREE) for end in (35, 40, 45)),
    *(_answer(None, 30, end, 1, "7.77", 7.0, 7.0) for end in (35, 40, 45)),
]
CUMULATE_OF_ALL = [
    _answer("all", 0, 5, 4, "11.10", 5.0, 1.0, _HI, _ONE),
    *(_answer("all", 0, end, 8, "26.64", 6.0, 1.0, _HI, _ONE, _HELLO, _TWO) for end in (10, 15)),
    *(_answer("all", 15, end, 1, "4.44", 4.0, 4.0, _HI) for end in (20, 25, 30)),
    *(_answer("all", 30, end, 2, "11.10", 7.0, 3.0, _THREE) for end in (35, 40, 45)),
]
CUMULATE_OFFSET = _days(-16 * HOUR, 8 * HOUR)
CUMULATE_NEGATIVE_OFFSET = [*_days(-8 * HOUR, 4 * HOUR), *_days(-8 * HOUR, 16 * HOUR)]
FIRST_AND_LAST = [(5, 1, 4), (10, 6, 8), (20, 16, 16), (35, 32, 34)]
"""For each window of five seconds: its end, and the times of its first and last row."""
CASCADE = [(0, -16 * HOUR, 8 * HOUR, 1), (3, -16 * HOUR, 8 * HOUR, 2)]
"""The number of names with a number of distinct strings."""

# -- WindowJoinITCase, windows of five seconds of LEFT and RIGHT: name, window, number of distinct strings on either side ------
BOTH = [("b", 5, 10, 2, 2), ("b", 15, 20, 1, 1), ("b", 30, 35, 1, 1)]
LEFT_ALONE = [("a", 0, 5, 2, None), ("a", 5, 10, 1, None)]
RIGHT_ALONE = [("a1", 0, 5, None, 2), ("a1", 5, 10, None, 1)]
NULL_OF_LEFT, NULL_OF_RIGHT, NULLS_MEET = (None, 30, 35, 0, None), (None, 30, 35, None, 0), (None, 30, 35, 0, 0)
PAIRS = [(6, 3), (6, 6), (7, 3), (7, 6), (16, 4), (34, 1)]
"""The rows of ``b`` that meet for any offset: the second of the left row, and the number of the right row."""
NULL_PAIR = (32, 7)
MET = [6, 7, 16, 34]
NOT_MET = [1, 2, 3, 4, 8, 32]
"""The seconds of left rows with and without a partner, without the late row."""
