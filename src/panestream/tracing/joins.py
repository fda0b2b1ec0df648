"""Joins by time in traces and states: the partners of a row, found row by row from the definition, and their texts."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from panestream.engine.exchange.group_run import gather
from panestream.engine.exchange.packing import PackColumns, pack
from panestream.engine.kernels.columns import one_chunk
from panestream.engine.kernels.python_values import RowType, python_values
from panestream.engine.operators.as_of_join import BACKWARD, FORWARD, AsOfSpec
from panestream.engine.operators.intervals import IntervalSpec
from panestream.engine.operators.two_sides import ROW, WHOLE, TwoSidesSpec
from panestream.engine.runtime.group_io import GroupInput
from panestream.engine.runtime.sides import INNER, LEFT, RIGHT, SIDES
from panestream.engine.runtime.watermarks import WatermarkTracker
from panestream.tracing.events import Fate, JoinRow, Partners, RowFacts, TimeMoved, Trace, TracedElement, UnusableRow
from panestream.tracing.recorder import INVALID, micro_batches
from panestream.tracing.texts import MAX_SHOWN, TraceTexts, many, value
from panestream.windowing.time import MAX_TIMESTAMP, MIN_TIMESTAMP

if TYPE_CHECKING:
    from panestream.engine.plan import WindowPlan


class JoinHistory:
    """The rows of one key that a join took, in order of arrival."""

    def __init__(self, join: TwoSidesSpec, rows: Iterable[JoinRow]) -> None:
        self._join = join
        self._rows: dict[str, list[JoinRow]] = {side: [] for side in SIDES}
        for row in rows:
            self._rows[row.side].append(row)
        for side in SIDES:
            self._rows[side].sort(key=lambda row: row.timestamp)  # rows of one time stay in order of arrival
        self._times = {side: [row.timestamp for row in self._rows[side]] for side in SIDES}

    def partners(self, side: str, time: int, row: JoinRow | None = None) -> Partners:
        """Return the partners of a row of this side and time. A right row of an as-of join must be the row of the history."""
        join, other = self._join, RIGHT if side == LEFT else LEFT
        if isinstance(join, AsOfSpec):
            if side == LEFT:
                return self._right_row(join, time)
            return Partners(RIGHT, tuple(self._left_rows.get(id(row), ())), None, MAX_TIMESTAMP)
        assert isinstance(join, IntervalSpec)  # noqa: S101 - there are two joins by time
        first, last = (join.lower, join.upper) if side == LEFT else (-join.upper, -join.lower)
        places = bisect_left(self._times[other], time + first), bisect_right(self._times[other], time + last)
        return Partners(side, tuple(self._rows[other][slice(*places)]), None, time + join.over(side) + 1)

    @cached_property
    def _left_rows(self) -> dict[int, list[JoinRow]]:
        """The left rows of an as-of join by the ``id`` of their right row."""
        found: dict[int, list[JoinRow]] = {}
        for left in self._rows[LEFT]:
            for right in self.partners(LEFT, left.timestamp).rows:
                found.setdefault(id(right), []).append(left)
        return found

    def _right_row(self, join: AsOfSpec, time: int) -> Partners:
        times, rows = self._times[RIGHT], self._rows[RIGHT]
        tolerance = MAX_TIMESTAMP if join.tolerance is None else join.tolerance
        # Of several rows with one time the last to arrive counts.
        upto, since = bisect_right(times, time), bisect_left(times, time)
        before = rows[upto - 1] if upto and join.direction != FORWARD else None
        after = rows[bisect_right(times, times[since]) - 1] if since < len(times) and join.direction != BACKWARD else None
        nearest = min(
            (row for row in (before, after) if row is not None), key=lambda row: abs(row.timestamp - time), default=None
        )
        final_at = time
        if join.direction != BACKWARD:
            back = MAX_TIMESTAMP if before is None else time - before.timestamp
            waits = min(tolerance, back - 1) if back <= tolerance and before is not None else tolerance
            final_at = min(
                MAX_TIMESTAMP if waits == MAX_TIMESTAMP else time + waits, MAX_TIMESTAMP if after is None else after.timestamp
            )
        refused = nearest is not None and (nearest.deletes or abs(nearest.timestamp - time) > tolerance)
        partners = () if nearest is None or refused else (nearest,)
        return Partners(LEFT, partners, nearest if refused else None, max(final_at, time))


def join_facts(trace: Trace, elements: Sequence[TracedElement]) -> tuple[RowFacts, ...]:
    """Return the history of rows of a join by time."""
    join, rows = trace.join, dict[int, JoinRow]()
    assert join is not None  # noqa: S101 - only such a trace has these facts
    by_key: dict[str, list[TracedElement]] = {}
    for element in trace.elements:
        rows[element.number] = JoinRow(element.side or LEFT, element.timestamp, element.value, element.deletes)
        by_key.setdefault(repr(element.key), []).append(element)
    histories: dict[tuple[str, bool], JoinHistory] = {}

    def of_key(key: str, *, late: bool) -> JoinHistory:
        found = histories.get((key, late))
        if found is None:
            taken = [rows[each.number] for each in by_key[key] if late or each.fate == "taken"]
            found = histories[key, late] = JoinHistory(join, taken)
        return found

    facts = []
    late_rows = {id(rows[each.number]) for each in trace.late}
    for element in elements:
        row, past = rows[element.number], join.capabilities.late_by_time or 0
        if element.fate == "late":
            facts.append(RowFacts(element, (), None, element.watermark - element.timestamp - past + 1))
            continue
        if has_null(element.key):
            facts.append(RowFacts(element, ()))
            continue
        key = repr(element.key)
        found = of_key(key, late=False).partners(row.side, row.timestamp, row)
        all_rows = of_key(key, late=True).partners(row.side, row.timestamp, row).rows if late_rows else ()
        facts.append(RowFacts(element, (), partners=found, missed=tuple(each for each in all_rows if id(each) in late_rows)))
    return tuple(facts)


def stored_row(join: TwoSidesSpec, timestamp: int, columns: tuple[Any, Any]) -> JoinRow:
    """Return a row of a state, given its stored columns on its side and None on the other."""
    side = LEFT if columns[0] is not None else RIGHT
    row = dict(columns[SIDES.index(side)])
    # The flag is the last stored column of right rows.
    deletes = bool(row.popitem()[1]) if side == RIGHT and isinstance(join, AsOfSpec) and join.deletes else False
    return JoinRow(side, timestamp, row, deletes)


def has_null(key: Any) -> bool:
    """Return whether a key has a null, so that its rows have no partners, as in SQL.

    >>> has_null(None), has_null(("ann", None)), has_null("ann")
    (True, True, False)
    """
    return key is None or (isinstance(key, tuple) and None in key)


def trace_of_join(
    plan: WindowPlan, columns: PackColumns, rows: Sequence[pa.RecordBatch], *, rows_per_batch: int | None = None
) -> Trace:
    """Return the trace of a join by time over rows in order of arrival.

    The micro-batches are those of :func:`~panestream.tracing.recorder.trace_of_batch`, and the plan is one of
    :func:`~panestream.tracing.recorder.with_whole_rows`. The columns of a row are those of its stream.
    """
    parts = ([part for _, part in pack(plan, columns, batch)] for batch in micro_batches(rows, rows_per_batch))
    return trace_of_micro_batches(plan, (gather(plan, each, end_of_input=rows_per_batch is None) for each in parts))


def trace_of_micro_batches(plan: WindowPlan, batches: Iterable[GroupInput]) -> Trace:
    """Return the trace of a join by time over micro-batches of one key group."""
    join, tracker = plan.operator, WatermarkTracker(plan.watermark, tick=plan.ticks)
    assert isinstance(join, TwoSidesSpec)  # noqa: S101 - the caller looked
    elements, moved, unusable = list[TracedElement](), list[TimeMoved](), list[UnusableRow]()
    for batch in batches:
        for side in SIDES:
            for table in batch.of(side):
                elements += _elements(plan, join, side, table, tracker.watermark, (len(elements), len(elements) + len(moved)))
        rows = [row for table in batch.invalid for row in RowType(table.schema).rows(table)]
        unusable += [UnusableRow(row, plan.invalid_tag == INVALID) for row in rows]
        before, after = tracker.watermark, tracker.take_in(batch)
        after = MAX_TIMESTAMP if batch.end_of_input else after
        if after > before:
            moved.append(TimeMoved(len(elements) + len(moved), after))
    description = f"{join.name}: {join.kind}"
    return Trace(tuple(elements), (), tuple(moved), description=description, unusable=tuple(unusable), join=join)


def _elements(
    plan: WindowPlan, join: TwoSidesSpec, side: str, table: pa.Table, watermark: int, first: tuple[int, int]
) -> Iterator[TracedElement]:
    """Yield the rows of one side that came at a watermark; ``first`` has the number and the step of the first."""
    sides, width, past = plan.sides, len(plan.key_schema), join.capabilities.late_by_time or 0
    assert sides is not None  # noqa: S101 - a join has two sides
    schema, whole = sides.left if side == LEFT else sides.right, one_chunk(table.column(WHOLE)).flatten()
    values = RowType(schema).from_columns([python_values(column) for column in whole], table.num_rows)
    keys = list(zip(*(python_values(column) for column in table.columns[:width]), strict=True))
    deletes = [False] * table.num_rows
    if side == RIGHT and isinstance(join, AsOfSpec) and join.deletes:
        deletes = one_chunk(table.column(ROW)).flatten()[-1].to_pylist()
    times = table.column("pane").to_pylist()
    for place, (key, time, row, deleting) in enumerate(zip(keys, times, values, deletes, strict=True)):
        fate: Fate = "late" if time + past <= watermark else "taken"
        yield TracedElement(
            number=first[0] + place,
            step=first[1] + place,
            key=key[0] if width == 1 else key,
            timestamp=time,
            value=row,
            watermark=watermark,
            clock=0,
            closed=MIN_TIMESTAMP,
            fate=fate,
            windows=(),
            side=side,
            deletes=deleting,
        )


@dataclass(frozen=True, slots=True)
class JoinTexts:
    """The texts about rows of a join by time."""

    join: TwoSidesSpec
    words: TraceTexts

    def row(self, facts: RowFacts, reached: int) -> list[str]:
        """Return the fate of a traced row at the watermark ``reached``."""
        if facts.missing_lateness is not None:
            more = self.words.length(facts.missing_lateness)
            return [
                "It was late: the watermark had come to its time. It is in no result, and no later row is joined with it.",
                f"A watermark that waits {more} longer would have kept it.",
            ]
        if facts.partners is None:
            return ["Its key has a null, so it has no partner, as in SQL."]
        lines = self.partners(facts.partners, facts.element.timestamp, reached)
        if facts.missed:
            rows = "; ".join(self._placed(row, facts.element.timestamp) for row in facts.missed[:MAX_SHOWN])
            lines.append(f"It would have been joined with a row that came late: {rows}.")
        return lines

    def partners(self, found: Partners, time: int, reached: int) -> list[str]:
        """Return the partners of a row of this time, or why it has none, and whether that is final at a watermark."""
        join = self.join
        if isinstance(join, AsOfSpec):
            if found.side == RIGHT:
                return [self._many(found, time)]
            lines = [self._of_as_of(join, found, time)]
        else:
            lines = [self._many(found, time)]
        if reached >= found.final_at:
            lines.append(f"That is final since the watermark came to {self.words.time(found.final_at)}.")
        elif found.final_at == MAX_TIMESTAMP:
            lines.append(
                f"That is not final: the first right row at or after {self.words.time(time)} decides, or the end of the input."
            )
        else:
            what = "it is emitted then" if isinstance(join, AsOfSpec) else "another partner may come until then"
            lines.append(f"That is final when the watermark comes to {self.words.time(found.final_at)}: {what}.")
        if not found.rows and join.how in (INNER, RIGHT if found.side == LEFT else LEFT):
            lines.append(f"A join of kind {join.how!r} does not emit {found.side} rows without a partner.")
        return lines

    def _of_as_of(self, join: AsOfSpec, found: Partners, time: int) -> str:
        which, where = {
            BACKWARD: ("newest right row", " at or before its time"),
            FORWARD: ("first right row", " at or after its time"),
        }.get(join.direction, ("right row nearest to its time", ""))
        wanted = which + where
        if found.rows:
            return f"It is joined with {self._placed(found.rows[0], time)}: the {wanted}."
        row = found.refused
        if row is None:
            return f"It has no partner: its key has no right row{where}."
        if row.deletes:
            return f"It has no partner: the {wanted} deletes the value of its key: {self._placed(row, time)}."
        assert join.tolerance is not None  # noqa: S101 - no other row is refused
        return (
            f"It has no partner: the {wanted} is farther away than the tolerance of {self.words.length(join.tolerance)}: "
            f"{self._placed(row, time)}."
        )

    def _many(self, found: Partners, time: int) -> str:
        other = RIGHT if found.side == LEFT else LEFT
        if not found.rows:
            return f"It has no partner among the {other} rows of its key."
        rows = "; ".join(self._placed(row, time) for row in found.rows[:MAX_SHOWN])
        more = "; …" if len(found.rows) > MAX_SHOWN else ""
        return f"It is joined with {many(len(found.rows), f'{other} row')}: {rows}{more}."

    def _placed(self, row: JoinRow, time: int) -> str:
        away = row.timestamp - time
        where = f"{self.words.length(abs(away))} {'after' if away > 0 else 'before'} it" if away else "at its time"
        return f"{value(row.value)}, {where}"
