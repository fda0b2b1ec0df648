"""What a plan says of its columns."""

from __future__ import annotations

import pyarrow as pa
import pytest

from panestream.engine.plan import MAIN
from panestream.engine.window_spec import WindowSpec
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import (
    CumulatingEventTimeWindows,
    EventTimeSessionWindows,
    GlobalWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from panestream.windowing.assigners.several import SeveralWindows
from panestream.windowing.triggers import CountTrigger
from tests.comparison import harness

COUNT = (agg.count().alias("n"),)
SEVERAL = SeveralWindows.of({"a": TumblingEventTimeWindows(5), "b": TumblingEventTimeWindows(10)})
INSTANT = pa.timestamp("us", tz="UTC")


def plan_of(assigner, trigger=None, **more):
    query = harness.Query(WindowSpec(assigner, trigger), COUNT, **more)
    return query.columnar() if isinstance(assigner, SeveralWindows) else query.row()


@pytest.mark.parametrize(
    ("assigner", "names"),
    [(TumblingEventTimeWindows(5), ("window_start", "window_end")), (SEVERAL, ("window", "window_start", "window_end"))],
    ids=["one kind", "several"],
)
def test_several_kinds_of_windows_have_a_label(assigner, names):
    plan = plan_of(assigner)
    assert plan.window_names == names
    assert plan.main_schema.names == ["key", *names, "n"]
    assert plan.key_names == ("key",)


@pytest.mark.parametrize(
    ("assigner", "trigger", "nullable"),
    [
        (TumblingEventTimeWindows(5), None, False),
        (SlidingEventTimeWindows(10, 5), None, False),
        (EventTimeSessionWindows(5), None, False),
        (CumulatingEventTimeWindows.of("1 day", "1 hour"), None, False),
        (SEVERAL, None, False),
        (GlobalWindows(), CountTrigger(3), True),
    ],
    ids=["tumbling", "sliding", "sessions", "cumulating", "several", "global"],
)
def test_only_the_window_without_end_has_no_bounds(assigner, trigger, nullable):
    schema = plan_of(assigner, trigger).main_schema
    assert [(schema.field(name).nullable, schema.field(name).type) for name in ("window_start", "window_end")] == [
        (nullable, INSTANT)
    ] * 2


def test_side_outputs_have_the_window_and_late_rows_are_as_they_came():
    plan = plan_of(TumblingEventTimeWindows(5), late=True, more={"side_outputs": {"seen": pa.schema([("x", pa.int64())])}})
    assert plan.output_schema("seen").names == ["key", "window_start", "window_end", "x"]
    assert plan.output_schema(harness.LATE) == harness.ROWS
    assert plan.output_schema(MAIN) == plan.main_schema


def test_an_output_of_rows_without_their_columns_is_an_error():
    with pytest.raises(RuntimeError, match="an output 'late' but no schema for it"):
        plan_of(TumblingEventTimeWindows(5)).output_schema("late")
