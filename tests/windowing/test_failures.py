"""The error that users get if their function raises."""

from __future__ import annotations

import pickle
import re
import traceback

import pyarrow as pa
import pytest

from panestream.engine.kernels.python_values import RowType
from panestream.engine.operators.row.contents import AggregateRows, KeepRows, ReduceRows, RowPlan
from panestream.engine.plan import WindowQuery
from panestream.errors import MemoryLimitError
from panestream.spark.failures import without_internal_traceback
from panestream.testing import WindowTestHarness
from panestream.windowing.assigners import (
    EventTimeSessionWindows,
    GlobalWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from panestream.windowing.failures import BAR, WindowFunctionError
from panestream.windowing.functions import AggregateFunction, ProcessWindowFunction
from panestream.windowing.triggers import CountTrigger
from panestream.windowing.windows import GlobalWindow, TimeWindow
from tests.engine.operators.row.delegating import Delegating


class Prices(ProcessWindowFunction):
    def process(self, key, context, elements):
        for element in elements:
            yield element["price"]


class Chained(ProcessWindowFunction):
    def process(self, key, context, elements):
        try:
            return [elements[5]]
        except IndexError as error:
            raise ValueError("too few\nof them") from error


class Adding(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + value

    def get_result(self, accumulator):
        return 1 / accumulator

    def merge(self, a, b):
        return a / b


def failure_of(plan, *rows, watermark=None):
    with pytest.raises(WindowFunctionError) as found:
        run(WindowTestHarness.of_plan(plan), rows, watermark)
    return found.value


def run(harness, rows, watermark):
    for key, ts, value in rows:
        harness.process_element(value, ts, key)
    harness.process_watermark(watermark)


def test_error_has_key_window_and_lines_of_user_code():
    error = failure_of(
        RowPlan(WindowQuery(TumblingEventTimeWindows(10)), KeepRows(Prices())),
        ("ann", 1, {"cost": 3}),
        ("ann", 2, {}),
        watermark=9,
    )
    headline, *quoted = str(error).splitlines()
    assert headline == (
        "the window function raised KeyError: 'price' (at key 'ann', window TimeWindow(start=0, end=10), which holds 2 elements)"
    )
    assert all(line.startswith(BAR) for line in quoted)
    assert quoted[0] == BAR + "Traceback (most recent call last):"
    assert quoted[1].endswith(", in process")
    assert quoted[2] == BAR + '    yield element["price"]'
    assert quoted[-1] == BAR + "KeyError: 'price'"
    assert "panestream/engine" not in str(error)
    assert (error.key, error.window, error.elements) == ("ann", TimeWindow(0, 10), 2)
    assert isinstance(error.__cause__, KeyError)


def test_error_omits_panestream_frames_below_user_code():
    row_type = RowType(pa.schema([("cost", pa.int64())]))
    error = failure_of(
        RowPlan(WindowQuery(TumblingEventTimeWindows(10)), KeepRows(Prices())), ("ann", 1, row_type.make((3,))), watermark=9
    )
    assert sum(line.startswith(BAR + "  File") for line in str(error).splitlines()) == 1
    assert str(error).splitlines()[0].endswith("which holds 1 element)")
    assert "cost" in str(error).splitlines()[-1], "the hint is the last line"


def test_chained_error_shows_both_errors():
    error = failure_of(RowPlan(WindowQuery(TumblingEventTimeWindows(10)), KeepRows(Chained())), ("ann", 1, 1), watermark=9)
    headline, *quoted = str(error).splitlines()
    assert "raised ValueError: too few (at key" in headline
    assert BAR + "IndexError: list index out of range" in quoted
    assert BAR + "The above exception was the direct cause of the following exception:" in quoted
    assert quoted[-2:] == [BAR + "ValueError: too few", BAR + "of them"]


class FromAnother(ProcessWindowFunction):
    def process(self, key, context, elements):
        try:
            return [elements[0].prize]
        except AttributeError as error:
            raise ValueError("no prize") from error


class WhileHandlingAnother(ProcessWindowFunction):
    def process(self, key, context, elements):
        try:
            return [elements[0].prize]
        except AttributeError:
            raise ValueError("no prize")  # noqa: B904 - what is shown then


@pytest.mark.parametrize("function", [FromAnother(), WhileHandlingAnother()])
def test_error_shows_user_lines_of_each_chained_error(function):
    row = RowType(pa.schema([("cost", pa.int64())])).make((3,))
    plan = RowPlan(WindowQuery(TumblingEventTimeWindows(10)), KeepRows(function))
    error = failure_of(plan, ("ann", 1, row), watermark=9)
    frames = [line for line in str(error).splitlines() if line.startswith(BAR + "  File")]
    assert len(frames) == 2
    assert all(__file__ in line for line in frames)


def failing_gap(element):
    raise RuntimeError("no gap")


SUM = AggregateRows(Adding())


@pytest.mark.parametrize("wrap", [lambda plan: plan, Delegating.in_plan], ids=["fast loop", "general"])
@pytest.mark.parametrize(
    ("plan", "rows", "expected"),
    [
        (
            RowPlan(WindowQuery(TumblingEventTimeWindows(10)), SUM),
            [("a", 1, "x")],
            "Adding.add raised TypeError: .*which is empty",
        ),
        (
            RowPlan(WindowQuery(TumblingEventTimeWindows(10)), SUM),
            [("a", 1, 1), ("a", 2, "x")],
            "Adding.add .*which holds one accumulator",
        ),
        (
            RowPlan(WindowQuery(SlidingEventTimeWindows(10, 5)), SUM),
            [("a", 6, 1), ("b", 1, "x")],
            "key 'b', window TimeWindow.start=0",
        ),
        (RowPlan(WindowQuery(EventTimeSessionWindows(9)), SUM), [("a", 1, 1), ("a", 2, "x")], "Adding.add .*start=1, end=11"),
        (
            RowPlan(WindowQuery(EventTimeSessionWindows(failing_gap)), SUM),
            [("a", 1, 1)],
            r"the assigner raised RuntimeError: no gap \(at key 'a'\)",
        ),
        (
            RowPlan(WindowQuery(GlobalWindows.create(), trigger=CountTrigger(2)), SUM),
            [("a", 1, 1), ("a", 1, -1)],
            "ZeroDivisionError.*GlobalWindow.., which holds one accumulator",
        ),
        (
            RowPlan(WindowQuery(GlobalWindows.create(), trigger=CountTrigger(9)), ReduceRows(Adding().merge)),
            [("a", 1, 1), ("a", 1, 0)],
            "^the reduce f",
        ),
        (
            RowPlan(WindowQuery(EventTimeSessionWindows(10)), SUM),
            [("a", 0, 1), ("a", 20, 0), ("a", 10, 1)],
            "^merging windows raised Zero",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_error_names_the_callback_key_and_window(wrap, plan, rows, expected):
    error = failure_of(wrap(plan), *rows)
    assert re.search(expected, str(error)), str(error)
    assert error.elements is None


def test_error_is_restored_from_the_text_of_a_spark_error():
    error = failure_of(RowPlan(WindowQuery(TumblingEventTimeWindows(10)), KeepRows(Prices())), (("ann", 1), 1, {}), watermark=9)
    quoted = "".join(traceback.format_exception(error))
    found = WindowFunctionError.from_text(f"[STREAM_FAILED] {quoted}\n\tat org.apache.spark.Worker(Worker.java:1)\n")
    assert str(found) == str(error)
    assert (found.key, found.window, found.elements) == (("ann", 1), TimeWindow(0, 10), 1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(at key 'a', window GlobalWindow(), which holds one accumulator)", ("a", GlobalWindow(), None)),
        ("(at key 'a', window TimeWindow(start=-5, end=0), which is empty)", ("a", TimeWindow(-5, 0), None)),
        ("(at key 'a (b)')", ("a (b)", None, None)),
        ("(at key datetime.date(2026, 1, 1), window GlobalWindow(), which holds 1 element)", (None, GlobalWindow(), 1)),
        ("something else", (None, None, None)),
    ],
)
def test_error_is_restored_from_incomplete_text(text, expected):
    found = WindowFunctionError.from_text(f"WindowFunctionError: f raised ValueError: x {text}")
    assert (found.key, found.window, found.elements) == expected


def test_restored_error_ends_with_its_quoted_lines():
    text = "WindowFunctionError: f raised ValueError: WindowFunctionError: x (at key 'a')\n  | one\n  |\nand so on\n  | two"
    found = WindowFunctionError.from_text(f"of Spark\n  | before\n{text}")
    assert str(found) == "f raised ValueError: WindowFunctionError: x (at key 'a')\n  | one\n  |"
    assert found.key == "a"


@pytest.mark.parametrize("window", [None, GlobalWindow()])
def test_error_of_a_window_without_bounds_stays_unchanged(window):
    error = WindowFunctionError(f"f raised (at key 1, window {window!r})", 1, window, 3)
    assert error.with_instants() is error


def test_text_without_a_window_error_gives_none():
    assert WindowFunctionError.from_text("java.lang.IllegalStateException: x\n  | y") is None


def test_window_error_can_be_pickled():
    error = failure_of(RowPlan(WindowQuery(TumblingEventTimeWindows(10)), KeepRows(Prices())), ("ann", 1, {}), watermark=9)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.key, again.window, again.elements) == (str(error), "ann", TimeWindow(0, 10), 1)


@pytest.mark.parametrize("start", [0, -1, 1_767_225_600_000_000, 1_767_225_600_000_001, -62_135_596_800_000_000])
def test_error_with_instants_is_restored_from_text(start):
    window = TimeWindow(start, start + 300_000_000)
    error = WindowFunctionError(
        f"f raised KeyError: 'x' (at key 'ann', window {window!r}, which holds 2 elements)", "ann", window, 2
    )
    shown = error.with_instants()
    assert "TimeWindow" not in str(shown)
    assert " UTC, which holds 2 elements)" in str(shown)
    read = WindowFunctionError.from_text(f"org.apache.spark.X\nWindowFunctionError: {shown}\nand so on")
    assert (read.key, read.window, read.elements) == ("ann", window, 2)


def test_worker_errors_show_windows_as_instants():
    with (
        pytest.raises(MemoryLimitError, match=r"^the window 1970-01-01 00:00:00 to 1970-01-01 00:01:00 UTC is too large"),
        without_internal_traceback(),
    ):
        raise MemoryLimitError("the window TimeWindow(start=0, end=60000000) is too large")


def test_window_beyond_the_calendar_stays_in_microseconds():
    error = WindowFunctionError(
        "f raised (at key 1, window TimeWindow(start=0, end=4611686018427387904))", 1, TimeWindow(0, 2**62)
    )
    assert str(error.with_instants()) == str(error)
