"""Compare state views with an independent count of the input: which windows must be open, with which rows.

The count uses the assigners' definition of a window, the watermark (the largest time minus the delay, minus one) and the
lateness,
and no code of the engine. ``PANESTREAM_CASES=20000 pytest tests/comparison/test_state_views_random.py`` runs more.
"""

import random
from collections import defaultdict
from dataclasses import replace

import pyarrow as pa
import pytest

from panestream.engine.operators.intervals import IntervalSpec
from panestream.engine.plan import WindowQuery
from panestream.engine.runtime.sides import SIDES
from panestream.engine.runtime.state_views import watermarks_of
from panestream.engine.storage.state import MemoryState
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import (
    EventTimeSessionWindows,
    GlobalWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from panestream.windowing.assigners.base import SeveralWindows
from panestream.windowing.assigners.global_windows import CountWindows
from panestream.windowing.triggers import ContinuousEventTimeTrigger, CountTrigger
from tests.comparison import harness, look_backs, predicates, rolling, test_accumulating, test_panes_random
from tests.comparison.calendars import random_calendar, random_stream
from tests.comparison.savepoints import GROUPS, Query, placement, rescaled, shuffled

CHUNKS = 8
AGGREGATES = (agg.count(), agg.sum("v").alias("total"), agg.max("u").alias("most"))
MICROS = pa.int64()
TIMES = pa.schema([(name, MICROS) for name in ("watermark", "closed", "processing_time", "max_event_time")])


def shown(query, rng):
    """Return the views of all key groups, sometimes after a change of their number."""
    saved, plan = query.tables(), query.plan_read()
    check_schemas_and_headers(query, saved, plan)
    if rng.random() < 0.5:
        saved = [shuffled(one, rng) for one in rescaled(saved, plan, placement, rng.choice(GROUPS))]
    views = [plan.operator.views(plan, one, number) for number, one in enumerate(saved)]
    for view in views:
        for table in (view.windows, view.elements, view.user_state, view.timers):
            table.validate(full=True)
    return views


def check_schemas_and_headers(query, saved, plan):
    """Check that tables and views have one schema for any content, and that meta records have its header."""
    empty = plan.operator.for_group(plan, MemoryState(), 0).tables()
    names = ("windows", "elements", "user_state", "timers")
    shown = plan.operator.views(plan, empty, 0)
    for number, (state, one) in enumerate(zip(query.states, saved, strict=True)):
        assert {name: table.schema for name, table in one.tables.items()} == {
            name: table.schema for name, table in empty.tables.items()
        }
        views = plan.operator.views(plan, one, number)
        assert [getattr(views, name).schema for name in names] == [getattr(shown, name).schema for name in names]
        meta = MemoryState({place: value for place, value in state.values.items() if place[0] == "meta"})
        assert plan.operator.for_group(plan, meta, number).header() == one.header


def windows_shown(views):
    """Return rows and results by key and window."""
    found = {}
    for view in views:
        table = view.windows
        for name in ("window_start", "window_end", "due", "closes"):
            table = table.set_column(table.schema.get_field_index(name), name, table[name].cast(MICROS))
        for row in table.to_pylist():
            label = [row["window"]] if row["window"] is not None else []
            place = (row["key"]["key"], *label, row["window_start"], row["window_end"])
            assert place not in found
            found[place] = row
    return found


def rows_of_windows(query, batches):
    """Return the rows of each key and window that must be open after the micro-batches, and the reached time."""
    windowing, held, largest, watermark, closed, clock = query.windowing, defaultdict(list), None, None, None, 0
    assigner = windowing.assigner
    by_label = (
        dict(zip(assigner.labels, assigner.assigners, strict=True)) if isinstance(assigner, SeveralWindows) else {None: assigner}
    )
    for batch in batches:
        clock = max(clock, batch.clock)
        if not assigner.is_event_time:
            closed = clock - 1
        for row in batch.rows:
            for label, one in by_label.items():
                for window in one.assign_windows(row, row[1], clock):
                    if closed is None or window.end - 1 > closed:
                        place = (row[0], *([label] if label else []), window.start, window.end)
                        held[place].append(row)
        if assigner.is_event_time and batch.rows:
            times = [row[1] for row in batch.rows]
            largest = max(times) if largest is None else max([largest, *times])
            watermark = largest - query.delay - 1
            closed = watermark - windowing.allowed_lateness
    reached = watermark if assigner.is_event_time else clock - 1
    return {place: rows for place, rows in held.items() if closed is None or place[-1] - 1 > closed}, reached


def results(rows):
    values = [row[2] for row in rows if row[2] is not None]
    return {"count": len(rows), "total": sum(values) if values else None, "most": max(row[4] for row in rows)}


def check(found, expected, reached, lateness, what):
    assert found.keys() == expected.keys(), f"{what}: {set(found) ^ set(expected)}"
    for place, rows in expected.items():
        row = found[place]
        assert row["rows"] in (None, len(rows)), (what, place, row, rows)
        assert row["results"] in (None, results(rows)), (what, place, row, rows)
        assert row["rows"] is not None or row["results"] is not None
        assert row["closes"] == place[-1] - 1 + lateness, (what, place, row)
        if row["due"] is not None:
            assert reached is None or row["due"] > reached, (what, place, row)
            assert row["due"] <= place[-1] - 1, (what, place, row)
        elif lateness == 0:
            raise AssertionError(f"{what}: {place} is open and will fire, but is not due: {row}")


def check_times(query, reached, lateness, clock):
    """Check that all key groups that got rows have the reached time and the closed time."""
    for number, one in enumerate(query.tables()):
        table = watermarks_of(query.plan, one.header, number)
        assert table.num_rows == 1
        (row,) = table.select(["watermark", "closed", "processing_time", "max_event_time"]).cast(TIMES).to_pylist()
        if clock:
            # Idle key groups do not get the times.
            assert (row["processing_time"] or 0) <= reached + 1
        else:
            newest = None if reached is None else reached + 1 + query.plan.watermark.delay
            closed = None if reached is None else reached - lateness
            assert row == {"watermark": reached, "closed": closed, "processing_time": None, "max_event_time": newest}


def cut(batches, rng):
    """Return the first micro-batches of a stream, without its end."""
    batches = [batch for batch in batches if not batch.end]
    return batches[: rng.randint(1, len(batches))]


def aligned(rng, seed):
    clock = rng.random() < 0.3
    lateness = rng.choice([0, 0, 1, 15])
    if rng.random() < 0.25:
        pairs = [test_panes_random.random_assigner(rng, clock) for _ in range(2)]
        assigner, span = SeveralWindows.of({"a": pairs[0][0], "b": pairs[1][0]}), max(size for _, size in pairs)
    else:
        assigner, span = test_panes_random.random_assigner(rng, clock)
    trigger = None if clock or rng.random() < 0.7 else ContinuousEventTimeTrigger(rng.randint(1, 9))
    windowing = WindowQuery(assigner, trigger, allowed_lateness=lateness)
    look(rng, seed, windowing, span, harness.random_stream(rng, span, clock=clock))


def calendars(rng, seed):
    clock = rng.random() < 0.2
    assigner, span = random_calendar(rng, clock=clock)
    windowing = WindowQuery(assigner, allowed_lateness=rng.choice([0, 0, span]))
    look(rng, seed, windowing, span, random_stream(rng, assigner.zone, span, clock=clock))


def look(rng, seed, windowing, span, whole):
    """Check the views of aligned windows after a part of a stream."""
    assigner, trigger, lateness = windowing.assigner, windowing.trigger, windowing.allowed_lateness
    clock = not assigner.is_event_time
    asked = harness.Query(windowing, AGGREGATES, rng.choice([0, 3, span]))
    batches = cut(whole, rng)
    expected, reached = rows_of_windows(asked, batches)
    plans = [asked.columnar()]
    plans += [asked.row()] if trigger is None and not isinstance(assigner, SeveralWindows) else []
    if rng.random() < 0.5 and not clock and trigger is None and not isinstance(assigner, SeveralWindows):
        plans += test_accumulating.plans(windowing, "arrow", False, asked.delay)
    for plan in plans:
        query = Query(plan, rng.choice(GROUPS))
        for batch in batches:
            query.run(batch)
        views = shown(query, rng)
        check(windows_shown(views), expected, reached, 0 if clock else lateness, f"seed {seed}: {plan.operator.name}: {batches}")
        check_times(query, reached, lateness, clock)
        if plan.operator.capabilities.takes_rows:
            elements = [row for view in views for row in view.elements.to_pylist()]
            assert sum(len(row["windows"]) for row in elements) == sum(map(len, expected.values()))
            kept = {id(row) for rows in expected.values() for row in rows}
            assert len(elements) == len(kept), f"seed {seed}"


def sessions(rng, seed):
    gap = rng.choice([1, 4, 30])
    batches = cut(harness.random_stream(rng, gap), rng)
    lateness = rng.choice([0, 0, gap])
    windowing = WindowQuery(EventTimeSessionWindows(gap), allowed_lateness=lateness)
    # No row is late, so each session has all its rows.
    asked = harness.Query(windowing, AGGREGATES, harness.furthest_back(batches) + 1)
    rows = sorted((row for batch in batches for row in batch.rows), key=lambda row: row[1])
    watermark = max((row[1] for row in rows), default=0) - asked.delay - 1
    last: dict = {}
    held = []
    for row in rows:
        session = last.get(row[0])
        if session is None or row[1] > session[-1][1] + gap:
            session = last[row[0]] = []
            held.append(session)
        session.append(row)
    bounded = {(session[0][0], session[0][1], session[-1][1] + gap): session for session in held}
    expected = {place: session for place, session in bounded.items() if place[2] - 1 + lateness > watermark}
    for plan in (asked.columnar(), asked.row()):
        query = Query(plan, rng.choice(GROUPS))
        for batch in batches:
            query.run(batch)
        check(windows_shown(shown(query, rng)), expected, watermark, lateness, f"seed {seed}: {plan.operator.name}: {batches}")


def counts(rng, seed):
    size = rng.randint(1, 6)
    everything = rng.random() < 0.3
    windowing = (
        WindowQuery(GlobalWindows.create(), CountTrigger.of(size)) if everything else WindowQuery(*CountWindows(size).parts)
    )
    query, came = Query(harness.Query(windowing, AGGREGATES).columnar(), rng.choice(GROUPS)), defaultdict(list)
    for batch in cut(harness.random_stream(rng, 10), rng):
        query.run(batch)
        for row in batch.rows:
            came[row[0]].append(row)
    kept = {key: rows if everything else rows[len(rows) // size * size :] for key, rows in came.items()}
    expected = {(key, None, None): rows for key, rows in kept.items() if rows}
    found = windows_shown(shown(query, rng))
    assert found.keys() == expected.keys(), seed
    for place, rows in expected.items():
        assert (found[place]["rows"], found[place]["results"]) == (len(rows), results(rows)), (seed, place)


def intervals(rng, seed):
    lower, delay = rng.randint(-9, 3), rng.choice([0, 3, 20])
    operator = IntervalSpec(lower, lower + rng.randint(0, 9), "inner", harness.SIDED, harness.SIDED, harness.KEYS)
    query = Query(harness.plan_for(operator, WindowQuery(GlobalWindows.create()), delay), rng.choice(GROUPS))
    rows, largest = [], None
    for batch in cut(harness.random_stream(rng, 10), rng):
        query.run(batch)
        watermark = -(2**62) if largest is None else largest - delay - 1
        rows += [row for row in batch.rows if row[1] >= watermark]
        largest = max([row[1] for row in batch.rows] + ([] if largest is None else [largest]), default=None)
    watermark = -(2**62) if largest is None else largest - delay - 1
    # The state holds the rows that future rows may match.
    over = {"left": operator.upper, "right": -operator.lower}
    expected = [(row[0], row[1], SIDES[row[4] % 2], row[4]) for row in rows if row[1] + over[SIDES[row[4] % 2]] >= watermark]
    views = shown(query, rng)
    assert not any(view.windows.num_rows for view in views)
    found = []
    for view in views:
        table = view.elements.set_column(view.elements.schema.get_field_index("time"), "time", view.elements["time"].cast(MICROS))
        for row in table.to_pylist():
            (side,) = [side for side in SIDES if row["element"][side] is not None]
            found.append((row["key"]["key"], row["time"], side, row["element"][side]["u"]))
    assert sorted(found, key=str) == sorted(expected, key=str), seed


def of_look_backs(rng, seed):
    """Check the rows that wait for the watermark. Each key and instant is a window with the start of its longest look-back."""
    plan, span = look_backs.random_plan(rng)
    batches = cut(harness.random_stream(rng, span), rng)
    query = Query(plan, rng.choice(GROUPS))
    longest, ahead = plan.operator.longest, plan.operator.ahead
    waiting, watermark = defaultdict(list), None
    for batch in batches:
        query.run(batch)
        for row in batch.rows:
            if watermark is None or row[1] > watermark:
                waiting[(row[0], row[1] - longest, row[1] + ahead + 1)].append(row)
        if batch.rows:
            came = max(row[1] for row in batch.rows) - plan.watermark.delay - 1
            watermark = came if watermark is None else max(watermark, came)
    expected = {place: rows for place, rows in waiting.items() if watermark is None or place[2] - 1 > watermark}
    views = shown(query, rng)
    check(windows_shown(views), expected, watermark, 0, f"seed {seed}: {batches}")
    elements = [row for view in views for row in view.elements.to_pylist()]
    assert len(elements) == sum(map(len, expected.values()))
    if "u" in plan.operator.kept.names:
        assert {row["element"]["u"] for row in elements} == {row[4] for rows in expected.values() for row in rows}


def by_predicates(rng, seed):
    """Check open windows by predicates. Rows after the watermark wait, each key and instant separately."""
    plan, span = predicates.random_plan(rng)
    plan = predicates.plan_of(plan.assigner, AGGREGATES, plan.watermark.delay)
    batches = cut(harness.random_stream(rng, span), rng)
    query = Query(plan, rng.choice(GROUPS))
    for batch in batches:
        query.run(batch)
    waiting, reached = predicates.left_of(plan, batches)
    expected = {place: sorted(rows, key=lambda row: row[1]) for place, rows in waiting.items()}
    found = windows_shown(shown(query, rng))
    assert found.keys() == expected.keys(), f"seed {seed}: {set(found) ^ set(expected)}: {plan.assigner}: {batches}"
    for place, rows in expected.items():
        assert (found[place]["rows"], found[place]["results"]) == (len(rows), results(rows)), (seed, place)
        assert found[place]["due"] is None or reached is None or found[place]["due"] > reached


def rolling_values(rng, seed):
    """Check the values that each key has at the last step, by the definition, and the number of its rows."""
    plan, span = rolling.random_plan(rng)
    windows, every, lateness = plan.assigner, plan.assigner.every, plan.allowed_lateness
    plan = rolling.plan_of(windows, AGGREGATES, lateness, plan.watermark.delay)
    batches = cut(harness.random_stream(rng, span), rng)
    query, taken, watermark = Query(plan, rng.choice(GROUPS)), [], None
    for batch in batches:
        query.run(batch)
        taken += [row for row in batch.rows if watermark is None or windows.step_of(row[1]).end - 1 > watermark - lateness]
        if batch.rows:
            came = max(row[1] for row in batch.rows) - plan.watermark.delay - 1
            watermark = came if watermark is None else max(watermark, came)
    found = windows_shown(shown(query, rng))
    if watermark is None:
        assert not found, seed
        return
    step = (watermark + 1) // every * every
    kept = [row for row in taken if windows.has_all_time or row[1] // every * every >= step - windows.longest]
    assert {place[0] for place in found} == {row[0] for row in kept}, f"seed {seed}: {found}: {windows}: {batches}"
    for (key, _, end), row in found.items():
        mine, expected = [one for one in kept if one[0] == key], {}
        for label, length in windows.windows:
            inside = [one for one in mine if one[1] // every * every < step and (length is None or one[1] >= step - length)]
            values = results(inside) if inside else {"count": 0, "total": None, "most": None}
            expected |= {f"{name}_{label}": value for name, value in values.items()}
        as_of = row["results"].pop("as_of")
        counted = [one for one in mine if one[1] // every * every < step]
        assert (end, row["rows"], row["results"]) == (step, len(counted), expected), (seed, key, batches)
        assert as_of is not None
        assert row["due"] is None or row["due"] > watermark, (seed, key)


CASES = {
    intervals: 16,
    aligned: 96,
    calendars: 16,
    sessions: 32,
    counts: 16,
    of_look_backs: 32,
    by_predicates: 32,
    rolling_values: 32,
}


@pytest.mark.parametrize("chunk", range(CHUNKS))
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_state_views_agree_with_a_count_of_the_input(case, chunk):
    harness.run_cases(CASES[case], chunk, CHUNKS, case)


def due_at(plan, watermark):
    """Return the next firing time of each window by its start, for rows up to just after the watermark."""
    query, times = Query(plan, 1), (2, min(15, watermark + 1), watermark + 1)
    query.run(harness.MicroBatch([[("a", time, 1, None, time) for time in times]]))
    return {place[1]: row["due"] for place, row in windows_shown(shown(query, random.Random(1))).items()}


@pytest.mark.parametrize(
    ("watermark", "due"),
    [(8, {0: 9}), (9, {0: None, 10: 19}), (10, {0: None, 10: 19}), (18, {0: None, 10: 19}), (19, {0: None, 10: None, 20: 29})],
)
def test_window_is_due_until_the_watermark_reaches_its_last_instant(watermark, due):
    asked = harness.Query(WindowQuery(TumblingEventTimeWindows(10), allowed_lateness=100), AGGREGATES)
    assert due_at(asked.columnar(), watermark) == due
    assert due_at(asked.row(), watermark) == due


@pytest.mark.parametrize(
    ("watermark", "due"),
    [
        (3, {0: 4}),
        (4, {0: 8}),
        (7, {0: 8}),
        (8, {0: 9}),
        (9, {0: None, 10: 12}),
        (15, {0: None, 10: 16}),
        (16, {0: None, 10: 19}),
        (19, {0: None, 10: None, 20: 20}),
    ],
)
def test_window_with_continuous_trigger_is_due_at_the_next_interval_or_its_end(watermark, due):
    windowing = WindowQuery(TumblingEventTimeWindows(10), ContinuousEventTimeTrigger(4), allowed_lateness=100)
    assert due_at(harness.Query(windowing, AGGREGATES).columnar(), watermark) == due


def test_state_view_shows_firing_numbers_if_the_query_stores_them():
    windowing = WindowQuery(SlidingEventTimeWindows(20, 10), allowed_lateness=100)
    asked = harness.Query(windowing, AGGREGATES, more={"with_firing": True})
    for plan in (asked.columnar(), asked.row()):
        query = Query(plan, 1)
        for times in ((3,), (25,), (5,)):
            query.run(harness.MicroBatch([[("a", time, 1, None, time) for time in times]]))
        found = windows_shown(shown(query, random.Random(1)))
        assert {place[1:]: row["firings"] for place, row in found.items()} == {(-10, 10): 2, (0, 20): 2, (10, 30): 0, (20, 40): 0}
    bare = replace(asked, more={}).columnar()
    query = Query(bare, 1)
    query.run(harness.MicroBatch([[("a", 3, 1, None, 3)]]))
    assert [row["firings"] for row in windows_shown(shown(query, random.Random(1))).values()] == [None, None]
