"""The words that a checkpoint of functions over rows stores. If they changed, old checkpoints could not be read."""

from __future__ import annotations

import pytest

from panestream.engine.operators.accumulating.windowed_rows import AllWindows, PerWindow, PerWindowWithContext, TablePerWindow


@pytest.mark.parametrize(
    ("function", "described"),
    [
        (PerWindow(None), "a call for each key and window, with a list of rows"),
        (TablePerWindow(None), "a call for each key and window, with an Arrow table"),
        (TablePerWindow(None, "pandas"), "a call for each key and window, with a pandas frame"),
        (AllWindows(None), "one call for all windows that fire in a key group, with an Arrow table"),
        (
            PerWindowWithContext(None),
            "a call for each key and window, with a context and a list of rows, without state (stateless=True)",
        ),
    ],
)
def test_stored_description_of_a_row_function_does_not_change(function, described):
    assert function.described == described
