"""User functions with a wrong signature are refused when the query is built."""

from __future__ import annotations

from functools import lru_cache, partial, partialmethod, wraps

import numpy as np
import pyarrow as pa
import pytest

from panestream.engine.operators.row.contents import AggregateRows, KeepRows, ReduceRows, RowPlan
from panestream.engine.plan import WindowQuery, stable_repr
from panestream.errors import InvalidPlanError, InvalidWindowError, SinkError
from panestream.spark.sinks.debug_and_foreach import ForeachBatchSink
from panestream.windowing import aggregates as agg
from panestream.windowing import signatures
from panestream.windowing.assigners import EventTimeSessionWindows, TumblingEventTimeWindows, WindowAssigner
from panestream.windowing.evictors import DeltaEvictor, Evictor
from panestream.windowing.functions import AggregateFunction, ProcessWindowFunction, WindowFunction, applied, processed
from panestream.windowing.signatures import (
    APPLY,
    APPLY_ARROW,
    GENERATOR,
    ON_PROGRESS,
    PROCESS,
    REDUCE,
    THEN,
    check_function,
    check_methods,
)
from panestream.windowing.state import AggregatingStateDescriptor, ReducingStateDescriptor
from panestream.windowing.triggers import CountTrigger, DeltaTrigger, ProcessingTimeoutTrigger, PurgingTrigger, Trigger
from panestream.windowing.watermarks import WatermarkGenerator, WatermarkStrategy

TEN = TumblingEventTimeWindows(10)


def three(key, window, rows):
    return rows


def two(window, rows):
    return rows


def decorated(function):
    @wraps(function)
    def wrapper(key, window, rows):
        return function(window, rows)

    return wrapper


def decorated_for_all(function):
    @wraps(function)
    def wrapper(*given):
        return function(*given[1:])

    return wrapper


class Rows:
    """A class whose constructor is called, as a function is."""

    def __init__(self, key, window, rows):
        self.rows = rows


class Called:
    def __call__(self, key, window, rows):
        return rows

    def method(self, key, window, rows):
        return rows

    def of_two(self, window, rows):
        return rows

    @staticmethod
    def static(key, window, rows):
        return rows


class CalledWithOne:
    def __call__(self, rows):
        return rows


async def awaited(key, window, rows):
    return rows


async def awaited_rows(key, window, rows):
    yield rows


class CalledAsync:
    async def __call__(self, key, window, rows):
        return rows


@pytest.mark.parametrize(
    "function",
    [
        three,
        lambda *args: args,
        lambda key, *rest: rest,
        lambda key, window, rows, limit=3: rows,
        lambda key, window, rows, *, limit=3: rows,
        partial(lambda limit, key, window, rows: rows, 3),
        partial(lambda key, window, rows, limit: rows, limit=3),
        decorated(two),
        decorated_for_all(two),
        Rows,
        Called(),
        Called().method,
        Called.static,
        lru_cache(three),
        max,
        np.maximum,
        print,
    ],
    ids=stable_repr,  # no addresses, since parallel workers must give tests the same names
)
def test_function_with_three_arguments_is_accepted(function):
    check_function(function, APPLY)
    assert applied(function).function is function


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda: (), "takes ()"),
        (lambda rows: rows, "takes (rows)"),
        (
            two,
            "the function two takes (window, rows), and will be given (key, window, rows); write it like lambda key, window, rows",
        ),
        (lambda a, b, c, d: [], "takes (a, b, c, d), and will be given (key, window, rows) (missing a required argument: 'd')"),
        (lambda key, window, rows, *, limit: rows, "'limit'"),
        (lambda key, window, *, rows: rows, "takes (key, window, *, rows), and will be given (key, window, rows); write it"),
        (partial(three, 1), "takes (window, rows)"),
        (partial(three, window=1), "takes (key, *, window=1, rows)"),
        (Called().of_two, "the function Called.of_two takes (window, rows)"),
        (CalledWithOne(), "takes (rows)"),
        (Called, "an object, not the class itself: Called()"),
        (awaited, "is async"),
        (awaited_rows, "is async"),
        (partial(awaited), "is async"),
        (CalledAsync(), "is async"),
        (None, "apply needs a WindowFunction, or a function of key, window and rows, got None"),
        ("rows", "got 'rows'"),
    ],
    ids=stable_repr,  # no addresses, since parallel workers must give tests the same names
)
def test_function_that_does_not_take_three_arguments_is_refused(function, says):
    with pytest.raises(InvalidPlanError) as error:
        applied(function)
    assert str(error.value).startswith("apply")
    assert says in str(error.value)


def test_error_lists_the_arguments_of_each_kind_of_function():
    for shape, words in (
        (APPLY, "key, window and rows"),
        (REDUCE, "a and b"),
        (ON_PROGRESS, "progress"),
        (GENERATOR, "no arguments"),
    ):
        with pytest.raises(InvalidPlanError) as error:
            check_function(None, shape)
        assert str(error.value) == f"{shape.user} needs a function of {words}, got None; write it like {shape.example}"


def test_function_class_instead_of_an_object_is_refused():
    check_function(Rows, APPLY)
    with pytest.raises(InvalidPlanError, match=r"apply needs an object, not the class itself: Called\(\)"):
        check_function(Called, APPLY)


def test_signatures_of_common_functions_are_not_inspected(monkeypatch):
    """Reading a signature would take a hundred times as long."""

    def refused(function, **options):
        raise AssertionError(function)

    monkeypatch.setattr(signatures.inspect, "signature", refused)
    for function in (three, lambda key, window, rows, limit=3: rows, lambda key, window, rows=(): rows):
        check_function(function, APPLY)


def test_methods_of_a_class_are_inspected_once(monkeypatch):
    class Mine(Average):
        pass

    check_methods(Mine(), AggregateFunction)
    looked_at = []
    monkeypatch.setattr(signatures.inspect, "signature", lambda function, **options: looked_at.append(function))
    check_methods(Mine(), AggregateFunction)
    assert looked_at == []


def test_private_methods_are_not_checked():
    class Base:
        def _own(self, one):
            return one

        def shared(self, one):
            return one

    class Mine(Base):
        def _own(self):
            return self

    class Wrong(Base):
        def shared(self):
            return self

    check_methods(Mine(), Base)
    with pytest.raises(InvalidPlanError, match=r"Wrong.shared takes \(\), and will be given \(one\)"):
        check_methods(Wrong(), Base)


def test_signature_in_an_error_omits_annotations():
    def annotated(rows: list[int]) -> list[int]:
        return rows

    with pytest.raises(InvalidPlanError, match=r"annotated takes \(rows\), and"):
        applied(annotated)


@pytest.mark.parametrize(
    "shape", [getattr(signatures, name) for name in signatures.__all__ if name.isupper()], ids=lambda s: s.user
)
def test_example_of_each_shape_is_accepted(shape):
    assert shape.example.startswith("lambda")
    # The text comes from this file and the package.
    check_function(eval(shape.example), shape)
    wrong = (lambda: None) if shape.given else (lambda a: None)
    with pytest.raises(InvalidPlanError, match=r"[Ww]rite it like"):
        check_function(wrong, shape)


class Listing(WindowFunction):
    def apply(self, window, rows):
        return rows


class ForgotSelf(ProcessWindowFunction):
    def process(key, context, rows):  # noqa: N805 - what is to be found
        return rows


class WrongClear(ProcessWindowFunction):
    def process(self, key, context, rows):
        return rows

    def clear(self):
        pass


class AsyncProcess(ProcessWindowFunction):
    async def process(self, key, context, rows):
        return rows


class Average(AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]


class AddOfOne(Average):
    def add(self, value):
        return value


class MergeOfOne(Average):
    def merge(self, other):
        return other


class SlottedAverage(Average):
    __slots__ = ()
    add = staticmethod(lambda value, accumulator: accumulator)
    get_result = partialmethod(lambda self, more, accumulator: accumulator, 1)


class Never(Trigger):
    def on_element(self, element, timestamp, window, ctx):
        raise AssertionError

    def on_event_time(self, time, window, ctx):
        raise AssertionError

    def on_processing_time(self, time, window, ctx):
        raise AssertionError

    def clear(self, window, ctx):
        pass


class OldTrigger(Never):
    def on_element(self, element, window, ctx):
        raise AssertionError


class FlagTrigger(Never):
    can_merge = True


class ClockTrigger(Never):
    def uses_processing_time(self):
        return False


class KeepPaid(Evictor):
    def evict_before(self, elements):
        return elements


class Hours(WindowAssigner):
    is_event_time = True

    def assign_windows(self, timestamp):
        return []


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: applied(Listing()), "Listing.apply takes (window, rows), and will be given (key, window, inputs)"),
        (lambda: applied(Listing), "an object, not the class itself: Listing()"),
        (lambda: processed(ForgotSelf()), "ForgotSelf.process takes (context, rows)"),
        (
            lambda: processed(WrongClear()),
            "WrongClear.clear takes (), and will be given (context); write it like def clear(self, context)",
        ),
        (lambda: processed(AsyncProcess()), "AsyncProcess.process is async"),
        (lambda: processed(lambda rows: rows, THEN), "then: the function"),
        (lambda: processed(Listing()), "process needs a ProcessWindowFunction"),
        (lambda: RowPlan(WindowQuery(TEN), ReduceRows(lambda rows: rows)), "reduce: the function"),
        (lambda: RowPlan(WindowQuery(TEN), ReduceRows(max, WrongClear())), "WrongClear.clear"),
        (
            lambda: RowPlan(WindowQuery(TEN), AggregateRows(AddOfOne())),
            "AddOfOne.add takes (value), and will be given (value, accumulator)",
        ),
        (lambda: RowPlan(WindowQuery(TEN), AggregateRows(MergeOfOne())), "MergeOfOne.merge takes (other)"),
        (lambda: RowPlan(WindowQuery(TEN), KeepRows(Listing())), "Listing.apply"),
        (
            lambda: RowPlan(WindowQuery(TEN, trigger=OldTrigger()), Average()),
            "OldTrigger.on_element takes (element, window, ctx)",
        ),
        (
            lambda: RowPlan(WindowQuery(TEN, trigger=FlagTrigger()), Average()),
            "FlagTrigger.can_merge must be a method, not True: def can_merge(self)",
        ),
        (
            lambda: RowPlan(WindowQuery(TEN, trigger=ClockTrigger()), Average()),
            "ClockTrigger.uses_processing_time must be a property",
        ),
        (lambda: RowPlan(WindowQuery(TEN, evictor=KeepPaid()), Average()), "KeepPaid.evict_before takes (elements)"),
        (lambda: RowPlan(WindowQuery(Hours()), Average()), "Hours.assign_windows takes (timestamp)"),
        (lambda: PurgingTrigger.of(OldTrigger()), "OldTrigger.on_element"),
        (lambda: AggregatingStateDescriptor("a", AddOfOne()), "AddOfOne.add"),
        (lambda: ReducingStateDescriptor("a", lambda a: a), "ReducingStateDescriptor: the function"),
    ],
)
def test_methods_are_checked_against_their_base_class(build, says):
    with pytest.raises(InvalidPlanError) as error:
        build()
    assert says in str(error.value)


def test_correct_classes_are_accepted():
    RowPlan(WindowQuery(TEN, trigger=Never()), Average())
    RowPlan(
        WindowQuery(TEN, trigger=PurgingTrigger.of(CountTrigger.of(3)), evictor=DeltaEvictor.of(1, lambda a, b: 0)),
        SlottedAverage(),
    )
    RowPlan(WindowQuery(EventTimeSessionWindows.with_dynamic_gap(lambda row: "1 second")), ReduceRows(max))


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: EventTimeSessionWindows.with_dynamic_gap(lambda: 1), "with_dynamic_gap"),
        (lambda: EventTimeSessionWindows.with_dynamic_gap("5 minutes"), "with_dynamic_gap needs a function of row"),
        (lambda: EventTimeSessionWindows(lambda a, b: 1), "a session's gap"),
        (lambda: DeltaTrigger.of(1, lambda a: 0), "DeltaTrigger: the function"),
        (lambda: DeltaEvictor.of(1, lambda a: 0), "DeltaEvictor: the function"),
        (lambda: PurgingTrigger.of(CountTrigger), "PurgingTrigger needs a trigger"),
        (lambda: ProcessingTimeoutTrigger.of(3, "1 second"), "ProcessingTimeoutTrigger needs a trigger"),
    ],
)
def test_wrong_functions_inside_windows_are_refused(build, says):
    with pytest.raises(InvalidWindowError) as error:
        build()
    assert says in str(error.value)


class EndMarkers(WatermarkGenerator):
    def on_event(self, element, timestamp, output):
        pass


class Configured(EndMarkers):
    def __init__(self, marker):
        self.marker = marker


class OldGenerator(WatermarkGenerator):
    def on_event(self, element, timestamp):
        pass


class Unfinished(WatermarkGenerator):
    pass


def test_watermark_generators_are_checked():
    for generator in (EndMarkers, lambda: Configured("end"), partial(Configured, "end")):
        assert WatermarkStrategy.for_generator(generator).generator is generator
    for generator, says in [
        (Configured, r"the class Configured takes \(marker\), and will be given \(\)"),
        (lambda marker: EndMarkers(), r"takes \(marker\), and will be given \(\)"),
        (
            OldGenerator,
            r"OldGenerator.on_event takes \(self, element, timestamp\), and will be given \(self, element, timestamp, outp",
        ),
        (Unfinished, "Unfinished lacks on_event"),
        (EndMarkers(), "needs a WatermarkGenerator class"),
    ]:
        with pytest.raises(InvalidPlanError, match=says):
            WatermarkStrategy.for_generator(generator)


class Longest(agg.ColumnAggregate):
    partial_type = result_type = pa.int64()

    def partial(self, values, group):
        return values

    def merge(self, partial, group, groups):
        return partial

    def final(self, partial):
        return partial


def test_wrong_method_of_a_column_aggregate_is_refused():
    with pytest.raises(
        InvalidPlanError, match=r"Longest.partial takes \(values, group\), and will be given \(values, group, groups\)"
    ):
        agg.user(Longest(), "url")


def test_wrong_function_of_a_sink_is_refused():
    with pytest.raises(SinkError, match=r"ForeachBatchSink: the function .* takes \(df\), and will be given \(df, batch_id\)"):
        ForeachBatchSink(lambda df: None)
    ForeachBatchSink(lambda df, batch_id: None)


def test_errors_name_the_method_that_takes_the_function():
    with pytest.raises(InvalidPlanError, match=r"^process: .*context"):
        check_function(two, PROCESS)
    with pytest.raises(InvalidPlanError, match=r"^apply_arrow: .*table"):
        check_function(two, APPLY_ARROW)
