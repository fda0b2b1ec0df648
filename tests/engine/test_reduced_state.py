"""Parts of the summary of a state, on hand-made columns."""

from types import SimpleNamespace

import pyarrow as pa
import pytest

from panestream.engine.inspection.reduce import _equal, label_places


@pytest.mark.parametrize(
    ("wanted", "found"),
    [(1.0, [True, False, False]), (float("nan"), [False, True, False]), (None, [False, False, True])],
)
def test_rows_of_a_key_are_found_also_if_it_is_null_or_nan(wanted, found):
    column = pa.chunked_array([pa.array([1.0, float("nan"), None], pa.float64(), from_pandas=False)])
    assert _equal(column, pa.array([wanted], pa.float64(), from_pandas=False)).to_pylist() == found


def test_window_without_a_label_has_no_place_among_the_labels():
    assert label_places(SimpleNamespace(labels=("a", "b")), pa.chunked_array([["b", None, "a"]])).tolist() == [1, -1, 0]
