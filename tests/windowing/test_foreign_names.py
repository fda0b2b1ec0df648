"""Names from PySpark and Flink on objects, classes and namespaces are aliases, or raise an error with the right name. Without Spark."""

from __future__ import annotations

import copy
import pickle
from typing import Protocol

import pytest
from pyspark import cloudpickle

import panestream as pst
from panestream import agg
from panestream.errors import InvalidPlanError, UnknownNameError
from panestream.windowing.foreign_names import _NEXT, _TABLES, Same, WithForeignNames, advised


class Page(WithForeignNames):
    def __init__(self):
        self.row_count = 3

    @property
    def broken(self):
        return None.nothing


def test_camel_case_spelling_of_an_own_name_works():
    assert Page().rowCount == 3
    assert agg.countDistinct is agg.count_distinct
    assert pst.WatermarkStrategy.forMonotonousTimestamps() == pst.WatermarkStrategy.for_monotonous_timestamps()


def test_unknown_name_is_an_attribute_error_and_suggests_the_nearest_name():
    with pytest.raises(UnknownNameError, match=r"^'Page' object has no attribute 'row_cuont': did you mean 'row_count'\?$"):
        Page().row_cuont  # noqa: B018
    assert issubclass(UnknownNameError, (AttributeError, InvalidPlanError))
    assert not hasattr(Page(), "zebra")
    assert getattr(Page(), "zebra", 7) == 7


@pytest.mark.parametrize("name", ["_repr_png_", "_ipython_canary_method_should_not_exist_", "__array__"])
def test_names_with_underscore_are_plain_attribute_errors(name):
    for owner in (Page(), pst.WatermarkStrategy, pst, agg):
        with pytest.raises(AttributeError) as error:
            getattr(owner, name)
        assert type(error.value) is AttributeError


def test_attribute_error_inside_a_property_is_not_replaced():
    with pytest.raises(AttributeError, match="'NoneType' object has no attribute 'nothing'"):
        Page().broken  # noqa: B018


def test_object_survives_copy_and_pickle_and_dir_shows_no_foreign_name():
    for made in (copy.copy(Page()), copy.deepcopy(Page()), pickle.loads(pickle.dumps(Page()))):
        assert made.row_count == 3
    assert "rowCount" not in dir(Page())


def test_user_classes_with_the_metaclass_travel_to_workers():
    class Mine(pst.EventTimeSessionWindows):
        pass

    made = pickle.loads(cloudpickle.dumps(Mine))
    assert (made.__name__, made.withGap("1 second").gap) == ("Mine", 1_000_000)


@pytest.mark.parametrize("base", [pst.triggers.Trigger, pst.windows.WindowAssigner, pst.evictors.Evictor])
def test_user_classes_may_have_another_metaclass(base):
    class Named(Protocol):
        name: str

    class Mine(base, Named):
        pass

    assert issubclass(Mine, base)


@pytest.mark.parametrize(
    ("owner", "name", "said"),
    [
        (agg, "percentile_cont", r"write agg\.percentile\('price', 0\.5\), or agg\.percentiles\('price'"),
        (agg, "kll_sketch_agg_double", r"differ from run to run, .* agg\.approx_quantiles\('price', \[0\.5, 0\.9\]\)"),
        (agg, "theta_sketch_agg", r"write agg\.theta_sketch\('page'\)"),
        (agg, "percentile_approx", "agg.approx_quantile"),
        (agg, "sum_distinct", r"agg\.collect_set\('price'\)"),
        (agg, "summ", "did you mean 'sum'"),
        (pst, "DeltaSink", r"write pst\.TableSink\('clicks', format='delta'\)"),
        (pst, "JsonSink", r"write pst\.FileSink\('out/main', 'json'\)"),
        (pst, "window", r"write pst\.tumbling\('1 hour'\)"),
        (pst, "TumblingWindows", "or 'TumblingEventTimeWindows'"),
        (pst, "sum", r"write pst\.agg\.sum\('price'\)"),
        (pst.EventTimeSessionWindows, "of", r"write EventTimeSessionWindows\.with_gap\('30 minutes'\)"),
        (pst.WatermarkStrategy, "of", r"write WatermarkStrategy\.for_bounded_out_of_orderness\('5 minutes'\)"),
    ],
)
def test_foreign_name_raises_an_error_with_the_right_line(owner, name, said):
    with pytest.raises(UnknownNameError, match=said):
        getattr(owner, name)


@pytest.mark.parametrize("name", [name for name, text in _TABLES["agg"].items() if isinstance(text, Same)])
def test_spark_name_of_an_aggregate_is_an_alias(name):
    assert getattr(agg, name) is getattr(agg, _TABLES["agg"][name])


@pytest.mark.parametrize("kind", sorted({*_TABLES, *_NEXT} - {"agg", "panestream"}))
def test_tables_of_foreign_names_hide_no_public_name(kind):
    owner = public(kind)
    assert not [name for name in _TABLES.get(kind, {}) if name in dir(owner)]
    assert not [
        text for text in _TABLES.get(kind, {}).values() if isinstance(text, Same) and text.split(".")[0] not in names(owner)
    ]


def public(name):
    return getattr(pst if name in pst.__all__ else pst.datastream, name)


def names(owner):
    return {*dir(owner), *getattr(owner, "__dataclass_fields__", ())}


@pytest.mark.parametrize("kind", ["IntervalJoin", "IntervalPairs", "RunningQuery"])
def test_earlier_steps_are_not_attributes_of_an_object(kind):
    owner = object.__new__(public(kind))
    assert not any(hasattr(owner, name) for name in ("start", "keyBy", "interval_join", "zebra"))


def test_unexpected_argument_raises_an_error_with_the_right_line():
    @advised(lambda given: f"write double({given})")
    def double(number):
        """Twice as much."""
        return 2 * number

    assert (double(2), double.__doc__) == (4, "Twice as much.")
    with pytest.raises(
        InvalidPlanError, match=r"double: got an unexpected keyword argument 'times'; write double\({'times': 3}\)"
    ):
        double(2, times=3)
    with pytest.raises(InvalidPlanError, match="double: missing a required argument: 'number'"):
        double()


def test_type_error_inside_a_method_is_not_replaced():
    @advised(lambda _: "write something else")
    def broken():
        return len(3)

    with pytest.raises(TypeError, match=r"object of type 'int' has no len\(\)"):
        broken()
