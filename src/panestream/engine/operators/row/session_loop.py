"""The inner loop for event-time sessions with the default trigger: an element that touches only one session merges nothing.

The sessions of one key on the time axis; ``latest`` is the session with the largest start::

        first session        second session            latest
    ----[=========)----------[=======)-----------------[==========)---------->  event time
        start     end                                  start      end

    possible positions of an element's span [t, t + gap), and the loop's action:

    (a) t in [latest.start, latest.end]     add it to latest: the most common case, decided by two comparisons
    (b) t > latest.end                      a new session, which becomes the latest
    (c) t < latest.start, touches none      a new session; latest stays
    (d) t < latest.start, touches one       add it to that session, which may grow at both ends
    (e) t < latest.start, touches several   they merge by the general protocol (``SEVERAL``)

A session that grows gets its new ``start`` and ``end`` at once. It remains filed under its old bounds, with its old timers, until
:func:`_file` updates both: before a row takes the general path, and after the last row. Invariants in the meantime:

1. The sessions of a key neither overlap nor touch, by ``start`` and ``end``. So no session follows the latest, every earlier one
   ends before its start, and (a) and (b) need not look at the others.
2. ``grown`` maps exactly the sessions whose filed bounds differ from ``start`` and ``end`` to the filed bounds.
3. No two sessions are filed under the same bounds. The old bounds of a session lie within its new ones, where by 1 no other
   session can be. So no session can be opened under the bounds that a grown one still occupies.
4. ``latest`` is None, or dead, or really the latest. All other code that merges or reads sessions sets it to None.
5. Only this loop sees a session whose timers are old, because timers run only between micro-batches.

``tests/engine/operators/row/test_random_scenarios.py`` compares this loop with the general protocol on random streams.
"""

from __future__ import annotations

from typing import Any

from panestream.engine.operators.row.element_chunks import stamped
from panestream.engine.operators.row.loops import ASSIGNER, Callees, LoopOperator, Rows, arm, open_window
from panestream.engine.operators.row.window_states import EMPTY, Bounds, KeyState, WindowState
from panestream.windowing.assigners import EventTimeSessionWindows

SEVERAL = object()


def take_in_sessions(  # noqa: C901, PLR0912 - an inner loop: each call that would tidy it costs a tenth of it
    operator: LoopOperator, assigner: EventTimeSessionWindows, purges: bool, rows: Rows
) -> None:
    """Add rows, in order; ``purges`` means that a session is emptied when it fires."""
    used_keys, get_or_create, first, fold, keeps, stamps = Callees.of(operator)
    due, gap = operator.watermark + 1, assigner.gap
    fixed = gap if isinstance(gap, int) else None
    grown: dict[WindowState, Bounds] = {}
    key: Any = None
    session: Any = None
    try:
        for key, timestamp, element in rows:
            session = None
            end: int = timestamp + fixed if fixed is not None else assigner.assign_windows(element, timestamp, 0)[0].end
            owner = used_keys.get(key) or get_or_create(key)
            latest: Any = owner.latest
            if latest is not None and latest.alive and timestamp >= latest.start:
                session = latest if timestamp <= latest.end else None  # (a) or (b)
            else:
                session = _session_at(owner, timestamp, end)  # (c), (d) or (e)
                if session is SEVERAL:
                    session = None
                    _file(operator, _taken_out(grown, owner))
                    operator.element(key, timestamp, element)
                    continue
            session = session or _new_session(operator, owner, timestamp, end)
            if session is None:
                operator.not_taken(key, timestamp, element)
                continue
            if end > session.end or timestamp < session.start:
                if session not in grown:
                    grown[session] = session.bounds
                if end > session.end:  # noqa: PLR1730 - a call more
                    session.end = end
                if timestamp < session.start:  # noqa: PLR1730
                    session.start = timestamp
            stored = stamped((element, timestamp)) if stamps else element
            if session.contents is EMPTY:
                session.contents = first(stored)
            elif keeps:
                session.contents.tail.append(stored)
            else:
                session.contents = fold(session.contents, stored)
            if session.end <= due:
                session.move(session.start, session.end)
                operator.fire(session)
                if purges:
                    session.contents = EMPTY
        _file(operator, grown)
    except Exception as error:  # noqa: BLE001 - whatever users' code raises
        if session is not None:
            session.move(session.start, session.end)
        operator.failed(ASSIGNER if session is None else operator.logic.adding, key, session, error)


def _new_session(operator: LoopOperator, owner: KeyState, start: int, end: int) -> WindowState | None:
    """Open a session of one element that touches no other, or return None if it is already closed."""
    made = open_window(operator, owner, start, end)
    if made is not None and (owner.latest is None or start > owner.latest.start):  # type: ignore[operator]  # sessions have bounds
        owner.latest = made
    return made


def _taken_out(grown: dict[WindowState, Bounds], owner: KeyState) -> dict[WindowState, Bounds]:
    """Remove the sessions of one key from ``grown`` and return them."""
    return {session: grown.pop(session) for session in owner.window_states.values() if session in grown}


def _file(operator: LoopOperator, grown: dict[WindowState, Bounds]) -> None:
    """File grown sessions under their new bounds and move their timers. Contents and queue entries stay."""
    for session, filed in grown.items():
        if not session.alive:
            continue
        filed_by_bounds, start, end = session.owner.window_states, session.start, session.end
        assert start is not None and end is not None  # noqa: PT018, S101 - sessions have bounds
        del filed_by_bounds[filed]
        filed_by_bounds[start, end] = session
        session.move(start, end)
        if filed is not None and filed[1] != end:
            session.event_timers.times.clear()
            arm(operator, session, operator.cleanup_time(session.max_timestamp))


def _session_at(owner: KeyState, start: int, end: int) -> WindowState | object | None:
    """Return the session that a span touches, None, or SEVERAL if it touches more than one. Also restore ``latest``."""
    latest = owner.latest
    if latest is None or not latest.alive:
        owner.latest = max(owner.window_states.values(), key=_start, default=None)
    touched: WindowState | None = None
    for session in owner.window_states.values():
        if session.start <= end and session.end >= start:  # type: ignore[operator]  # sessions have bounds
            if touched is not None:
                return SEVERAL
            touched = session
    return touched


def _start(session: WindowState) -> Any:
    return session.start
