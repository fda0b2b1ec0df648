"""Times as text for machines: ISO 8601 in UTC."""

from __future__ import annotations

import numpy as np

from panestream.windowing.time import MAX_TIMESTAMP, MIN_TIMESTAMP


def iso(micros: int | None) -> str | None:
    """A time as ISO 8601 in UTC; None: there is none, or it is the beginning or the end of all time.

    >>> iso(1_511_658_000_000_000), iso(1_500_000), iso(None)
    ('2017-11-26T01:00:00Z', '1970-01-01T00:00:01.500000Z', None)
    """
    if micros is None or not MIN_TIMESTAMP < micros < MAX_TIMESTAMP:
        return None
    # Not datetime, which ends with the year 9999.
    text = str(np.datetime64(micros, "us"))
    return f"{text.removesuffix('.000000')}Z"


def micros_in(text: str) -> int:
    """A time that :func:`iso` wrote.

    >>> micros_in("1970-01-01T00:00:01.500000Z")
    1500000
    """
    return int(np.datetime64(text.removesuffix("Z"), "us").astype(np.int64))


__all__ = ["iso", "micros_in"]
