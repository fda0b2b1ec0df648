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
    """Show a running query below a notebook cell until it ends, with rows/s, watermark lag, late rows, open windows and firings.

    The view reads the query's own progress, so it also works through Spark Connect and adds no load to the query. It ends with
    the query, and the cell fails if the query fails. Interrupting the cell ends only the view. Outside of a notebook, each change
    is printed as a line.

    Args:
        query: the query that ``start`` returned.
        every: seconds between updates.
        seconds: maximum duration of the view, or None to watch until the query ends.

    Raises:
        InvalidPlanError: if ``query`` is not a running query, or ``every`` is not positive.
        PanestreamError: the error of the query, as raised by :meth:`RunningQuery.await_termination`.
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
    """Return the display below the cell, or a printer of lines outside of a notebook."""
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
        print(view, flush=True)  # noqa: T201 - printing is its purpose


__all__ = ["live"]
