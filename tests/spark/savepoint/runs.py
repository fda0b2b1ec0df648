"""Run a query to its end into memory, for comparisons in tests of savepoints."""

from __future__ import annotations

import panestream as pst


def texts(rows):
    """Return rows as sorted texts."""
    return sorted(map(str, rows))


def ran(result, checkpoint, **how):
    """Run a query to its end. Return its rows and the query."""
    sink = pst.MemorySink()
    running = result.start(main=sink, checkpoint=str(checkpoint), **how)
    running.await_termination()
    return texts(sink.rows), running


def fired(result, checkpoint, **how):
    """Run a query to its end. Return its rows."""
    return ran(result, checkpoint, **how)[0]
