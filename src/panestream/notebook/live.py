"""``pst.tools.live``: a running query in a notebook, as small plots that refresh themselves."""

from __future__ import annotations

import time
from typing import Any, Protocol

from panestream.errors import InvalidPlanError
from panestream.notebook.view import ENDED, LEFT, View
from panestream.spark.query import RunningQuery


class _Shown(Protocol):
    def update(self, view: Any) -> object: ...


def live(query: RunningQuery, *, every: float = 1.0, seconds: float | None = None) -> None:
    """Shows a running query below the cell of a notebook, until it ends: rows/s, watermark lag, late rows, open windows, firings.

    The view reads the query's own progress, so it works through Spark Connect too, costs the query nothing, and needs nothing but
    a notebook. It ends with the query; if that fails, the cell fails with the query's error. If the cell is interrupted the view
    ends and the query runs on. Outside of a notebook a line is printed for each change.

    Args:
        query: what ``start`` gave.
        every: seconds between two looks.
        seconds: look for so long at most; None: until the query ends.

    Raises:
        InvalidPlanError: this is no running query; an interval that is none.
        PanestreamError: what the query failed with, as :meth:`RunningQuery.await_termination` raises it.
    """
    if not isinstance(query, RunningQuery):
        raise InvalidPlanError(f"live wants the query that start() gave, got {type(query).__name__}")
    if not every > 0:
        raise InvalidPlanError(f"every must be a positive number of seconds, got {every!r}")
    view, until = View.of(query), None if seconds is None else time.monotonic() + seconds
    shown = _shown(view)
    try:
        while query.is_active and (until is None or time.monotonic() < until):
            if view.add(query.recent_progress):
                shown.update(view)
            time.sleep(every)
        running = query.is_active
    except KeyboardInterrupt:
        running = True
    if running:
        view.state = LEFT
        shown.update(view)
        return
    try:
        query.await_termination()
        view.state = ENDED
    except Exception as error:
        view.state = f"failed: {str(error).splitlines()[0] if str(error) else type(error).__name__}"
        raise
    finally:
        view.add(query.recent_progress)
        shown.update(view)


def _shown(view: View) -> _Shown:
    """Where the view is shown: below the cell; where there is no notebook, as lines."""
    try:
        from IPython import get_ipython
        from IPython.display import display
    except ModuleNotFoundError:
        return _Lines()
    shell = get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        return _Lines()
    handle: _Shown = display(view, display_id=True)  # type: ignore[no-untyped-call]
    return handle


class _Lines:
    def update(self, view: View) -> None:
        print(view, flush=True)  # noqa: T201 - that is what it is for


__all__ = ["live"]
