"""Windows themselves."""

from __future__ import annotations

from panestream.windowing.time import MAX_TIMESTAMP
from panestream.windowing.windows import GlobalWindow


def test_the_end_of_time():
    assert GlobalWindow().max_timestamp() == MAX_TIMESTAMP
