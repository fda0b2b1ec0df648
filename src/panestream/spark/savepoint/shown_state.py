"""The common interface of saved states: a summary, explanations, and their display in a notebook."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from panestream.engine.explain import ReprHtml
from panestream.engine.plan import WindowPlan
from panestream.errors import CheckpointError
from panestream.inspection.asked import StateFilter, asked_of, keys_of
from panestream.inspection.page import notebook_of
from panestream.inspection.summary import Summary
from panestream.spark.savepoint.known_state import known_of
from panestream.tracing.events import Trace
from panestream.tracing.of_state import KnownState, check_key, follows_rows, trace_of_state
from panestream.tracing.why import ANY, Answer, TraceableByKey
from panestream.tracing.why_state import explain_state
from panestream.windowing.assigners import MergingWindowAssigner
from panestream.windowing.time import Instant, instant
from panestream.windowing.windows import TimeWindow, Window

MOST_LISTED = 1_000
"""The default maximum of windows, and of kept rows, that come to the driver."""


class ShownState(ReprHtml, TraceableByKey):
    """The state in a checkpoint or a savepoint."""

    @property
    @abstractmethod
    def plan(self) -> WindowPlan:
        """The query's plan."""

    @abstractmethod
    def _summary(self, asked: StateFilter) -> Summary:
        """Return the summary of a part of the state."""

    def summary(self, keys: Sequence[str] = (), windows: Sequence[str] = (), *, most: int = 10) -> Summary:
        r"""Return the numbers that ``panestream inspect`` shows.

        Spark reads and decodes each key group once. The data that comes to the driver does not grow with the state.

        Args:
            keys: restricts to a key: ``column=value`` for some key columns, or just the value of a single column; ``\N`` is null.
            windows: only windows that contain this time (ISO 8601, UTC without a zone), or windows of the kind with this label.
            most: the maximum length of each list, such as the oldest windows or the largest keys.

        Returns:
            Plain data, shown with pictures in a notebook.

        Raises:
            CheckpointError: an unknown key column or kind of windows, or a value that does not have the column's type.
        """
        return self._summary(asked_of(self.plan, keys, windows, most))

    def why(
        self,
        *,
        key: Any = ANY,
        at: Instant | None = None,
        window: Window | tuple[int, int] | Instant | None = None,
        most: int = MOST_LISTED,
    ) -> Answer:
        """Explain rows with an event time, or windows, from the state; ``pst.tools.why`` calls this.

        The explanation of a time has its windows, whether they are open, their content and due time. It says whether a row with
        this time is late now, and which lateness would have kept it. A window is explained in the same way. Facts that the state
        does not contain are reported as unknown.

        Args:
            key: restricts to a key, as a value or a tuple with a value for each key column.
            at: the rows' event time.
            window: the window, ``(start, end)``, or its start time. If no window starts then, windows that contain the time.
            most: the maximum number of windows, and of kept rows, to read.

        Returns:
            The explanation.

        Raises:
            CheckpointError: the key does not fit the key columns.
            InvalidPlanError: not exactly one of ``at`` and ``window`` is given, or sessions are explained without a key.
            InvalidDurationError: a time is invalid.
        """
        return explain_state(self.known(self._keys(key), at=at, window=window, most=most, key=key), key=key, at=at, window=window)

    def trace(self, *, key: Any = ANY, most: int = MOST_LISTED) -> Trace:
        """Return open windows, kept rows and watermarks for ``pst.tools.timeline``.

        Args:
            key: restricts to a key, as a value or a tuple with a value for each key column.
            most: the maximum number of windows, and of kept rows.

        Raises:
            CheckpointError: the state has more, or the key does not fit the key columns.
        """
        known = self.known(self._keys(key), most=most, key=key)
        if known.window_count > most or known.row_count > most:
            of_key = "" if key is ANY else f" of the key {key!r}"
            raise CheckpointError(
                f"the state has {known.window_count:,} open windows and {known.row_count:,} kept rows{of_key}, and at most "
                f"{most:,} of each are drawn: ask for one key (key=), or raise most= of .trace(). .summary() counts them all"
            )
        return trace_of_state(known)

    def known(
        self,
        keys: Mapping[int, pa.Array],
        *,
        at: Instant | None = None,
        window: Window | tuple[int, int] | Instant | None = None,
        most: int = MOST_LISTED,
        key: Any = ANY,
    ) -> KnownState:
        """Return a requested part of the state, with at most ``most`` windows and as many kept rows.

        ``keys`` are as in :attr:`StateFilter.keys <panestream.inspection.asked.StateFilter>`. The rows show ``key``, or by
        default their key as in JSON. See :meth:`why` for the other arguments.
        """
        if at is not None:
            check_key(self.plan, given=bool(keys))
        wanted = self._instant_in(at, window)
        asked = StateFilter(keys, instants=() if wanted is None else (wanted,), most=most, lists=True)
        return known_of(self.plan, self._summary(asked), self._where(), key)

    def _where(self) -> str:
        """Describe the source of the state for people."""
        (kind, path), batch = next(iter(self._parts().items())), self._parts()["micro-batch"]
        return f"the {kind} {path}" + (f" after micro-batch {batch}" if batch else "")

    def _keys(self, key: Any) -> Mapping[int, pa.Array]:
        return {} if key is ANY else keys_of(self.plan, key)

    def _instant_in(self, at: Instant | None, window: Window | tuple[int, int] | Instant | None) -> int | None:
        """Return a time that all relevant windows contain, or None if any window may be relevant."""
        if follows_rows(self.plan) or (not self.plan.assigner.is_event_time and at is not None):
            return None
        if at is not None:
            # A row may join sessions that do not contain its time.
            return None if isinstance(self.plan.assigner, MergingWindowAssigner) else instant(at, "the row's event time")
        if isinstance(window, TimeWindow):
            return window.start
        if window is None or isinstance(window, Window):
            return None
        return window[0] if isinstance(window, tuple) else instant(window, "the window's start")

    def _repr_html_(self) -> str:
        """Return the summary for notebooks, which runs a Spark job; a plain ``repr`` does not."""
        return notebook_of(self._summary(StateFilter()))


__all__ = ["ShownState"]
