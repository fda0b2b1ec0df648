"""Saved partials read with another list of aggregates: old aggregates include all rows, new ones only the rows from now on."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from panestream.engine.aggregates import Aggregation
from panestream.engine.aggregates.saved_partials import partials_found, partials_saved
from panestream.engine.kernels.columns import storable
from panestream.errors import InvalidPlanError, PlanMismatchError, StateFormatError
from panestream.windowing import aggregates as agg
from tests.costs import random_cases
from tests.engine.aggregates import naive
from tests.engine.aggregates.naive import Row
from tests.engine.aggregates.test_against_naive import NUMERIC, TYPES, VALUES, Story, recipes

KEYS = pa.schema([("key", pa.int64())])


@st.composite
def cases(draw):
    """Draw two lists of aggregates, rows that came before the change, and rows after it."""
    before = draw(st.lists(recipes(), min_size=1, max_size=4, unique_by=lambda r: r.name))
    remaining = draw(st.permutations(before))[: draw(st.integers(0, len(before)))]
    added = draw(st.lists(recipes(), max_size=2, unique_by=lambda r: r.name))
    after = [each_recipe.alias(f"r{place}") for place, each_recipe in enumerate(draw(st.permutations([*remaining, *added])))] or [
        agg.count()
    ]
    columns = sorted({expr for recipe in [*before, *after] for expr in recipe.inputs})
    nullable = {column: draw(st.booleans()) for column in columns}
    parts = []
    for begin in (0, 100):
        rows = []
        for arrival in range(draw(st.integers(0, 12))):
            values = {c: draw(st.none() | VALUES[c] if nullable[c] else VALUES[c]) for c in columns}
            pane = draw(st.integers(0, 2))
            rows.append(Row((draw(st.integers(0, 1)),), pane, 3 * pane + draw(st.integers(0, 2)), begin + arrival, values))
        parts.append(rows)
    return before, after, *parts


def table_of(aggregation, rows):
    keys = [pa.array([row.key[0] for row in rows], pa.int64())]
    values = [pa.array([row.values[expr] for row in rows], TYPES[expr]) for expr in aggregation.inputs]
    panes, times = np.array([row.pane for row in rows], np.int64), np.array([row.time for row in rows], np.int64)
    return aggregation.partials(keys, panes, values, times)


def partials_of(recipe):
    aggregation = Aggregation.build([recipe], TYPES, KEYS)
    return {partial.described(aggregation.inputs) for partial in aggregation.partial_aggregates}


@settings(max_examples=random_cases(150), deadline=None, suppress_health_check=list(HealthCheck))
@given(case=cases())
def test_old_aggregates_include_all_rows_and_new_ones_only_later_rows(case):
    old, after, early, late = case
    before, now = Aggregation.build(old, TYPES, KEYS), Aggregation.build(after, TYPES, KEYS)
    saved = storable(table_of(before, early))
    assert not any(pa.types.is_decimal256(type_) for type_ in saved.schema.types)  # Spark does not have this type
    saved_names = {of for recipe in old for of in partials_of(recipe)}
    if early and any(isinstance(new_recipe, agg.User) and not partials_of(new_recipe) <= saved_names for new_recipe in after):
        with pytest.raises(InvalidPlanError, match="cannot be added to open windows"):
            partials_found(saved, {"partials": partials_saved(before)}, now)
        return
    columns = [*saved.columns[:3], *partials_found(saved, {"partials": partials_saved(before)}, now)]
    restored = pa.Table.from_arrays(columns, schema=now.partial_schema)
    restored.validate(full=True)
    windows, results = now.windows(pa.concat_tables([restored, table_of(now, late)]), np.arange(3), np.arange(1, 4))
    places = list(zip(windows.tolist(), results["key"].to_pylist(), strict=True))
    assert sorted(places) == sorted({(row.pane, row.key[0]) for row in [*early, *late]})
    for recipe in after:
        rows = [*early, *late] if partials_of(recipe) <= saved_names else late
        for (pane, key), value in zip(places, results[recipe.name].to_pylist(), strict=True):
            own = [row for row in rows if (row.pane, row.key[0]) == (pane, key)]
            expected = naive.aggregate(recipe, own, TYPES) if own or not isinstance(recipe, agg.User) else None
            scale = 1e12 if recipe.inputs and recipe.inputs[0] in NUMERIC else 1.0
            assert naive.same(value, expected, scale), (recipe, pane, key, value, expected)


@pytest.mark.parametrize(("early", "late"), [([4, 8], []), ([4, None, 8], [5, 9])])
def test_added_sum_or_mean_ignores_earlier_values_though_they_were_counted(early, late):
    types = {"v": pa.int64()}
    before = Aggregation.build([agg.count("v")], types, KEYS)
    now = Aggregation.build([agg.count("v").alias("n"), agg.sum("v").alias("sum"), agg.mean("v").alias("mean")], types, KEYS)

    def table(aggregation, values):
        places = np.zeros(len(values), np.int64)
        return aggregation.partials([pa.array(places)], places, [pa.array(values, pa.int64())], places)

    saved = table(before, early)
    columns = [*saved.columns[:3], *partials_found(saved, {"partials": partials_saved(before)}, now)]
    restored = pa.Table.from_arrays(columns, schema=now.partial_schema)
    _, results = now.windows(pa.concat_tables([restored, table(now, late)]), np.arange(1), np.arange(1, 2))
    count = 2 + len(late)
    expected = {"n": count, "sum": sum(late) if late else None, "mean": sum(late) / len(late) if late else None}
    assert results.select([*expected]).to_pylist() == [expected]


def test_saved_name_of_a_partial_does_not_depend_on_other_aggregates():
    alone, among = ([agg.max_by("v", "u")], [agg.sum("u"), agg.count("x"), agg.max_by("v", "u")])
    types = dict.fromkeys("vux", pa.int64())
    (first,) = partials_saved(Aggregation.build(alone, types, KEYS))
    assert first["of"] in [partial["of"] for partial in partials_saved(Aggregation.build(among, types, KEYS))]
    assert first["of"] != partials_saved(Aggregation.build([agg.max_by("u", "v")], types, KEYS))[0]["of"]


class Longer(Story):
    partial_type = pa.struct([("texts", pa.list_(pa.string())), ("sum", pa.int64()), ("more", pa.int64())])

    def __repr__(self):
        return "story"


class Shorter(Story):
    def __repr__(self):
        return "story"


def test_user_aggregate_with_another_partial_type_is_refused():
    types = {"text": pa.string(), "int": pa.int64()}
    before, now = (Aggregation.build([agg.user(aggregate, "text", "int")], types, KEYS) for aggregate in (Shorter(), Longer()))
    with pytest.raises(PlanMismatchError, match="has changed"):
        partials_found(before.partial_schema.empty_table(), {"partials": partials_saved(before)}, now)


def test_error_names_the_missing_column():
    aggregation = Aggregation.build([agg.sum("v")], {"v": pa.int64()}, KEYS)
    table = aggregation.partial_schema.empty_table().drop_columns(["#0.high"])
    with pytest.raises(StateFormatError, match=r"lacks the column .#0\.high."):
        partials_found(table, {"partials": partials_saved(aggregation)}, aggregation)
