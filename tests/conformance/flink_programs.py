"""Flink's test programs of windows: rows, windows, and the output before and after a restore.

From ``WindowAggregateTestPrograms``, ``GroupWindowAggregateTestPrograms``, ``WindowTableFunctionTestPrograms``,
``WindowRankTestPrograms``, ``WindowDeduplicateTestPrograms``, ``WindowJoinTestPrograms`` and ``IntervalJoinTestPrograms`` (Flink
2.x). Every table has a watermark one second behind its newest row. Flink stops after the first rows, and resumes with the others
from a savepoint. Times are seconds after the first full minute, and windows are pairs of them.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import panestream as pst

UTC = dt.timezone.utc
MIDNIGHT = dt.datetime(2020, 10, 10, tzinfo=UTC)


def at(second: int) -> dt.datetime:
    return MIDNIGHT + dt.timedelta(seconds=second)


class Counted(NamedTuple):
    """A row of the programs that count by name."""

    second: int
    number: int
    string: str | None
    name: str | None


class Bid(NamedTuple):
    """A row of the programs about bids."""

    second: int
    price: int
    item: str
    supplier: str = ""


class Of(NamedTuple):
    """A row of one side of a join."""

    second: int
    number: int
    name: str | None


Rows = tuple[list[Any], list[Any]]
"""The rows before and after the restore."""

_COUNTED = [
    Counted(1, 1, "Hi", "a"),
    Counted(2, 2, "Comment#1", "a"),
    Counted(3, 2, "Comment#1", "a"),
    Counted(4, 5, None, "a"),
    Counted(7, 3, "Hello", "b"),
    Counted(6, 6, "Hi", "b"),
    Counted(8, 3, "Comment#2", "a"),
    Counted(4, 5, "Hi", "a"),
    Counted(16, 4, "Hi", "b"),
    Counted(32, 7, None, None),
    Counted(34, 1, "Comment#3", "b"),
]
"""The eighth row is late if its window ended at second 5."""
_LATER = [Counted(42, 11, "Comment#5", "d"), Counted(43, 12, "Comment#6", "c"), Counted(44, 13, "Comment#7", "d")]
COUNTED: Rows = _COUNTED, [Counted(40, 10, "Comment#4", "a"), *_LATER]
COUNTED_41: Rows = _COUNTED, [Counted(41, 10, "Comment#4", "a"), *_LATER]
TVF: Rows = (
    [Bid(5, 4, "C"), Bid(7, 2, "A"), Bid(9, 5, "D"), Bid(11, 3, "B"), Bid(13, 1, "E"), Bid(17, 6, "F")],
    [Bid(21, 4, "A"), Bid(27, 5, "C")],
)
_SUPPLIERS = [f"supplier{number}" for number in (1, 2, 1, 3, 4, 3, 1, 2, 5)]
_BID = [(5, 4), (6, 4), (7, 2), (8, 2), (9, 5), (11, 2), (13, 1), (15, 3), (17, 6)]
_BIDS_LATER = [
    Bid(21, 2, "B", "supplier7"),
    Bid(23, 1, "A", "supplier4"),
    Bid(25, 3, "C", "supplier3"),
    Bid(28, 6, "A", "supplier8"),
]
RANKED: Rows = [Bid(*bid, *who) for bid, who in zip(_BID, zip("ACGBDBEHF", _SUPPLIERS, strict=True), strict=True)], _BIDS_LATER
REPEATED: Rows = [Bid(*bid, *who) for bid, who in zip(_BID, zip("AAGADBEBD", _SUPPLIERS, strict=True), strict=True)], _BIDS_LATER


@dataclass(frozen=True)
class Program:
    """A query of Flink's test programs. Programs that differ only in settings share one.

    Attributes:
        names: Flink's names.
        rows: the rows before and after the restore.
        windows: the kind of windows.
        what: the function of a window, a name in ``test_flink_programs.ASKED``.
        before: the output before the restore: the window, then the results.
        after: the output after it, with the end of the input.
        key: a column, or empty if all rows are together.
        at_once: Flink emits each row when it arrives, panestream when its window ends, so only the whole output is compared.
    """

    names: tuple[str, ...]
    rows: Rows
    windows: Any
    what: str
    before: list[tuple[Any, ...]]
    after: list[tuple[Any, ...]]
    key: str | None = None
    at_once: bool = False


def tumble(size: int, offset: int = 0) -> Any:
    return pst.TumblingEventTimeWindows.of(f"{size} seconds", f"{offset} seconds")


def hop(size: int, slide: int, offset: int = 0) -> Any:
    return pst.SlidingEventTimeWindows.of(f"{size} seconds", f"{slide} seconds", f"{offset} seconds")


def cumulate(size: int, step: int, offset: int = 0) -> Any:
    return pst.CumulatingEventTimeWindows.of(f"{size} seconds", f"{step} seconds", f"{offset} seconds")


def session(gap: int) -> Any:
    return pst.EventTimeSessionWindows.with_gap(f"{gap} seconds")


def _three(name: str, offset: str = "") -> tuple[str, str, str]:
    """Return the names of three programs: one phase, two phases, and two phases with split distinct values."""
    return f"{name}{offset}", f"{name}-two-phase{offset}", f"{name}-two-phase{offset}-distinct-split"


A6, B2, B16, N32, B34 = (6, 18, 3), (2, 9, 2), (1, 4, 1), (1, 7, 0), (1, 1, 1)
A4, A8, A40, C43, D42 = (4, 10, 2), (1, 3, 1), (1, 10, 1), (1, 12, 1), (2, 24, 2)
"""Count, sum of numbers, and number of strings of the rows of a name."""


def _in(start: int, end: int, **named: tuple[int, ...]) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a window by name. ``none`` is null."""
    return ((start, end, None if name == "none" else name, *found) for name, found in named.items())


_TUMBLE = (
    [*_in(0, 5, a=A4), *_in(5, 10, a=A8, b=B2), *_in(15, 20, b=B16)],
    [*_in(30, 35, b=B34, none=N32), *_in(40, 45, a=A40, c=C43, d=D42)],
)
AGGREGATES = [
    Program(_three("window-aggregate-tumble-event-time"), COUNTED, tumble(5), "counts", *_TUMBLE, key="name"),
    Program(
        _three("window-aggregate-tumble-event-time", "-with-offset"),
        COUNTED,
        tumble(5, 1),
        "counts",
        [*_in(1, 6, a=A4), *_in(6, 11, a=A8, b=B2), *_in(16, 21, b=B16)],
        [*_in(31, 36, b=B34, none=N32), *_in(36, 41, a=A40), *_in(41, 46, c=C43, d=D42)],
        key="name",
    ),
    Program(
        _three("window-aggregate-hop-event-time"),
        COUNTED,
        hop(10, 5),
        "counts",
        [*_in(-5, 5, a=A4), *_in(0, 10, a=A6, b=B2), *_in(5, 15, a=A8, b=B2), *_in(10, 20, b=B16), *_in(15, 25, b=B16)],
        [
            *(row for start in (25, 30) for row in _in(start, start + 10, b=B34, none=N32)),
            *(row for start in (35, 40) for row in _in(start, start + 10, a=A40, c=C43, d=D42)),
        ],
        key="name",
    ),
    Program(
        _three("window-aggregate-hop-event-time", "-with-offset"),
        COUNTED,
        hop(10, 5, 1),
        "counts",
        [*_in(-4, 6, a=A4), *_in(1, 11, a=A6, b=B2), *_in(6, 16, a=A8, b=B2), *_in(11, 21, b=B16), *_in(16, 26, b=B16)],
        [
            *_in(26, 36, b=B34, none=N32),
            *_in(31, 41, a=A40, b=B34, none=N32),
            *_in(36, 46, a=A40, c=C43, d=D42),
            *_in(41, 51, c=C43, d=D42),
        ],
        key="name",
    ),
    Program(
        _three("window-aggregate-cumulate-event-time"),
        COUNTED,
        cumulate(15, 5),
        "counts",
        [
            *_in(0, 5, a=A4),
            *(row for end in (10, 15) for row in _in(0, end, a=A6, b=B2)),
            *(row for end in (20, 25, 30) for row in _in(15, end, b=B16)),
        ],
        [
            *(row for end in (35, 40) for row in _in(30, end, b=B34, none=N32)),
            *_in(30, 45, a=A40, b=B34, c=C43, d=D42, none=N32),
        ],
        key="name",
    ),
    Program(
        (*_three("window-aggregate-cumulate-event-time", "-with-offset")[:2],
         "window-aggregate-cumulate-event-time-with-offset-distinct-split"),
        COUNTED,
        cumulate(15, 5, 1),
        "counts",
        [
            *_in(1, 6, a=A4),
            *(row for end in (11, 16) for row in _in(1, end, a=A6, b=B2)),
            *(row for end in (21, 26, 31) for row in _in(16, end, b=B16)),
        ],
        [
            *_in(31, 36, b=B34, none=N32),
            *_in(31, 41, a=A40, b=B34, none=N32),
            *_in(31, 46, a=A40, b=B34, c=C43, d=D42, none=N32),
        ],
        key="name",
    ),
    Program(
        _three("window-aggregate-session-event-time"),
        COUNTED,
        session(5),
        "counts by name",
        [*_in(1, 13, a=A6, b=B2), *_in(16, 21, b=B16)],
        [*_in(32, 39, b=B34, none=N32), *_in(40, 49, a=A40, c=C43, d=D42)],
    ),
    Program(
        _three("window-aggregate-session-partition-event-time"),
        COUNTED,
        session(5),
        "counts",
        [*_in(1, 13, a=A6), *_in(6, 12, b=B2), *_in(16, 21, b=B16)],
        [*_in(32, 37, none=N32), *_in(34, 39, b=B34), *_in(40, 45, a=A40), *_in(43, 48, c=C43), *_in(42, 49, d=D42)],
        key="name",
    ),
]  # fmt: skip
"""Sessions without ``PARTITION BY`` cover all rows, and are counted by name. Flink emits them row by row as a changelog, and this is
its end.
"""

GROUPS = [
    Program(("group-window-aggregate-tumble-event-time",), COUNTED_41, tumble(5), "counts", *_TUMBLE, key="name"),
    Program(
        ("group-window-aggregate-hop-event-time",),
        COUNTED_41,
        hop(10, 5),
        "rows of a name",
        [("a", 4), ("b", 2), ("a", 6), ("a", 1), ("b", 2), ("b", 1), ("b", 1)],
        [("b", 1), (None, 1), ("b", 1), (None, 1), ("a", 1), ("d", 2), ("c", 1), ("a", 1), ("c", 1), ("d", 2)],
        key="name",
    ),
    Program(
        ("group-window-aggregate-session-event-time",),
        COUNTED_41,
        session(3),
        "rows of a name",
        [("a", 4), ("b", 2), ("a", 1), ("b", 1)],
        [(None, 1), ("b", 1), ("a", 1), ("c", 1), ("d", 2)],
        key="name",
    ),
]


def _each(windows: dict[tuple[int, int], str]) -> list[tuple[Any, ...]]:
    """Return the rows of ``TVF`` in each window, by their seconds."""
    rows = {row.second: row for row in [*TVF[0], *TVF[1]]}
    within = {window: [rows[int(second)] for second in seconds.split()] for window, seconds in windows.items()}
    return [(*window, row.second, row.price, row.item) for window, its in within.items() for row in its]


TABLE_FUNCTIONS = [
    Program(
        ("window-table-function-tumble-tvf",), TVF, tumble(10), "rows", [],
        _each({(0, 10): "5 7 9", (10, 20): "11 13 17", (20, 30): "21 27"}), at_once=True,
    ),
    Program(
        ("window-table-function-tumble-tvf-positive-offset",), TVF, tumble(10, 6), "rows", [],
        _each({(-4, 6): "5", (6, 16): "7 9 11 13", (16, 26): "17 21", (26, 36): "27"}), at_once=True,
    ),
    Program(
        ("window-table-function-tumble-tvf-negative-offset",), TVF, tumble(10, -6), "rows", [],
        _each({(4, 14): "5 7 9 11 13", (14, 24): "17 21", (24, 34): "27"}), at_once=True,
    ),
    Program(
        ("window-table-function-hop-tvf",), TVF, hop(10, 5), "rows", [],
        _each({(0, 10): "5 7 9", (5, 15): "5 7 9 11 13", (10, 20): "11 13 17", (15, 25): "17 21", (20, 30): "21 27", (25, 35): "27"}),
        at_once=True,
    ),
    Program(
        ("window-table-function-cumulate-tvf",), TVF, cumulate(10, 5), "rows", [],
        _each({(0, 10): "5 7 9", (10, 15): "11 13", (10, 20): "11 13 17", (20, 25): "21", (20, 30): "21 27"}), at_once=True,
    ),
    Program(("window-table-function-tumble-tvf-agg",), TVF, tumble(10), "total", [(0, 10, 11)], [(10, 20, 10), (20, 30, 9)]),
    Program(
        ("window-table-function-hop-tvf-agg",), TVF, hop(10, 5), "total",
        [(0, 10, 11), (5, 15, 15)], [(10, 20, 10), (15, 25, 10), (20, 30, 9), (25, 35, 5)],
    ),
    Program(
        ("window-table-function-cumulate-tvf-agg",), TVF, cumulate(10, 5), "total",
        [(0, 10, 11), (10, 15, 4)], [(10, 20, 10), (20, 25, 4), (20, 30, 9)],
    ),
]  # fmt: skip


def _of(rows: Rows, windows: dict[tuple[int, int], str], numbered: bool = True) -> list[tuple[Any, ...]]:
    """Return the rows in each window in order, by their seconds, with their numbers if they are ranked."""
    known = {row.second: row for row in [*rows[0], *rows[1]]}
    found = []
    for window, seconds in windows.items():
        for rank, row in enumerate((known[int(second)] for second in seconds.split()), 1):
            found.append((*window, *row, rank) if numbered else (*window, *row))
    return found


def _totals(windows: dict[tuple[int, int], str]) -> list[tuple[Any, ...]]:
    """Return the suppliers with totals and counts in each window, in order: ``supplier/total/count``."""
    found = []
    for window, said in windows.items():
        for rank, (who, total, count) in enumerate((each.split("/") for each in said.split()), 1):
            found.append((*window, f"supplier{who}", int(total), int(count), rank))
    return found


_ALONE: Rows = [Bid(5, 4, "", "supplier1")], []
RANKS = [
    Program(
        ("window-rank-tumble-tvf-min-top-n",), RANKED, tumble(10), "least",
        _of(RANKED, {(0, 10): "7 8 5"}), _of(RANKED, {(10, 20): "13 11 15", (20, 30): "23 21 25"}),
    ),
    Program(
        ("window-rank-tumble-tvf-max-top-n",), RANKED, tumble(10), "most",
        _of(RANKED, {(0, 10): "9 5 6"}), _of(RANKED, {(10, 20): "17 15 11", (20, 30): "28 25 21"}),
    ),
    Program(
        ("window-rank-hop-tvf-min-top-n",), RANKED, hop(10, 5), "least",
        _of(RANKED, {(0, 10): "7 8 5", (5, 15): "13 7 8"}),
        _of(RANKED, {(10, 20): "13 11 15", (15, 25): "23 21 15", (20, 30): "23 21 25", (25, 35): "25 28"}),
    ),
    Program(
        ("window-rank-cumulate-tvf-min-top-n",), RANKED, cumulate(10, 5), "least",
        _of(RANKED, {(0, 10): "7 8 5", (10, 15): "13 11"}),
        _of(RANKED, {(10, 20): "13 11 15", (20, 25): "23 21", (20, 30): "23 21 25"}),
    ),
    Program(
        ("window-rank-hop-tvf-named-min-top-n",), _ALONE, hop(10, 5), "least", [],
        _of(_ALONE, {(0, 10): "5", (5, 15): "5"}),
    ),
    Program(
        ("window-rank-tumble-tvf-agg-min-top-n",), RANKED, tumble(10), "least totals",
        _totals({(0, 10): "3/2/1 2/4/1 4/5/1"}),
        _totals({(10, 20): "1/1/1 3/2/1 2/3/1", (20, 30): "4/1/1 7/2/1 3/3/1"}),
    ),
    Program(
        ("window-rank-tumble-tvf-agg-max-top-n",), RANKED, tumble(10), "most totals",
        _totals({(0, 10): "1/6/2 4/5/1 2/4/1"}),
        _totals({(10, 20): "5/6/1 2/3/1 3/2/1", (20, 30): "8/6/1 3/3/1 7/2/1"}),
    ),
]  # fmt: skip


def _kept(windows: dict[tuple[int, int], str]) -> list[tuple[Any, ...]]:
    return _of(REPEATED, windows, numbered=False)


DEDUPLICATED = [
    Program(
        (
            "window-deduplicate-asc-tumble-first-row",
            "window-deduplicate-asc-tumble-first-row-condition-1",
            "window-deduplicate-asc-tumble-first-row-condition-3",
        ),
        REPEATED, tumble(10), "first", _kept({(0, 10): "5"}), _kept({(10, 20): "11", (20, 30): "21"}),
    ),
    Program(
        ("window-deduplicate-asc-partition-by-item-tumble-first-row",), REPEATED, tumble(10), "first",
        _kept({(0, 10): "5 7 9"}), _kept({(10, 20): "11 13 17", (20, 30): "21 23 25"}), key="item",
    ),
    Program(
        ("window-deduplicate-desc-tumble-last-row",), REPEATED, tumble(10), "last",
        _kept({(0, 10): "9"}), _kept({(10, 20): "17", (20, 30): "28"}),
    ),
    Program(
        ("window-deduplicate-desc-partition-by-item-tumble-first-row",), REPEATED, tumble(10), "last",
        _kept({(0, 10): "8 7 9"}), _kept({(10, 20): "17 13 15", (20, 30): "21 28 25"}), key="item",
    ),
    Program(
        ("window-deduplicate-asc-hop-first-row",), REPEATED, hop(10, 5), "first",
        _kept({(0, 10): "5", (5, 15): "5"}), _kept({(10, 20): "11", (15, 25): "15", (20, 30): "21", (25, 35): "25"}),
    ),
    Program(
        ("window-deduplicate-asc-cumulate-first-row",), REPEATED, cumulate(10, 5), "first",
        _kept({(0, 10): "5", (10, 15): "11"}), _kept({(10, 20): "11", (20, 25): "21", (20, 30): "21"}),
    ),
]  # fmt: skip
WINDOWED = [*AGGREGATES, *GROUPS, *TABLE_FUNCTIONS, *RANKS, *DEDUPLICATED]

# -- WindowJoinTestPrograms, with the number in a row's id as its name (L7 is 7) --------------------------------------------
SIDES: dict[str, Rows] = {
    "left": (
        [
            *(Of(*row) for row in [(1, 1, "a"), (2, 2, "c"), (3, 3, "x"), (4, 7, "a"), (7, 8, "b"), (6, 6, "b"), (8, 9, "a")]),
            *(Of(*row) for row in [(4, 4, "a"), (16, 10, "b"), (32, 11, None), (34, 12, "b")]),
        ],
        [Of(41, 41, "a"), Of(42, 42, "d"), Of(43, 43, "c"), Of(44, 44, "d")],
    ),
    "right": (
        [
            *(Of(*row) for row in [(1, 1, "a"), (2, 2, "b"), (3, 3, "f"), (4, 7, "g"), (7, 8, "b"), (6, 6, "b"), (8, 9, "a")]),
            *(Of(*row) for row in [(4, 4, "a"), (17, 17, "k"), (31, 31, None), (33, 33, "b")]),
        ],
        [Of(41, 41, "y"), Of(42, 42, "c"), Of(43, 43, "x"), Of(44, 44, "z")],
    ),
}


@dataclass(frozen=True)
class Joins:
    """A window join. Its rows are window, name, and the numbers of the left and the right row. Flink has no window with only right
    rows.
    """

    name: str
    windows: Any
    how: str
    before: list[tuple[Any, ...]]
    after: list[tuple[Any, ...]]


def _met(start: int, end: int, name: str | None, lefts: str, rights: str = "-") -> list[tuple[Any, ...]]:
    """Pair every left row with every right row, or with none if a side is ``-``."""

    def numbers(said: str) -> list[int | None]:
        return [None if each == "-" else int(each) for each in said.split()]

    return [(start, end, name, left, right) for left in numbers(lefts) for right in numbers(rights)]


_INNER = [*_met(0, 5, "a", "1 7", "1"), *_met(5, 10, "b", "8 6", "8 6"), *_met(5, 10, "a", "9", "9")]
_INNER_LATER = [*_met(30, 35, "b", "12", "33"), *_met(40, 45, "c", "43", "42")]
_LEFTS = [*_met(0, 5, "x", "3"), *_met(0, 5, "c", "2"), *_met(15, 20, "b", "10")]
_LEFTS_LATER = [*_met(30, 35, None, "11"), *_met(40, 45, "a", "41"), *_met(40, 45, "d", "42 44")]
_RIGHTS = [row for name, number in (("g", 7), ("b", 2), ("f", 3)) for row in _met(0, 5, name, "-", str(number))]
_RIGHTS += _met(15, 20, "k", "-", "17")
_RIGHTS_LATER = [*_met(30, 35, None, "-", "31")]
_RIGHTS_LATER += [row for name, number in (("x", 43), ("z", 44), ("y", 41)) for row in _met(40, 45, name, "-", str(number))]
_WIDE = [*_met(0, 10, "a", "1 7 9 4", "1 9 4"), *_met(0, 10, "b", "8 6", "2 8 6")]
JOINS = [
    Joins("window-join-inner-tumble-event-time", tumble(5), "inner", _INNER, _INNER_LATER),
    Joins("window-join-left-tumble-event-time", tumble(5), "left", [*_INNER, *_LEFTS], [*_INNER_LATER, *_LEFTS_LATER]),
    Joins("window-join-right-tumble-event-time", tumble(5), "right", [*_INNER, *_RIGHTS], [*_INNER_LATER, *_RIGHTS_LATER]),
    Joins(
        "window-join-full-outer-tumble-event-time", tumble(5), "full",
        [*_INNER, *_LEFTS, *_RIGHTS], [*_INNER_LATER, *_LEFTS_LATER, *_RIGHTS_LATER],
    ),
    Joins(
        "window-join-semi-tumble-event-time", tumble(5), "left_semi",
        [*_met(0, 5, "a", "1 7"), *_met(5, 10, "b", "8 6"), *_met(5, 10, "a", "9")],
        [*_met(30, 35, "b", "12"), *_met(40, 45, "c", "43")],
    ),
    Joins("window-join-anti-tumble-event-time", tumble(5), "left_anti", _LEFTS, _LEFTS_LATER),
    Joins(
        "window-join-hop-event-time", hop(10, 5), "inner",
        [*_met(-5, 5, "a", "1 7", "1"), *_WIDE, *_met(5, 15, "a", "9", "9"), *_met(5, 15, "b", "8 6", "8 6")],
        [
            *_met(25, 35, "b", "12", "33"), *_met(30, 40, "b", "12", "33"),
            *_met(35, 45, "c", "43", "42"), *_met(40, 50, "c", "43", "42"),
        ],
    ),
    Joins(
        "window-join-cumulate-event-time", cumulate(10, 5), "inner",
        [*_met(0, 5, "a", "1 7", "1"), *_WIDE],
        [
            *_met(30, 35, "b", "12", "33"), *_met(30, 40, "b", "12", "33"),
            *_met(40, 45, "c", "43", "42"), *_met(40, 50, "c", "43", "42"),
        ],
    ),
]  # fmt: skip

# -- IntervalJoinTestPrograms: shipments within five seconds of their order, as order, its second, and the shipment's -------
ORDERS: Rows = [Of(1, 1, "1"), Of(2, 2, "2"), Of(4, 4, "4"), Of(5, 5, "5"), Of(3, 3, "3")], [Of(9, 7, "7"), Of(11, 10, "10")]
SHIPMENTS: Rows = (
    [Of(2, 2, "1"), Of(5, 5, "2"), Of(6, 6, "5"), Of(15, 15, "4"), Of(15, 16, "6")],
    [Of(15, 7, "3"), Of(16, 11, "7"), Of(16, 13, "10")],
)
SHIPPED = [(1, 2), (2, 5), (5, 6)], [(10, 13)]
"""Numbers of orders and their shipments."""

CLOCK = "they use windows of Flink's clock. The rows in such a window depend on chance, and Flink's answer comes from a fast run"
NOT_READ = {
    "window-table-function-tumble-tvf-agg-proc-time": CLOCK,
    "window-table-function-hop-tvf-agg-proc-time": CLOCK,
    "window-table-function-cumulate-tvf-agg-proc-time": CLOCK,
    "group-window-aggregate-tumble-proc-time": CLOCK,
    "group-window-aggregate-hop-proc-time": CLOCK,
    "group-window-aggregate-session-proc-time": CLOCK,
    "interval-join-proc-time": "panestream's interval joins use event time only",
    "interval-join-negative-interval": "its lower bound is after the upper bound, which panestream refuses with a message",
}


def table() -> list[str]:
    """Return the table of programs, with those that do not carry over."""
    carried = (
        [name for program in WINDOWED for name in program.names] + [join.name for join in JOINS] + ["interval-join-event-time"]
    )
    families = {
        "WindowAggregateTestPrograms": "window-aggregate",
        "GroupWindowAggregateTestPrograms": "group-window-aggregate",
        "WindowTableFunctionTestPrograms": "window-table-function",
        "WindowRankTestPrograms": "window-rank",
        "WindowDeduplicateTestPrograms": "window-deduplicate",
        "WindowJoinTestPrograms": "window-join",
        "IntervalJoinTestPrograms": "interval-join",
    }
    lines = ["| Flink's programs | pass | of | what does not carry over |", "|---|---|---|---|"]
    passed = of = 0
    for family, begins in families.items():
        here = [name for name in carried if name.startswith(f"{begins}-")]
        left = {name: why for name, why in NOT_READ.items() if name.startswith(f"{begins}-")}
        said = "; ".join(
            f"{', '.join(f'`{name}`' for name in left if left[name] == why)}: {why}" for why in dict.fromkeys(left.values())
        )
        lines.append(f"| `{family}` | {len(here)} | {len(here) + len(left)} | {said} |")
        passed, of = passed + len(here), of + len(here) + len(left)
    return [*lines, f"| all | {passed} | {of} | |"]
