"""Recipes of aggregates and their plans: arguments, names, types and errors."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from panestream.engine.aggregates import Aggregation
from panestream.errors import InvalidPlanError
from panestream.windowing import aggregates as agg
from panestream.windowing.aggregates.base import ColumnText

KEYS = pa.schema([("user", pa.string())])
ALL = [
    agg.count(),
    agg.count("x"),
    agg.sum("x"),
    agg.min("x"),
    agg.max("x"),
    agg.mean("x"),
    agg.var("x"),
    agg.stddev("x"),
    agg.first("x"),
    agg.first("x", ignore_nulls=True),
    agg.last("x"),
    agg.min_by("x", "y"),
    agg.max_by("x", "y"),
    agg.count_distinct("x"),
    agg.collect_list("x"),
    agg.top_k("x", 2),
    agg.top_k("x", 2, by="y"),
    agg.arg_max("x", "y"),
    agg.arg_min("x", "y", "x"),
    agg.weighted_mean("x", "y"),
    agg.histogram("x", [0]),
    agg.histogram("x", [0, 0.5, 10]),
    agg.approx_count_distinct("x"),
    agg.approx_count_distinct("x", 0.1),
    agg.approx_quantile("x", 0.5),
    agg.approx_quantile("x", 1, k=50),
    agg.approx_quantiles("x", [0.5, 0.99]),
    agg.approx_quantiles("x", [0.5, 0.99], k=50),
]


@pytest.mark.parametrize("recipe", ALL, ids=repr)
def test_repr_rebuilds_an_aggregate(recipe):
    assert eval(repr(recipe), {"agg": agg}) == recipe
    named = recipe.alias("it's")
    assert eval(repr(named), {"agg": agg}) == named != recipe
    assert named.name == "it's"
    assert pickle.loads(pickle.dumps(named)) == named
    assert recipe.merge_rule


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda: agg.count().alias(""), "an alias must be a non-empty string, got ''"),
        (lambda: agg.count().alias(3), "an alias must be a non-empty string, got 3"),
        (lambda: agg.complete(""), "output must be the name of another result, got ''"),
        (lambda: agg.complete(3), "output must be the name of another result, got 3"),
        (
            lambda: agg.complete("n").alias("n"),
            "is called 'n' itself: it must have another name than the result it checks. Write .alias..n_complete",
        ),
        (lambda: agg.histogram("x", []), "edges must be finite numbers, at least one"),
        (lambda: agg.histogram("x", [1, 1]), "each larger than the one before"),
        (lambda: agg.histogram("x", [1, 3, 2]), "each larger than the one before"),
        (lambda: agg.histogram("x", [1, float("inf")]), "edges must be finite numbers"),
        (lambda: agg.histogram("x", [1, "2"]), "edges must be finite numbers"),
        (lambda: agg.histogram("x", [True, 2]), "edges must be finite numbers"),
        (lambda: agg.approx_count_distinct("x", 0.0024), "relative_sd must be from 0.0025 to 0.5, got 0.0024"),
        (lambda: agg.approx_count_distinct("x", 0.51), "relative_sd must be from 0.0025 to 0.5"),
        (lambda: agg.approx_count_distinct("x", True), "relative_sd must be from 0.0025 to 0.5, got True"),
        (lambda: agg.approx_count_distinct("x", "0.1"), "relative_sd must be from 0.0025 to 0.5"),
        (lambda: agg.arg_max("x"), "nothing to keep of the row"),
        (lambda: agg.arg_max("x", "y", "y"), "keeps an expression twice"),
    ],
)
def test_wrong_arguments_of_aggregates_are_refused(build, said):
    with pytest.raises(InvalidPlanError, match=said):
        build()


class Largest(agg.ColumnAggregate):
    """An aggregate over one column."""

    partial_type = result_type = pa.int64()

    def __init__(self, of="x"):
        self.of = of

    def partial(self, values, group, groups):
        raise NotImplementedError

    def merge(self, partial, group, groups):
        raise NotImplementedError

    def final(self, partial):
        return partial


class OfNoType(Largest):
    result_type = "bigint"


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda: agg.user(Largest, "x"), r"must be a ColumnAggregate \(an instance of it, not the class\), got"),
        (lambda: agg.user(3, "x"), "must be a ColumnAggregate, got 3"),
        (lambda: agg.user(OfNoType(), "x"), "OfNoType.result_type must be an Arrow type"),
        (lambda: agg.user(Largest()), r"Largest\(of='x'\) gets no column"),
        (lambda: agg.user(Largest(), 3), "agg.user"),
    ],
)
def test_invalid_user_aggregates_are_refused(build, said):
    with pytest.raises(InvalidPlanError, match=said):
        build()


def test_user_aggregates_are_equal_if_their_attributes_are():
    one = agg.user(Largest(), "x", "y")
    assert (one.name, one.inputs) == ("Largest(x, y)", ("x", "y"))
    assert (Largest() == Largest(), Largest() == Largest("y"), Largest() == OfNoType()) == (True, False, False)
    assert len({Largest(), Largest(), Largest("y")}) == 2
    assert Largest().__eq__(3) is False


def test_extreme_arguments_of_aggregates_are_accepted():
    assert [agg.approx_count_distinct("x", given).relative_sd for given in (0.0025, 0.5)] == [0.0025, 0.5]
    assert agg.histogram("x", [-1, 0]).edges == (-1, 0)


@pytest.mark.parametrize(
    ("recipe", "inputs", "compared", "fields"),
    [
        (agg.count(), (), (), ()),
        (agg.sum("x"), ("x",), (), ()),
        (agg.min("x"), ("x",), ("x",), ()),
        (agg.min_by("x", "y"), ("x", "y"), ("y",), ()),
        (agg.arg_min("y", "x", "z"), ("x", "z", "y"), ("y",), ("x", "z")),
        (agg.histogram("x", [0]), ("x",), (), ()),
        (agg.top_k("x", 2), ("x",), ("x",), ()),
        (agg.top_k("x", 2, by="y"), ("x", "y"), ("y",), ()),
    ],
    ids=repr,
)
def test_recipe_has_inputs_compared_columns_and_fields(recipe, inputs, compared, fields):
    assert (recipe.inputs, recipe.compared, recipe.struct_fields) == (inputs, compared, fields)


def test_aggregates_have_default_names():
    assert [r.name for r in ALL[:3]] == ["count", "count(x)", "sum(x)"]
    assert agg.min_by("x", "y").name == "min_by(x, y)"
    assert agg.top_k("x", 2, by="y").name == "top_k(x, 2, y)"
    assert agg.count("*") == agg.count()
    assert agg.avg("x") == agg.mean("x")


@pytest.mark.parametrize("wrong", [None, 3, object(), "", "  "])
def test_expression_that_is_not_a_string_is_refused(wrong):
    with pytest.raises(InvalidPlanError, match=r"agg.sum\('price'\)"):
        agg.sum(wrong)
    with pytest.raises(InvalidPlanError, match="by"):
        agg.max_by("x", wrong)


@pytest.mark.parametrize("wrong", [None, 3, "", " "], ids=repr)
@pytest.mark.parametrize(
    ("called", "function", "argument"),
    [
        (agg.mean, "mean", "expr"),
        (agg.count_distinct, "count_distinct", "expr"),
        (agg.approx_count_distinct, "approx_count_distinct", "expr"),
        (lambda wrong: agg.approx_quantile(wrong, 0.5), "approx_quantile", "expr"),
        (lambda wrong: agg.histogram(wrong, [0, 1]), "histogram", "expr"),
        (agg.first, "first", "expr"),
        (lambda wrong: agg.min_by(wrong, "y"), "min_by", "expr"),
        (lambda wrong: agg.min_by("x", wrong), "min_by", "by"),
        (lambda wrong: agg.max_by(wrong, "y"), "max_by", "expr"),
        (lambda wrong: agg.max_by("x", wrong), "max_by", "by"),
        (lambda wrong: agg.arg_min(wrong, "y"), "arg_min", "by"),
        (lambda wrong: agg.arg_max("x", "y", wrong), "arg_max", "expr"),
        (lambda wrong: agg.top_k(wrong, 2), "top_k", "expr"),
        (lambda wrong: agg.top_k(wrong, 2, by="y"), "top_k", "expr"),
        (lambda wrong: agg.weighted_mean(wrong, "w"), "weighted_mean", "expr"),
        (lambda wrong: agg.weighted_mean("x", wrong), "weighted_mean", "weight"),
    ],
)
def test_error_names_the_wrong_expression(called, function, argument, wrong):
    with pytest.raises(InvalidPlanError) as raised:
        called(wrong)
    call = f"agg.{function}('price')" if argument == "expr" else f"agg.{function}(..., {argument}='price')"
    assert str(raised.value) == (
        f"agg.{function}: {argument} is empty; write a column name or SQL text, e.g. {call}"
        if isinstance(wrong, str)
        else f"agg.{function}: {argument} must be a column name, SQL text or a Column, not {type(wrong).__name__}; write {call} or "
        f"agg.{function}('price * quantity')"
    )


@pytest.mark.parametrize("wrong", [3, "", " "])
def test_wrong_optional_expression_is_refused(wrong):
    with pytest.raises(InvalidPlanError, match=r"agg\.count: expr (is empty|must be a column name)"):
        agg.count(wrong)
    with pytest.raises(InvalidPlanError, match=r"agg\.top_k: by (is empty|must be a column name)"):
        agg.top_k("x", 2, by=wrong)
    assert agg.count(None).inputs == agg.count("*").inputs == ()
    assert agg.top_k("x", 2, by=None).inputs == ("x",)


@pytest.mark.parametrize("k", [0, -1, 1.5, True, "3"])
def test_k_that_is_not_a_positive_integer_is_refused(k):
    with pytest.raises(InvalidPlanError, match="positive integer"):
        agg.top_k("x", k)


@pytest.mark.parametrize("share", [-0.001, 1.001, 2, True, "0.5", None, float("nan")])
def test_probability_outside_0_to_1_is_refused(share):
    with pytest.raises(InvalidPlanError) as one:
        agg.approx_quantile("x", share)
    with pytest.raises(InvalidPlanError) as among_others:
        agg.approx_quantiles("x", [0, share, 1])
    said = "a quantile is a number from 0 to 1, got"
    assert str(one.value) == f"agg.approx_quantile: {said} {(share,)!r}; write agg.approx_quantile('x', 0.99)"
    assert (
        str(among_others.value) == f"agg.approx_quantiles: {said} {(0, share, 1)!r}; write agg.approx_quantiles('x', [0.5, 0.99])"
    )


def test_quantiles_accept_extreme_probabilities_and_k():
    assert agg.approx_quantiles("x", [0, 1, 0.0, 1.0], k=10).probabilities == (0, 1, 0.0, 1.0)
    assert agg.approx_quantile("x", 0, k=65535).name == "approx_quantile(x, 0)"
    for k in (9, 65536):
        with pytest.raises(InvalidPlanError, match="k must be an integer from 10 to 65535"):
            agg.approx_quantiles("x", [0.5], k=k)


def test_aggregates_of_one_expression_share_partial_columns():
    one = Aggregation.build([agg.sum("x")], {"x": pa.int64()}, KEYS)
    more = Aggregation.build([agg.sum("x"), agg.mean("x")], {"x": pa.int64()}, KEYS)
    assert one.partial_schema == more.partial_schema
    # A count may have existed before a sum. Their states of open windows then differ.
    counted = Aggregation.build([agg.sum("x"), agg.mean("x"), agg.count("x")], {"x": pa.int64()}, KEYS)
    assert len(counted.partial_schema) == len(one.partial_schema) + 1
    assert counted.inputs == ("x",)


def test_only_aggregates_ordered_by_time_need_timestamps():
    def timed(*recipes):
        return Aggregation.build(recipes, {"x": pa.int64(), "y": pa.int64()}, KEYS).needs_timestamps

    assert not timed(agg.sum("x"), agg.max("x"), agg.count_distinct("x"))
    assert all(timed(r) for r in (agg.first("x"), agg.last("x"), agg.max_by("x", "y"), agg.collect_list("x"), agg.top_k("x", 1)))


def test_result_types_are_those_of_spark():
    types = {"i": pa.int8(), "f": pa.float32(), "d": pa.decimal128(10, 2), "w": pa.decimal128(38, 10), "s": pa.string()}
    recipes = [agg.sum("i"), agg.sum("f"), agg.sum("d"), agg.sum("w"), agg.mean("i"), agg.mean("d"), agg.mean("w"), agg.max("s")]
    assert Aggregation.build(recipes, types, KEYS).output_schema.types == [
        pa.int64(), pa.float64(), pa.decimal128(20, 2), pa.decimal128(38, 10),
        pa.float64(), pa.decimal128(14, 6), pa.decimal128(38, 14), pa.string(),
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["user", "window_start", "window_end", "count"])
def test_clashing_result_names_are_refused(name):
    with pytest.raises(InvalidPlanError, match=name):
        Aggregation.build([agg.count(), agg.sum("x").alias(name)], {"x": pa.int64()}, KEYS)


@pytest.mark.parametrize(
    ("recipe", "type_"),
    [
        (agg.sum("x"), pa.string()),
        (agg.sum("x"), pa.bool_()),
        (agg.mean("x"), pa.timestamp("us")),
        (agg.var("x"), pa.binary()),
        (agg.min("x"), pa.list_(pa.int64())),
        (agg.max("x"), pa.struct([("a", pa.int64())])),
        (agg.top_k("x", 3), pa.map_(pa.string(), pa.string())),
        (agg.count_distinct("x"), pa.list_(pa.int64())),
    ],
)
def test_unsupported_input_type_is_named_in_the_error(recipe, type_):
    with pytest.raises(InvalidPlanError) as raised:
        Aggregation.build([recipe], {"x": type_}, KEYS)
    for part in (repr(recipe), "'x'", str(type_)):
        assert part in str(raised.value)


def test_unknown_columns_unsupported_keys_and_empty_aggregates_are_refused():
    with pytest.raises(InvalidPlanError, match="nothing to aggregate"):
        Aggregation.build([], {}, KEYS)
    with pytest.raises(InvalidPlanError, match="did you mean 'price'"):
        Aggregation.build([agg.sum("pric")], {"price": pa.int64()}, KEYS)
    with pytest.raises(InvalidPlanError, match="key 'tags'"):
        Aggregation.build([agg.count()], {}, pa.schema([("tags", pa.list_(pa.string()))]))
    with pytest.raises(InvalidPlanError, match="two key columns"):
        Aggregation.build([agg.count()], {}, pa.schema([("a", pa.int64()), ("a", pa.int64())]))
    with pytest.raises(InvalidPlanError, match="not a declared aggregate"):
        Aggregation.build(["sum(x)"], {}, KEYS)


class Column:
    """A fake PySpark Column. Recipes recognise the class by its name, so that they need no Spark."""

    __module__ = "pyspark.sql.column"

    def __init__(self, text):
        self.text = text

    def __repr__(self):
        return f"Column<'{self.text}'>"


def test_pyspark_columns_can_replace_expressions():
    price, wait = Column("price"), Column("wait")
    for made, text in (
        (agg.sum(price), agg.sum("price!")),
        (agg.max_by("id", wait).alias("n"), agg.max_by("id", "wait!").alias("n")),
        (agg.arg_max(price, "a", wait), agg.arg_max("price!", "a", "wait!")),
        (agg.sum("id"), agg.sum("id")),
    ):
        assert made.resolved(lambda one: f"{one.column.text}!") == text
    assert list(map(str, agg.sum(price).inputs)) == ["price"]
    assert agg.sum(price) == agg.sum(price) != agg.sum(Column("price"))


@pytest.mark.parametrize("where", [("pyspark.sql.column", "Window"), ("polars.expr", "Column")])
def test_column_class_of_another_package_is_refused(where):
    module, name = where
    foreign = type(name, (), {"__module__": module})()
    with pytest.raises(InvalidPlanError, match=f"must be a column name, SQL text or a Column, not {name}"):
        agg.sum(foreign)


def test_top_k_compares_its_order_column():
    """The compared inputs must have types with an order."""
    assert agg.top_k("x", 2).compared == ("x",)
    assert agg.top_k("x", 2, by="y").compared == ("y",)


def test_column_texts_are_equal_only_for_the_same_column():
    class OfSpark:
        def __repr__(self):
            return "Column<'x'>"

    column, other = OfSpark(), OfSpark()
    assert ColumnText(column) == ColumnText(column)
    assert not ColumnText(column) != ColumnText(column)  # noqa: SIM202 - the operator itself
    assert ColumnText(column) != ColumnText(other)
    assert ColumnText(column) != "x"
