"""Order codes of columns: numbers in the order of the values, also where there is no value at all."""

import pyarrow as pa
import pytest

from panestream.engine.kernels.ordering import order_codes


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
