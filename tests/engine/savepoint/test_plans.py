"""Plans as JSON: parts of the library are read back equal, user code is read back by name."""

import json
from dataclasses import fields, replace

import pyarrow as pa
import pytest
from hypothesis import given, settings

from panestream.engine.operators.accumulating.windowed_rows import TablePerWindow
from panestream.engine.operators.row.contents import AggregateRows, KeepRows, ReduceRows
from panestream.engine.plan import Top, WindowQuery, stable_repr
from panestream.engine.planner import COLUMNS_ONLY, RULES, plan_aggregates, plan_functions, plan_table_function
from panestream.engine.savepoint import plans
from panestream.engine.savepoint.plans import plan_json, plan_of
from panestream.engine.savepoint.recipes import AbsentOverRows, recipe_json, recipe_of
from panestream.errors import InvalidPlanError, StateFormatError
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import (
    BusinessHours,
    CalendarDays,
    CalendarMonths,
    CumulatingEventTimeWindows,
    EventTimeSessionWindows,
    GlobalWindows,
    LookBackWindows,
    PredicateWindows,
    ProcessingTimeSessionWindows,
    RollingWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    WindowStagger,
)
from panestream.windowing.assigners.base import SeveralWindows, WindowAssigner
from panestream.windowing.evictors import CountEvictor, Evictor, TimeEvictor
from panestream.windowing.functions import applied
from panestream.windowing.triggers import (
    AfterCount,
    AfterWatermark,
    ContinuousEventTimeTrigger,
    CountTrigger,
    DeltaTrigger,
    EndOfStreamTrigger,
    EventTimeTrigger,
    ProcessingTimeoutTrigger,
    PurgingTrigger,
)
from panestream.windowing.watermarks import WatermarkGenerator, WatermarkStrategy
from panestream.windowing.windows import TimeWindow
from tests.comparison import harness, intervals, look_backs, predicates, rolling
from tests.comparison.test_two_phase_random import Totals
from tests.costs import random_cases
from tests.engine.aggregates.test_against_naive import Story, recipes


def roundtrip(value):
    return recipe_of(json.loads(json.dumps(recipe_json(value))))


@settings(max_examples=random_cases(200), deadline=None)
@given(recipe=recipes())
def test_declared_aggregates_survive_json(recipe):
    actual = roundtrip(recipe)
    if isinstance(recipe, agg.User):
        assert (repr(actual.written).split(" at ")[0], actual.exprs) == (repr(recipe.written).split(" at ")[0], recipe.exprs)
    else:
        assert actual == recipe


def test_continuous_trigger_of_a_plan_saved_before_only_changed_is_read():
    trigger = ContinuousEventTimeTrigger.of("5 minutes")
    saved = recipe_json(trigger)
    del saved["only_changed"]
    assert recipe_of(saved) == trigger
    assert roundtrip(replace(trigger, only_changed=True)) == replace(trigger, only_changed=True)


@pytest.mark.parametrize(
    "recipe",
    [
        TumblingEventTimeWindows.of("1 day", "-8 hours"),
        TumblingEventTimeWindows(10, 0, WindowStagger.RANDOM),
        SlidingProcessingTimeWindows(20, 5, 1),
        CumulatingEventTimeWindows(20, 5),
        CalendarDays.of(7, zone="America/New_York", every=1, offset="6 hours"),
        CalendarMonths.of(1, zone="UTC", step="day", first_month=4, by_processing_time=True),
        BusinessHours.of("09:00", "17:00", zone="Asia/Tokyo", weekend=("friday",), holidays=["2026-12-25"]),
        EventTimeSessionWindows(7),
        EventTimeSessionWindows(7).max_duration("1 hour"),
        ProcessingTimeSessionWindows.with_gap_column("gap", "seconds"),
        SeveralWindows.of({"a": LookBackWindows(10), "b": LookBackWindows(20, 5)}),
        PredicateWindows("a = 1", None, 7),
        RollingWindows.of({"1h": "1 hour", "ever": None}, every="1 minute"),
        GlobalWindows(EndOfStreamTrigger()),
        SeveralWindows.of({"a": TumblingEventTimeWindows(10), "b": CumulatingEventTimeWindows(20, 5)}),
        PurgingTrigger.of(ContinuousEventTimeTrigger(3)),
        ProcessingTimeoutTrigger(CountTrigger.of(9), 4, True, False),
        CountEvictor(3, True),
        TimeEvictor(10),
        WatermarkStrategy.for_bounded_out_of_orderness("5 seconds"),
        pa.schema([pa.field("key", pa.decimal128(5, 2), nullable=False), pa.field("tags", pa.list_(pa.string()))]),
        {"late": pa.schema([("a", pa.map_(pa.string(), pa.int64()))])},
        None,
        float("inf"),
    ],
    ids=repr,
)
def test_assigners_triggers_and_evictors_survive_json(recipe):
    assert roundtrip(recipe) == recipe


class Whole(WindowAssigner):
    is_event_time = True

    def assign_windows(self, element, timestamp, processing_time):
        return [TimeWindow(0, 1000)]


class Quiet(EventTimeTrigger):
    @property
    def uses_processing_time(self):
        return True


class Odd(Evictor):
    def evict_before(self, elements, size, window, ctx):
        return elements[::2]


class Silent(WatermarkGenerator):
    def on_event(self, element, timestamp, output):
        pass


def plan(windowing, function, results=Totals.results, **more):
    operator = plan_functions(replace(windowing, every_firing=True), function, results, harness.ROWS, function, harness.KEYS)
    return replace(harness.plan_for(operator, windowing), **more)


def roundtrip_plan(plan_):
    return plan_of(json.loads(json.dumps(plan_json(plan_))))


AGGREGATES = (agg.count().alias("n"), agg.sum("v").alias("total"))


def on_columns(assigner, trigger=None, lateness=0, **more):
    return harness.Query(
        WindowQuery(assigner, trigger, allowed_lateness=lateness), AGGREGATES, delay=2, late=True, more=more
    ).columnar()


@pytest.mark.parametrize(
    "original",
    [
        on_columns(TumblingEventTimeWindows(10), lateness=5, with_firing=True, changelog=True),
        on_columns(TumblingEventTimeWindows(10), ContinuousEventTimeTrigger(3)),
        on_columns(TumblingEventTimeWindows(10), PurgingTrigger(ContinuousEventTimeTrigger(3))),
        on_columns(TumblingEventTimeWindows(10), AfterWatermark().early(AfterCount(1))),
        on_columns(SlidingProcessingTimeWindows(20, 5), top=Top(2, "total")),
        on_columns(EventTimeSessionWindows(7).max_duration("1 hour")),
        on_columns(EventTimeSessionWindows.with_gap_column("u", "seconds")),
        on_columns(ProcessingTimeSessionWindows(7)),
        on_columns(GlobalWindows.create(), PurgingTrigger(CountTrigger(3))),
        look_backs.plan_of(SeveralWindows.of({"a": LookBackWindows(10), "b": LookBackWindows(20, 5)}), AGGREGATES, ("ts", "u")),
        predicates.plan_of(PredicateWindows("v > 0", "u % 4 = 1", 5), AGGREGATES),
        rolling.plan_of(RollingWindows((("short", 20), ("ever", None)), 2), AGGREGATES, lateness=5, changelog=True),
        intervals.Interval(-3, 4, "left", (1, 2)).plan(),
    ],
    ids=lambda plan: type(plan.operator).__name__,
)
def test_columnar_plan_survives_json(original):
    """All of it: the computation, the windows and the outputs."""
    read_plan = roundtrip_plan(original)
    assert {field.name: getattr(read_plan, field.name) for field in fields(original)} == {
        field.name: getattr(original, field.name) for field in fields(original)
    }
    assert read_plan.identity() == original.identity()


def test_plan_over_tables_is_read_with_its_function_by_name():
    windowing, result = WindowQuery(TumblingEventTimeWindows(10)), pa.schema([("n", pa.int64())])
    function = TablePerWindow(lambda key, window, table: table)
    original = harness.plan_for(plan_table_function(windowing, function, result, harness.ROWS, harness.KEYS), windowing)
    read_plan, before = roundtrip_plan(original).operator, original.operator
    assert (read_plan.grid, read_plan.result, read_plan.rows, read_plan.evictor) == (
        before.grid,
        before.result,
        before.rows,
        before.evictor,
    )
    assert read_plan.function == AbsentOverRows(stable_repr(before.function))


@pytest.mark.parametrize("pickled", [False, True])
def test_plan_of_the_row_operator_is_read_with_its_window_and_schemas(pickled):
    windowing = WindowQuery(SlidingProcessingTimeWindows(20, 5), CountTrigger.of(2), CountEvictor(3), pickled_state=pickled)
    original = plan(windowing, KeepRows(applied(lambda key, window, rows: [])), harness.KEYS)
    read_plan, before = roundtrip_plan(original).operator, original.operator
    # Pickles were allowed when the state was written. A reader must allow them again.
    assert read_plan.row_plan.window == replace(before.row_plan.window, pickled_state=False)
    saved = json.loads(json.dumps(plan_json(original)))
    assert plan_of(saved, pickles=True).operator.row_plan.window == before.row_plan.window
    names = ("result", "element_schema", "input_texts", "returned", "by_processing_time")
    assert [getattr(read_plan, name) for name in names] == [getattr(before, name) for name in names]
    assert read_plan.row_plan.pages == before.row_plan.pages


def test_declared_aggregates_of_the_row_operator_survive_json():
    original = harness.Query(WindowQuery(TumblingEventTimeWindows(10)), AGGREGATES).row()
    read_plan, before = roundtrip_plan(original).operator.declared, original.operator.declared
    assert (read_plan.aggregates, read_plan.described) == (before.aggregates, before.described)


@pytest.mark.parametrize(
    ("original", "words"),
    [
        (look_backs.plan_of(LookBackWindows(10), AGGREGATES), "of look-backs"),
        (predicates.plan_of(PredicateWindows("v > 0", None), AGGREGATES), "of windows by predicates"),
        (rolling.plan_of(RollingWindows((("short", 20),), 2), AGGREGATES), "of rolling values"),
    ],
)
def test_plan_whose_windows_do_not_fit_its_operator_is_refused(original, words):
    saved = json.loads(json.dumps(plan_json(original)))
    other = recipe_json(TumblingEventTimeWindows(10))
    with pytest.raises(StateFormatError) as refused:
        plan_of({**saved, "assigner": other})
    assert str(refused.value) == f"the saved plan is {words}, and its windows are {TumblingEventTimeWindows(10)!r}"


def test_user_code_is_read_by_name_and_does_not_run():
    windowing = WindowQuery(Whole(), Quiet(), Odd())
    read_plan = roundtrip_plan(plan(windowing, AggregateRows(Totals()), watermark=WatermarkStrategy.for_generator(Silent)))
    window = read_plan.operator.row_plan.window
    assert (repr(window.assigner).split(".")[-1], window.assigner.is_event_time) == ("Whole object>", True)
    assert window.trigger.uses_processing_time
    assert read_plan.watermark.generator is not None
    for call in (
        lambda: window.assigner.assign_windows(None, 0, 0),
        lambda: window.trigger.on_element(None, 0, None, None),
        lambda: window.evictor.evict_before([], 0, None, None),
        lambda: read_plan.operator.row_plan.function.function.add(1, 2),
        lambda: read_plan.watermark.generator().on_event(None, 0, None),
    ):
        with pytest.raises(InvalidPlanError, match="does not contain the code of"):
            call()


@pytest.mark.parametrize(
    "function",
    [KeepRows(applied(lambda key, window, rows: [])), AggregateRows(Totals()), ReduceRows(lambda a, b: a)],
    ids=["e", "a", "r"],
)
def test_identity_of_a_plan_does_not_depend_on_missing_code(function):
    original = plan(WindowQuery(Whole(), DeltaTrigger.of(1.0, lambda a, b: 0.0)), function, harness.ROWS)
    assert roundtrip_plan(original).identity() == original.identity()


@pytest.mark.parametrize("function", [AggregateRows(Totals()), ReduceRows(lambda a, b: a)], ids=["a", "r"])
def test_json_shows_whether_a_function_follows_the_aggregation(function):
    windowing = WindowQuery(Whole(), DeltaTrigger.of(1.0, lambda a, b: 0.0))
    assert roundtrip_plan(plan(windowing, function, harness.ROWS)).operator.row_plan.function.then is None
    then = replace(function, then=applied(lambda key, window, rows: []))
    assert roundtrip_plan(plan(windowing, then, harness.ROWS)).operator.row_plan.function.then is not None


def test_newer_format_and_unknown_names_are_refused():
    original = plan_json(plan(WindowQuery(TumblingEventTimeWindows(10)), AggregateRows(Totals())))
    with pytest.raises(StateFormatError, match=r"format 99.*a newer one"):
        plan_of({**original, "format": 99})
    with pytest.raises(StateFormatError, match="operator 'MatchSpec'"):
        plan_of({**original, "operator": {"is": "MatchSpec"}})
    with pytest.raises(StateFormatError, match="names 'MoonWindows'"):
        recipe_of({"is": "MoonWindows", "size": 3})
    with pytest.raises(StateFormatError, match="CountTrigger with the fields"):
        recipe_of({"is": "CountTrigger", "number": 3})
    with pytest.raises(StateFormatError, match="does not know"):
        recipe_of({"moon": 3})


@pytest.mark.parametrize("broken", [{"operator": {}}, {"identity": 3}], ids=["something is missing", "it is of another type"])
def test_changed_plan_is_refused_with_the_cause(broken):
    original = plan_json(plan(WindowQuery(TumblingEventTimeWindows(10)), AggregateRows(Totals())))
    with pytest.raises(
        StateFormatError, match=r"this version of panestream cannot read the saved plan \((Key|Type|Value|Attribute)Error: "
    ) as caught:
        plan_of({**original, **broken})
    assert caught.value.__cause__ is not None


def test_plans_of_every_operator_can_be_read():
    # These are not chosen by a rule: the row operator runs everything else, and joins by time do not have windows.
    operators = {rule.__module__.split(".")[3] for rule in (*COLUMNS_ONLY, *RULES)} | {"row", "intervals", "as_of_join"}
    assert {kind.__module__.split(".")[3] for kind in plans.SPECS} == operators


def test_plan_with_an_aggregate_of_an_unknown_package_is_refused():
    class Product(agg.Sum):
        pass

    with pytest.raises(StateFormatError, match="belongs to another package"):
        roundtrip(Product("v"))


def test_user_aggregate_keeps_its_partial_types():
    types = {"text": pa.string(), "int": pa.int64()}
    windowing = WindowQuery(TumblingEventTimeWindows(10))
    operator = plan_aggregates(windowing, [agg.user(Story(), "text", "int")], types, harness.KEYS)
    original = harness.plan_for(operator, windowing)
    assert roundtrip_plan(original).operator.aggregation.partial_schema == operator.aggregation.partial_schema
