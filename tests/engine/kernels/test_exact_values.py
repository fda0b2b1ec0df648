"""Structs, maps and lists that user functions return: whether a value fits does not depend on the values next to it."""

from __future__ import annotations

import datetime as dt
from collections import deque, namedtuple
from itertools import permutations

import numpy as np
import pyarrow as pa
import pytest

from panestream.engine.kernels.exact_values import shaped
from panestream.engine.kernels.python_values import arrow_column
from panestream.errors import InvalidPlanError

POINT = pa.struct([("x", pa.int64()), ("y", pa.string())])
COUNTS = pa.map_(pa.string(), pa.int64())
TIMES = pa.list_(pa.timestamp("us"))
SPANS = pa.list_(pa.duration("us"))
Pair = namedtuple("Pair", "x y")  # noqa: PYI024
NOON = dt.datetime(2026, 1, 1, 12)
RECORD = np.array([(1, "a")], dtype=[("x", "i8"), ("y", "U3")])[0]


def column(values, type_):
    return arrow_column(values, pa.field("v", type_)).to_pylist()


SHAPES = {
    "struct": (POINT, [{"x": 1, "y": "a"}, (1, "a"), Pair(1, "a"), [("y", "a"), ("x", 1)], RECORD, None]),
    "map": (COUNTS, [{"a": 1}, [("a", 1)], (("a", 1),), [{"value": 1, "key": "a"}], deque([("a", 1)]), None]),
    "list of structs": (
        pa.list_(POINT),
        [[{"x": 1, "y": "a"}], [(1, "a")], np.array([RECORD]), np.array([{"x": 1, "y": "a"}]), None],
    ),
    "struct of structs": (
        pa.struct([("p", POINT)]),
        [{"p": (1, "a")}, {"p": {"x": 1, "y": "a"}}, ((1, "a"),), [("p", RECORD)], None],
    ),
    "map of structs": (pa.map_(pa.string(), POINT), [{"a": (1, "a")}, {"a": {"x": 1, "y": "a"}}, [("a", RECORD)], None]),
    "map by structs": (pa.map_(POINT, pa.int64()), [{(1, "a"): 1}, [({"x": 1, "y": "a"}, 1)], None]),
}


@pytest.mark.parametrize("kind", SHAPES)
def test_value_is_the_same_alone_and_next_to_values_of_other_shapes(kind):
    type_, values = SHAPES[kind]
    alone = [column([value], type_)[0] for value in values]
    assert alone == [alone[0]] * (len(values) - 1) + [None]
    for chosen_values in permutations(values, 3):
        assert column(chosen_values, type_) == [None if value is None else alone[0] for value in chosen_values]


def test_values_of_one_shape_are_not_copied():
    dicts = [{"x": 1, "y": "a"}, None]
    assert shaped(dicts, POINT) is dicts
    tuples = [(1, "a"), (2, "b")]
    assert shaped(tuples, POINT) is tuples


@pytest.mark.parametrize(
    ("type_", "value", "reason"),
    [
        (POINT, np.array([]), "needs a dict"),
        (POINT, np.array([], dtype=object), "needs a dict"),
        (POINT, np.array([1, 2]), "needs a dict"),
        (POINT, np.void(b"ab"), "needs a dict"),
        (POINT, range(0), "needs a dict"),
        (POINT, set(), "needs a dict"),
        (POINT, ["ab"], "needs a dict"),
        (POINT, [None], "needs a dict"),
        (POINT, (1,), "needs a value for each field"),
        (POINT, (), "needs a value for each field"),
        (POINT, [("x", 1), ("x", 2)], "would drop all but one of the values of a field"),
        (POINT, np.array([(1, 2)], dtype=[("x", "i8"), ("z", "i8")])[0], "would drop its field 'z'"),
        (COUNTS, [("a", 1), None], "needs pairs of key and value"),
        (COUNTS, ["ab"], "needs pairs of key and value"),
        (COUNTS, [("a", 1, 2)], "needs pairs of key and value"),
        (COUNTS, [{"k": "a", "v": 1}], "needs pairs of key and value"),
        (pa.list_(COUNTS), [{"a": 1}, [None]], "needs pairs of key and value"),
        (pa.map_(pa.string(), POINT), {"a": ()}, "needs a value for each field"),
        (TIMES, np.array([1], "M8[ns]"), "would cut its nanoseconds off"),
        (SPANS, np.array([1], "m8[ns]"), "would cut its nanoseconds off"),
        (pa.struct([("t", TIMES)]), {"t": np.array([1], "M8[ns]")}, "would cut its nanoseconds off"),
    ],
)
def test_error_about_a_wrong_shape_names_column_value_and_place(type_, value, reason):
    message = rf"^the value .* does not fit the column 'v' of type .*, which {reason}.* \(place 1\): "
    with pytest.raises(InvalidPlanError, match=message):
        arrow_column([None, value], pa.field("v", type_), lambda at: f" (place {at})")


@pytest.mark.parametrize("unit", ["D", "s", "ms", "us", "ns"])
def test_times_of_an_array_keep_their_unit(unit):
    """Arrow would read the numbers of an array inside a list as microseconds, whatever their unit."""
    midnight = dt.datetime(2026, 1, 1)
    assert column([np.array([midnight, None], f"M8[{unit}]")], TIMES) == [[midnight, None]]
    if unit != "D":
        assert column([np.array([3_600 * 10**9], "m8[ns]").astype(f"m8[{unit}]")], SPANS) == [[dt.timedelta(hours=1)]]


def test_masked_values_of_an_array_are_null():
    assert column([np.ma.array([1.0, 2.0], mask=[0, 1])], pa.list_(pa.float64())) == [[1.0, None]]
    assert column([np.ma.array([1, 2], mask=[1, 0])], pa.list_(pa.int64())) == [[None, 2]]
    assert column([{"t": np.ma.array([NOON, NOON], "M8[s]", mask=[0, 1])}], pa.struct([("t", TIMES)])) == [{"t": [NOON, None]}]
    with pytest.raises(InvalidPlanError, match="does not fit the column 'v'"):
        column([np.ma.masked], pa.int64())
