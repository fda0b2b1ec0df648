"""A query that is run to its end into memory: what the tests of savepoints compare."""

from __future__ import annotations

import panestream as pst


def texts(rows):
    """Rows as they can be compared, in an order."""
    return sorted(map(str, rows))


def ran(result, checkpoint, **how):
    """The rows that a run gave, and the query, which has ended."""
    sink = pst.MemorySink()
    running = result.start(main=sink, checkpoint=str(checkpoint), **how)
    running.await_termination()
    return texts(sink.rows), running


def fired(result, checkpoint, **how):
    """The rows that a run gave."""
    return ran(result, checkpoint, **how)[0]
