"""The state in a checkpoint as DataFrames, and what it has in common with savepoints: a summary and explanations."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from panestream.engine.explain import ReprHtml, listed
from panestream.engine.inspection.filters import key_arrays, parse_filter
from panestream.engine.inspection.reduce import StateFilter
from panestream.engine.inspection.summary import Json, Summary
from panestream.engine.kernels.python_values import RowType
from panestream.engine.plan import WindowPlan, stable_repr
from panestream.engine.savepoint.operators import default_name
from panestream.errors import CheckpointError
from panestream.spark.batch_output import merge_split_timers, merge_split_windows
from panestream.spark.savepoint.decode import StoredState, summary_of_stored
from panestream.tracing.events import Trace
from panestream.tracing.of_state import KnownRow, KnownState, KnownWindow, check_key, follows_rows, trace_of_state
from panestream.tracing.why import ANY, Answer, TraceableByKey
from panestream.tracing.why_state import explain_state
from panestream.windowing.assigners import MergingWindowAssigner
from panestream.windowing.time import MIN_TIMESTAMP, Instant, instant, micros_in
from panestream.windowing.windows import GlobalWindow, TimeWindow, Window

_ISO = re.compile(r"\d{4,}-\d\d-\d\dT[\d:.]+Z?$")


def lookup(plan: WindowPlan, summary: Summary, where: str, key: Any = ANY) -> KnownState:
    """Return the known part of the state in a summary with lists.

    ``where`` describes the state for people. ``key`` is the requested key as the user gave it; without it keys are as in JSON.
    """
    given: Mapping[str, Sequence[Mapping[str, Json]]] = summary.listed or {"windows": (), "elements": ()}
    of_key = plan.watermark.of_keys is not None and key is not ANY
    slowest = (
        next((source for source in summary.sources if source.name and not source.idle), None)
        if summary.source_count > 1 and not of_key
        else None
    )
    return KnownState(
        plan=plan,
        where=where,
        windows=tuple(_window(row, key) for row in given["windows"]),
        rows=tuple(_row(plan, row, key) for row in sorted(given["elements"], key=lambda row: row["place"] or 0)),
        window_count=summary.windows,
        row_count=summary.elements,
        watermark=MIN_TIMESTAMP if summary.watermark is None else summary.watermark,
        clock=summary.clock,
        closed=MIN_TIMESTAMP if summary.closed is None else summary.closed,
        slowest=None if slowest is None else (slowest.name, slowest.watermark),
        late_dropped=summary.late_dropped,
        of_key=of_key,
    )


def _window(row: Mapping[str, Json], key: Any) -> KnownWindow:
    return KnownWindow(
        key=_key(row, key),
        window=_bounds(row["window_start"], row["window_end"]),
        label=row["window"],
        rows=row["rows"],
        results=row["results"],
        contents=row["contents"],
        firings=row["firings"],
        last_firing=row["last_firing"],
        due=_time(row["due"]),
        closes=_time(row["closes"]),
    )


def _row(plan: WindowPlan, row: Mapping[str, Json], key: Any) -> KnownRow:
    windows = tuple(_bounds(each["start"], each["end"]) for each in row["windows"] or ())
    time = _time(row["time"])
    if time is None and isinstance(row.get("element"), Mapping):
        # Stored without its time if no evictor needs it. The row usually has the time in a column.
        told = row["element"].get(plan.event_time)
        time = _time(told) if isinstance(told, str) and _ISO.match(told) else None
    return KnownRow(_key(row, key), time, _element(row), windows)


def _element(row: Mapping[str, Json]) -> Any:
    element = row.get("element")
    if not isinstance(element, Mapping):
        return row.get("value") if element is None else element
    return RowType(pa.schema([(name, pa.string()) for name in element])).make(tuple(element.values()))


def _key(row: Mapping[str, Json], key: Any) -> Any:
    if key is not ANY or "key" not in row:
        return None if key is ANY else key
    values = tuple(row["key"].values())
    return values[0] if len(values) == 1 else values


def _bounds(start: str | None, end: str | None) -> Window:
    if start is None or end is None:
        return GlobalWindow()
    return TimeWindow(micros_in(start), micros_in(end))


def _time(text: str | None) -> int | None:
    return None if text is None else micros_in(text)


MAX_LISTED = 1_000
"""The default maximum of windows, and of kept rows, that come to the driver."""


@dataclass(frozen=True, slots=True, repr=False)
class NotebookSummary(Summary):
    """A summary that a notebook shows as a page."""

    def _repr_html_(self) -> str:
        from panestream.insight.inspect_page import render_notebook

        return render_notebook(self)


class InspectableState(ReprHtml, TraceableByKey):
    """The state in a checkpoint or a savepoint."""

    @property
    @abstractmethod
    def plan(self) -> WindowPlan:
        """The query's plan."""

    @abstractmethod
    def _summary(self, state_filter: StateFilter) -> Summary:
        """Return the summary of a part of the state."""

    def summary(self, keys: Sequence[str] = (), windows: Sequence[str] = (), *, most: int = 10) -> NotebookSummary:
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
        found = self._summary(parse_filter(self.plan, keys, windows, most))
        return NotebookSummary(*attrgetter(*Summary.__dataclass_fields__)(found))

    def why(
        self,
        *,
        key: Any = ANY,
        at: Instant | None = None,
        window: Window | tuple[int, int] | Instant | None = None,
        most: int = MAX_LISTED,
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

    def trace(self, *, key: Any = ANY, most: int = MAX_LISTED) -> Trace:
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
        most: int = MAX_LISTED,
        key: Any = ANY,
    ) -> KnownState:
        """Return a requested part of the state, with at most ``most`` windows and as many kept rows.

        ``keys`` are as in :class:`~panestream.engine.inspection.reduce.StateFilter`. The rows show ``key``, or by default their
        key as in JSON. See :meth:`why` for the other arguments.
        """
        if at is not None or (window is not None and self.plan.watermark.of_keys is not None):
            check_key(self.plan, given=bool(keys))
        wanted = self._instant_in(at, window)
        state_filter = StateFilter(keys, instants=() if wanted is None else (wanted,), most=most, lists=True)
        return lookup(self.plan, self._summary(state_filter), self._where(), key)

    def _where(self) -> str:
        """Describe the source of the state for people."""
        (kind, path), batch = next(iter(self._parts().items())), self._parts()["micro-batch"]
        return f"the {kind} {path}" + (f" after micro-batch {batch}" if batch else "")

    def _keys(self, key: Any) -> Mapping[int, pa.Array]:
        return {} if key is ANY else key_arrays(self.plan, key)

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
        return self.summary()._repr_html_()


@dataclass(frozen=True, repr=False)
class CheckpointState(InspectableState):
    """The state of a query after one micro-batch; see ``pst.state.read_checkpoint``.

    ``stored`` gives state tables and headers.

    >>> state = pst.state.read_checkpoint(spark, checkpoint)
    >>> state.plan.key_names, state.windows.count()
    (('user',), 1)
    """

    stored: StoredState
    operators: tuple[str, ...] = (default_name(1),)
    """The names of the operators of the query that ``start`` knew, the first one first."""

    @property
    def path(self) -> str:
        """The checkpoint."""
        return self.stored.path

    @property
    def batch_id(self) -> int:
        """The micro-batch."""
        return self.stored.batch_id

    @property
    def plan(self) -> WindowPlan:
        """The plan in the checkpoint. User functions are present only by name."""
        return self.stored.plan

    def _parts(self) -> Mapping[str, str]:
        keys = listed(self.plan.key_names) or "none"
        return {
            "checkpoint": self.path,
            "micro-batch": str(self.batch_id),
            "windows": stable_repr(self.plan.assigner),
            "key": keys,
        }

    @cached_property
    def watermarks(self) -> DataFrame:
        """The watermarks: a row for each key group and source partition. All key groups of a micro-batch agree."""
        return self.stored.watermarks()

    @cached_property
    def windows(self) -> DataFrame:
        """The open windows: a row for each key and window that still accepts rows or will fire."""
        shown = self.stored.view("windows")
        return shown if self.plan.split is None else merge_split_windows(shown, self.plan)

    @cached_property
    def elements(self) -> DataFrame:
        """The rows that are kept for functions and evictors."""
        return self.stored.view("elements")

    @cached_property
    def user_state(self) -> DataFrame:
        """The state of users' triggers and functions, by descriptor."""
        return self.stored.view("user_state")

    @cached_property
    def timers(self) -> DataFrame:
        """The due timers for each key and window."""
        shown = self.stored.view("timers")
        return shown if self.plan.split is None else merge_split_timers(shown)

    def _summary(self, state_filter: StateFilter) -> Summary:
        return summary_of_stored(self.stored, state_filter)
