"""Sessions over declared aggregates: local sessions before the shuffle, merged with the open ones after it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from panestream.engine.aggregates import Aggregation
from panestream.engine.aggregates.saved_partials import partials_found
from panestream.engine.aggregates.standing import standing
from panestream.engine.kernels.columns import Ints, numbers, valid_of
from panestream.engine.kernels.grouping import encode_keys
from panestream.engine.operators.sessions.exchange import ROWS, ROWS_SCHEMA, SESSIONS, pack_rows, session_schema, session_table
from panestream.engine.operators.sessions.local import SessionSettings, local_sessions, own_ends
from panestream.engine.operators.sessions.operator import ProcessingTimeSessionOperator, SessionOperator
from panestream.engine.plan import FIRINGS, LATE, ON_TIME, Capabilities, Chunk, Operator, OperatorSpec, WindowPlan
from panestream.engine.query import WindowSpec
from panestream.engine.rule import PYTHON, DeclaredAggregates, Supported, Unsupported, WindowRequest
from panestream.engine.runtime.state_views import ViewSchemas, WindowRows, reached_by, share
from panestream.engine.runtime.watermarks import closing_times
from panestream.engine.storage.sealed_state import SealedState
from panestream.engine.storage.state_tables import StateTables, StateViews, integers, key_columns, named_columns, with_types
from panestream.errors import InvalidWindowError
from panestream.windowing.assigners import EventTimeSessionWindows, ProcessingTimeSessionWindows
from panestream.windowing.assigners.session import LONGEST_GAP, GapColumn, LimitedEventTimeSessionWindows
from panestream.windowing.time import MAX_TIMESTAMP, format_duration


@dataclass(frozen=True, slots=True)
class SessionSpec(SessionSettings, OperatorSpec):
    """Event-time or processing-time sessions with the default trigger and declared aggregates."""

    @property
    def name(self) -> str:
        return "sessions"

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            order_sensitive=self.aggregation.follows_arrival,
            uses_processing_time=self.by_processing_time,
            shows_processing_time=self.by_processing_time,
        )

    @property
    def result_schema(self) -> pa.Schema:
        return self.aggregation.output_schema

    @property
    def inputs(self) -> tuple[str, ...]:
        return (*self.aggregation.inputs, *([self.gap.label] if isinstance(self.gap, GapColumn) else []))

    @property
    def changeable(self) -> frozenset[str]:
        return frozenset({"aggregates", "partials"})

    def pack(self, plan: WindowPlan, chunk: Chunk) -> Iterator[tuple[str, pa.Table]]:
        rows = len(chunk.times)
        keys = encode_keys(chunk.keys, rows)
        codes = keys.codes.astype(np.int64)
        values, gaps = chunk.values[: len(self.aggregation.inputs)], self._gaps(chunk)
        # By processing time, all rows of a micro-batch have the same time. Only the key group has it, so it is 0 until then.
        times = np.zeros(rows, np.int64) if self.by_processing_time else chunk.times
        ends = own_ends(times, gaps, self.longest)
        local = local_sessions(self.aggregation, codes, times, ends, values, chunk.times, self.longest)
        bounds = (local.starts, local.ends, local.firsts)
        yield SESSIONS, session_table(self.part_schema(plan, SESSIONS), keys.take(local.codes), bounds, local.partials)
        if not self.by_processing_time:
            whole = chunk.rows if plan.late_tag is not None else None
            yield ROWS, pack_rows(local, chunk.times, ends, values, whole)

    def _gaps(self, chunk: Chunk) -> int | Ints:
        """Return the gap, or the gap of each row; raise InvalidWindowError if one is null or out of range."""
        if not isinstance(self.gap, GapColumn):
            return self.gap
        column = chunk.values[-1]
        gaps: Ints = numbers(column).astype(np.int64, copy=False)
        wrong = (gaps <= 0) | (gaps >= LONGEST_GAP)
        valid = valid_of(column)
        if valid is not None:
            wrong |= ~valid
        if wrong.any():
            first = column[int(np.flatnonzero(wrong)[0])].as_py()
            raise InvalidWindowError(
                f"the session gap {self.gap.expr!r} must be positive (and less than 140,000 years): {int(wrong.sum())} of "
                f"{len(gaps)} rows have none such, the first has {'null' if first is None else format_duration(first)!r}"
            )
        return gaps

    def part_schema(self, plan: WindowPlan, kind: str) -> pa.Schema:
        return session_schema(plan.key_schema, self.aggregation, local=True) if kind == SESSIONS else ROWS_SCHEMA

    def on_sealed(self, plan: WindowPlan, state: SealedState, group: int) -> Operator:
        return (ProcessingTimeSessionOperator if self.by_processing_time else SessionOperator)(plan, self, state)

    def views(self, plan: WindowPlan, saved: StateTables, group: int) -> StateViews:
        return session_views(plan, self, saved, group)

    def identity(self) -> Mapping[str, str]:
        partial = list(self.aggregation.partial_schema)
        return {
            "aggregates": ", ".join(repr(aggregate) for aggregate in self.aggregates),
            "partials": ", ".join(f"{field.name} {field.type}" for field in partial),
        }

    def explain(self, plan: WindowPlan, *, streaming: bool) -> Mapping[str, list[str]]:
        rows = "whole rows, for the late output" if plan.late_tag else "rows"
        return {
            "sessions": [self._described()],
            "aggregates": [f"{aggregate!r}; {aggregate.merge_rule}" for aggregate in self.aggregates],
            "exchange": [
                "local sessions are built before the shuffle: one row for each key and session of a chunk",
                *(f"{what} crosses it all the same" for what in self.aggregation.crossing),
                *(
                    []
                    if self.by_processing_time
                    else [f"{rows} cross the shuffle beside them, packed up; opened where one may be late"]
                ),
            ],
            "state": [
                "open sessions, in pages by hash of the key: a micro-batch reads those of its keys and those that are due"
                if streaming
                else "none: a batch fires every session at the end of input"
            ],
        }

    def _described(self) -> str:
        time = "the clock" if self.by_processing_time else "event time"
        gap = f"a gap for each row, {self.gap.expr}" if isinstance(self.gap, GapColumn) else f"gap {format_duration(self.gap)}"
        cut = "" if self.longest is None else f"; cut at every multiple of {format_duration(self.longest)}"
        return f"of {time}, {gap}{cut}"


def sessions_rule(window: WindowSpec, asked: WindowRequest) -> Supported | Unsupported | None:
    """Plan sessions over declared aggregates, with a number or a column as gap, and the default trigger."""
    assigner = window.assigner
    if not isinstance(assigner, (EventTimeSessionWindows, ProcessingTimeSessionWindows)):
        return None
    if not isinstance(asked, DeclaredAggregates):
        return None
    gap, reasons = assigner.gap, _why_not(window)
    if asked.then is not None:
        reasons.append(PYTHON)
    if reasons or not isinstance(gap, (int, GapColumn)):
        return Unsupported(reasons)
    aggregation = Aggregation.build(asked.aggregates, asked.types, pa.schema([]))
    input_types = tuple(asked.types[text] for text in aggregation.inputs)
    by_processing_time = not assigner.is_event_time
    return Supported(SessionSpec(gap, assigner.longest, tuple(asked.aggregates), aggregation, input_types, by_processing_time))


def _why_not(window: WindowSpec) -> list[str]:
    assigner = window.assigner
    if type(assigner) not in (EventTimeSessionWindows, LimitedEventTimeSessionWindows, ProcessingTimeSessionWindows):
        return [f"{type(assigner).__name__} is an assigner of the user's own"]
    reasons = []
    if not isinstance(getattr(assigner, "gap", None), (int, GapColumn)):
        reasons.append("the gap is a function in Python: with_gap_column(expression) gives one that runs as a column")
    if window.trigger is not None and window.trigger != assigner.get_default_trigger():
        reasons.append(f"the trigger {window.trigger!r} is not the default one")
    if window.evictor is not None:
        reasons.append("an evictor needs all elements")
    if window.every_firing:
        reasons.append("every firing was asked for")
    return reasons


def session_views(plan: WindowPlan, settings: SessionSettings, saved: StateTables, group: int) -> StateViews:
    """Return the views of a key group, as :func:`~panestream.engine.operators.panes.spec.pane_views` does."""
    table, aggregation = saved.table(SESSIONS), settings.aggregation
    reached = reached_by(saved, by_processing_time=settings.by_processing_time)
    lateness = 0 if settings.by_processing_time else plan.allowed_lateness
    each = np.arange(table.num_rows)
    columns = [pa.array(each), *named_columns(table, ["rows"]), *partials_found(table, saved.header, aggregation)]
    found = standing(aggregation, with_types(columns, aggregation.partial_schema), each, each + 1)
    starts, ends, fired = (integers(table, name) for name in ("start", "end", "fired"))
    last, late = ends - 1, integers(table, "late")
    words = np.where(fired == 0, -1, np.where(late > 0, FIRINGS.index(LATE), FIRINGS.index(ON_TIME)))
    kept = plan.keeps_emitted
    rows = WindowRows(
        keys=key_columns(table, plan.key_schema),
        count=table.num_rows,
        starts=pa.array(starts),
        ends=pa.array(ends),
        results=found.results,
        rows=found.rows,
        firings=fired if kept else None,
        last_firing=words if kept else None,
        due=np.where(last > reached, last, MAX_TIMESTAMP),
        closes=closing_times(last, lateness),
        size=share(table.nbytes, found.rows),
    )
    schemas = ViewSchemas(plan, group)
    return schemas.with_windows(schemas.windows_of(rows))


__all__ = ["SessionSpec", "session_views", "sessions_rule"]
