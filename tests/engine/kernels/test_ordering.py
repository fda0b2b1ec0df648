"""Order codes of columns: numbers that sort like the values, also for columns of nulls."""

import numpy as np
import pyarrow as pa
import pytest

from panestream.engine.kernels.ordering import order_codes, stable_order


@pytest.mark.parametrize("type_", [pa.string(), pa.large_string(), pa.binary()], ids=str)
@pytest.mark.parametrize("rows", [0, 3])
def test_column_of_nulls_has_order_codes(type_, rows):
    codes = order_codes(pa.array([None] * rows, type_))
    assert len(codes.codes) == rows
    assert codes.ranked is not None
    assert len(codes.ranked) == 0
    assert rows == 0 or not codes.valid.any()


def test_order_codes_of_texts_sort_like_the_texts():
    codes = order_codes(pa.array(["pear", None, "apple", "quince", "apple"]))
    assert codes.ranked.to_pylist() == ["apple", "pear", "quince"]
    assert codes.codes[[0, 2, 3, 4]].tolist() == [1, 0, 2, 0]
    assert codes.valid.tolist() == [True, False, True, True, True]


@pytest.mark.parametrize(
    "bits", [[40, 40], [63, 1], [1, 63], [30, 30, 30], [20, 20, 20, 20], [63, 63], [0, 40, 0, 40], [10, 63, 10]]
)
@pytest.mark.parametrize("rows", [1, 2, 100])
def test_stable_order_uses_all_columns_however_many_bits_they_need(bits, rows):
    rng = np.random.default_rng(sum(bits))
    # Each column has few distinct values, the smallest and largest among them, so that all columns decide the order.
    columns = [
        rng.choice(np.array([-(1 << bits_ - 1), 0, (1 << bits_ - 1) - 1] if bits_ else [7], np.int64), rows) for bits_ in bits
    ]
    assert stable_order(*columns).tolist() == np.lexsort((np.arange(rows), *columns[::-1])).tolist()
