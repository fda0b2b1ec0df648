"""Order codes of columns: numbers in the order of the values, also where there is no value at all."""

import numpy as np
import pyarrow as pa
import pytest

from panestream.engine.kernels.ordering import order_codes, stable_order


@pytest.mark.parametrize("type_", [pa.string(), pa.large_string(), pa.binary()], ids=str)
@pytest.mark.parametrize("rows", [0, 3])
def test_texts_that_are_all_null_have_codes_too(type_, rows):
    found = order_codes(pa.array([None] * rows, type_))
    assert len(found.codes) == rows
    assert found.ranked is not None
    assert len(found.ranked) == 0
    assert rows == 0 or not found.valid.any()


def test_texts_are_coded_in_their_order():
    found = order_codes(pa.array(["pear", None, "apple", "quince", "apple"]))
    assert found.ranked.to_pylist() == ["apple", "pear", "quince"]
    assert found.codes[[0, 2, 3, 4]].tolist() == [1, 0, 2, 0]
    assert found.valid.tolist() == [True, False, True, True, True]


@pytest.mark.parametrize(
    "bits", [[40, 40], [63, 1], [1, 63], [30, 30, 30], [20, 20, 20, 20], [63, 63], [0, 40, 0, 40], [10, 63, 10]]
)
@pytest.mark.parametrize("rows", [1, 2, 100])
def test_rows_are_ordered_by_all_columns_however_wide_these_are_together(bits, rows):
    rng = np.random.default_rng(sum(bits))
    # Few values of each column, so that all columns count; the largest and smallest are among them.
    columns = [
        rng.choice(np.array([-(1 << bits_ - 1), 0, (1 << bits_ - 1) - 1] if bits_ else [7], np.int64), rows) for bits_ in bits
    ]
    assert stable_order(*columns).tolist() == np.lexsort((np.arange(rows), *columns[::-1])).tolist()
