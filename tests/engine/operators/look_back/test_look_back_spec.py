"""The spec of look-backs: identity, the columns that cross the shuffle, result columns, and ``explain()``."""

from __future__ import annotations

import pyarrow as pa
import pytest

from panestream.engine.operators.look_back.operator import look_back_rule
from panestream.engine.plan import Chunk, WindowQuery
from panestream.engine.rule import DeclaredAggregates
from panestream.errors import InvalidPlanError
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import LookBackWindows, TumblingEventTimeWindows
from panestream.windowing.assigners.base import SeveralWindows
from tests.comparison import harness, look_backs

SUM = (agg.sum("v").alias("s"),)
SEVERAL = SeveralWindows.of({"short": LookBackWindows(3), "long": LookBackWindows(10, 4)})


def explain_sections(plan, *, streaming=True):
    return plan.operator.explain(plan, streaming=streaming)


def test_identity_of_look_backs():
    plan = look_backs.plan_of(LookBackWindows(10), (agg.mean("x").alias("m"),), ("u", "x"))
    assert plan.operator.name == "look-backs"
    assert plan.operator.identity() == {
        "aggregates": "agg.mean('x').alias('m')",
        "partials": "key 0 string, pane int64, rows int64, #0.sum double, #1.n int64",
        "rows": "u int64, x double",
    }


def test_look_backs_refuse_firing_numbers_and_changelogs():
    operator = look_backs.plan_of(LookBackWindows(10), SUM).operator
    assert operator.capabilities.no_firings == "each row has one result, which is its only one"
    assert operator.capabilities.no_changelog == "each row has one result, which no later one takes the place of"
    assert operator.capabilities.per_row


@pytest.mark.parametrize(("aggregates", "follows"), [(SUM, False), ((agg.first("v").alias("f"),), True)])
def test_look_backs_are_order_sensitive_if_an_aggregate_is(aggregates, follows):
    assert look_backs.plan_of(LookBackWindows(10), aggregates).operator.capabilities.order_sensitive is follows


def test_result_columns_are_those_of_the_row_then_of_each_look_back():
    plan = look_backs.plan_of(SEVERAL, (*SUM, agg.mean("x").alias("m")), ("u",))
    assert plan.operator.result_schema == pa.schema(
        [("u", pa.int64()), ("s_short", pa.int64()), ("m_short", pa.float64()), ("s_long", pa.int64()), ("m_long", pa.float64())]
    )


@pytest.mark.parametrize("late", [False, True])
def test_column_used_by_results_and_aggregates_crosses_once(late):
    """The key, the time as an instant, the inputs of aggregates and other result columns cross. For the late output the whole
    row follows.
    """
    plan = look_backs.plan_of(LookBackWindows(10), (agg.sum("v").alias("s"), agg.max("x").alias("m")), ("u", "v"), late=late)
    operator = plan.operator
    assert operator.inputs == ("v", "x", "u")
    assert operator.input_types == (pa.int64(), pa.float64(), pa.int64())
    whole = [*harness.ROWS.types] if late else []
    types = [pa.string(), pa.timestamp("us"), pa.int64(), pa.float64(), pa.int64(), *whole]
    assert operator.part_schema(plan, "rows").types == types
    row = pa.table([["a"], [5], [1], [0.5], [7]], schema=harness.ROWS)
    values = [row[name].chunk(0) for name in operator.inputs]
    chunk = Chunk(row["ts"].to_numpy(), [row["key"].chunk(0)], values, row if plan.carries_rows else None)
    ((kind, part),) = operator.pack(plan, chunk)
    assert (kind, part.schema) == ("rows", operator.part_schema(plan, "rows"))
    (values_sent,) = zip(*(column.to_pylist() for column in part.set_column(1, "1", [[5]]).columns), strict=True)
    assert values_sent == ("a", 5, 1, 0.5, 7, *(("a", 5, 1, 0.5, 7) if late else ()))


def test_explain_describes_look_backs():
    plan = look_backs.plan_of(SEVERAL, SUM, late=True)
    state_line = (
        "partials of each key and instant for as long as a look-back reaches, in blocks; rows that wait for the watermark"
    )
    edges = "the panes of 2 microseconds in which windows begin and end"
    assert explain_sections(plan) == {
        "look-backs": [
            "short: the 3 microseconds before each row, and the row itself",
            "long: the 10 microseconds before each row and 4 microseconds after it, and the row itself",
        ],
        "results": ["one for each row when the watermark has passed it; older rows are late"],
        "aggregates": [f"agg.sum('v').alias('s'); {SUM[0].merge_rule}"],
        "exchange": [
            "rows cross the shuffle once, with the columns that results and aggregates take",
            "whole rows cross too, for the late output",
        ],
        "state": [
            state_line,
            f"a small micro-batch reads {edges}, and one partial for each key and pane between",
        ],
    }
    alone = look_backs.plan_of(LookBackWindows(10), SUM)
    assert explain_sections(alone)["look-backs"] == ["the 10 microseconds before each row, and the row itself"]
    assert explain_sections(alone)["exchange"] == [
        "rows cross the shuffle once, with the columns that results and aggregates take"
    ]
    assert explain_sections(alone, streaming=False)["state"] == ["none: a batch computes all rows at once"]


@pytest.mark.parametrize(
    ("size", "column", "read"),
    [
        (7, "v", None),
        (7, "x", None),
        (8, "v", "the panes of 2 microseconds in"),
        (128, "v", "the panes of 2 microseconds in"),
        (129, "v", "the panes of 3 microseconds in"),
        (8, "x", "panes merged before would change agg.sum('x').alias('s')"),
    ],
)
def test_explain_mentions_panes_only_if_look_backs_use_them(size, column, read):
    state_line, *more = explain_sections(look_backs.plan_of(LookBackWindows(size), (agg.sum(column).alias("s"),)))["state"]
    assert state_line.endswith("rows that wait for the watermark")
    assert [read in line for line in more] == ([] if read is None else [True])


def test_look_back_rule_ignores_other_windows_and_refuses_allowed_lateness():
    request = DeclaredAggregates(SUM, {"v": pa.int64()}, harness.KEYS)
    assert look_back_rule(WindowQuery(TumblingEventTimeWindows(10)), request) is None
    with pytest.raises(InvalidPlanError, match="look-backs"):
        look_back_rule(WindowQuery(LookBackWindows(10), allowed_lateness=5), request)


def test_results_without_row_columns_are_the_aggregates_alone():
    verdict = look_back_rule(WindowQuery(LookBackWindows(10)), DeclaredAggregates(SUM, {"v": pa.int64()}, harness.KEYS))
    assert verdict.operator.result_schema == pa.schema([("s", pa.int64())])
