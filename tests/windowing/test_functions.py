"""Functions over windows: plain functions become objects, and results are checked."""

from __future__ import annotations

import pyarrow as pa
import pytest

from panestream.engine.kernels.python_values import RowType
from panestream.errors import InvalidPlanError
from panestream.windowing.functions import (
    AggregateFunction,
    ProcessWindowFunction,
    WindowFunction,
    applied,
    following,
    no_state,
    processed,
    results_of,
)


class Applied(WindowFunction):
    def apply(self, key, window, inputs):
        return [key, window, *inputs]


class Processed(ProcessWindowFunction):
    def process(self, key, context, elements):
        return [key, context, *elements]


def plain(key, where, rows):
    return [key, where, *rows]


def test_plain_functions_can_replace_function_objects():
    one, other = applied(plain), processed(plain)
    assert one.apply("k", "w", [1]) == other.process("k", "w", [1]) == ["k", "w", 1]
    assert repr(one) == repr(other) == repr(plain)
    mine, theirs = Applied(), Processed()
    assert applied(mine) is mine
    assert processed(theirs) is theirs


def test_then_functions_may_be_plain_functions_or_objects():
    mine, theirs = Applied(), Processed()
    assert following(None) is None
    assert following(mine) is mine
    assert following(theirs) is theirs
    assert following(plain).process("k", "c", [1]) == ["k", "c", 1]
    with pytest.raises(InvalidPlanError, match="then"):
        following(3)


@pytest.mark.parametrize(("returned", "results"), [(None, []), ([1, 2], [1, 2]), ((), []), (iter([3]), [3])])
def test_functions_may_return_any_iterable_of_results(returned, results):
    found = results_of(plain, returned)
    assert found is not None
    assert list(found) == results


@pytest.mark.parametrize("returned", ["text", b"bytes", {"a": 1}, 3, 0.5])
def test_result_that_is_not_a_list_is_refused(returned):
    with pytest.raises(InvalidPlanError, match=r"returned .*: return a list of results, or yield them"):
        results_of(plain, returned)


@pytest.mark.parametrize("table", [pa.table({"x": [1]}), pa.record_batch({"x": [1]})], ids=["table", "batch"])
def test_returned_table_is_refused_with_the_methods_that_take_tables(table):
    with pytest.raises(
        InvalidPlanError, match=rf"returned a {type(table).__name__}: return a list of rows, or .*apply_in_pandas"
    ):
        results_of(plain, table)


def test_returned_frame_is_refused_with_the_methods_that_take_frames():
    pd = pytest.importorskip("pandas")
    with pytest.raises(InvalidPlanError, match=r"returned a DataFrame: return a list of rows, or .*apply_in_pandas"):
        results_of(plain, pd.DataFrame({"x": [1]}))


def test_returned_single_row_is_refused():
    row = RowType(pa.schema([("x", pa.int64())])).make((1,))
    with pytest.raises(InvalidPlanError, match=r"returned the row Row\(x=1\): return a list of rows, \[row\]"):
        results_of(plain, row)


def test_errors_name_the_missing_state_or_method():
    assert "context.state, but stateless=True" in str(no_state("state"))

    class Sums(AggregateFunction):
        def create_accumulator(self):
            return 0

        def add(self, value, accumulator):
            return accumulator + value

        def get_result(self, accumulator):
            return accumulator

    with pytest.raises(NotImplementedError, match=r"Sums is used on session windows: it needs merge\(a, b\)"):
        Sums().merge(1, 2)
