"""What states have in common that can be looked at: a summary, answers to why, and how they show themselves in a notebook."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from panestream.engine.explain import Shown
from panestream.engine.plan import WindowPlan
from panestream.errors import CheckpointError
from panestream.inspection.asked import Asked, asked_of, keys_of
from panestream.inspection.page import notebook_of
from panestream.inspection.summary import Summary
from panestream.spark.savepoint.known_state import known_of
from panestream.tracing.events import Trace
from panestream.tracing.of_state import KnownState, check_key, follows_rows, trace_of_state
from panestream.tracing.why import ANY, Explanation, TraceableByKey
from panestream.tracing.why_state import explain_state
from panestream.windowing.assigners import MergingWindowAssigner
from panestream.windowing.instants import Instant, instant
from panestream.windowing.windows import TimeWindow, Window

MOST_LISTED = 1_000
"""So many windows, and kept rows, come to the driver, if nothing else is said."""


class ShownState(Shown, TraceableByKey):
    """A state that can be looked at: of a checkpoint, or of a savepoint."""

    @property
    @abstractmethod
    def plan(self) -> WindowPlan:
        """The query's."""

    @abstractmethod
    def _summary(self, asked: Asked) -> Summary:
        """The summary of a part of it."""

    def summary(self, keys: Sequence[str] = (), windows: Sequence[str] = (), *, most: int = 10) -> Summary:
        r"""What the state holds, in few numbers: what ``panestream inspect`` shows.

        Spark reads and decodes each key group once; what comes to the driver does not grow with the state.

        Args:
            keys: only of this key: ``column=value`` for some of the key columns, the value alone where there is one; ``\N`` is
                null.
            windows: only windows that hold this time (ISO 8601; without a zone: UTC), or of the kind with this label.
            most: how many of each list: the oldest windows, the largest keys and so on.

        Returns:
            Plain data; in a notebook it shows itself with pictures.

        Raises:
            CheckpointError: there is no such key column or kind of windows, or a value is not of the column's type.
        """
        return self._summary(asked_of(self.plan, keys, windows, most))

    def why(
        self,
        *,
        key: Any = ANY,
        at: Instant | None = None,
        window: Window | tuple[int, int] | Instant | None = None,
        most: int = MOST_LISTED,
    ) -> Explanation:
        """What the state still knows of rows with an event time, or of windows: what ``pst.tools.why`` asks of it.

        Of a time: which windows have it, whether they are open, what they hold, when they are due, whether a row with it is late
        by now and which lateness would have kept it. Of a window: the same. What a state cannot know, it says.

        Args:
            key: only of this key: a value, or a tuple of one for each key column.
            at: the rows' event time.
            window: the window, ``(start, end)``, or the time at which it starts (if none starts there, a time that it holds).
            most: how many windows, and kept rows, are looked at.

        Raises:
            CheckpointError: the key is not of the key columns.
            InvalidPlanError: not one of ``at`` and ``window`` was given; sessions were asked about without a key.
            InvalidDurationError: a time that is none.
        """
        return explain_state(self.known(self._keys(key), at=at, window=window, most=most, key=key), key=key, at=at, window=window)

    def trace(self, *, key: Any = ANY, most: int = MOST_LISTED) -> Trace:
        """Open windows, kept rows and how far time is, as ``pst.tools.timeline`` draws them.

        Args:
            key: only of this key: a value, or a tuple of one for each key column.
            most: so many windows, and kept rows; where there are more it is refused.

        Raises:
            CheckpointError: there are more; the key is not of the key columns.
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
        """What the state holds of what is asked for, at most so much of it.

        Args:
            keys: as :attr:`Asked.keys <panestream.inspection.asked.Asked>` has them.
            at: as of :meth:`why`, as all that follow.
            window: the window.
            most: how many windows, and kept rows.
            key: what they are called that have the key; else it is as JSON has it.
        """
        if at is not None:
            check_key(self.plan, given=bool(keys))
        wanted = self._instant_in(at, window)
        asked = Asked(keys, instants=() if wanted is None else (wanted,), most=most, lists=True)
        return known_of(self.plan, self._summary(asked), self._where(), key)

    def _where(self) -> str:
        """What it is the state of, for people."""
        (kind, path), batch = next(iter(self._parts().items())), self._parts()["micro-batch"]
        return f"the {kind} {path}" + (f" after micro-batch {batch}" if batch else "")

    def _keys(self, key: Any) -> Mapping[int, pa.Array]:
        return {} if key is ANY else keys_of(self.plan, key)

    def _instant_in(self, at: Instant | None, window: Window | tuple[int, int] | Instant | None) -> int | None:
        """A time that all windows hold that matter; None: any may."""
        if follows_rows(self.plan) or (not self.plan.assigner.is_event_time and at is not None):
            return None
        if at is not None:
            # A row may join sessions that do not hold its time.
            return None if isinstance(self.plan.assigner, MergingWindowAssigner) else instant(at, "the row's event time")
        if isinstance(window, TimeWindow):
            return window.start
        if window is None or isinstance(window, Window):
            return None
        return window[0] if isinstance(window, tuple) else instant(window, "the window's start")

    def _repr_html_(self) -> str:
        """For notebooks: the summary, which Spark is asked for here; a mere ``repr`` asks nothing."""
        return notebook_of(self._summary(Asked()))


__all__ = ["ShownState"]
