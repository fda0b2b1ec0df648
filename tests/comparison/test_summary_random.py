"""Compare the summary of a state with an independent count of the input, over several key groups.

The open windows are counted as in ``test_state_views_random``, without code of the engine. Sums, bins, the oldest and the largest
windows are then computed in plain Python. ``PANESTREAM_CASES=20000 pytest tests/comparison/test_summary_random.py`` runs more.
"""

import json
import random
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import pairwise

import pytest

from panestream.engine.inspection.filters import parse_filter
from panestream.engine.inspection.merge import StateOrigin, merge_parts
from panestream.engine.inspection.reduce import WIDTHS, StateFilter, reduce_group
from panestream.engine.plan import WindowQuery
from panestream.insight.inspect_json import render_json
from panestream.windowing.assigners.base import SeveralWindows
from tests.comparison import harness, test_panes_random
from tests.comparison.savepoints import GROUPS, Query, placement
from tests.comparison.test_state_views_random import AGGREGATES, cut, rows_of_windows

CHUNKS = 4
CASES = 80
LOOKED = StateOrigin("there", 3, 1_000, 2_000_000)


def summary(query, asked):
    """Combine the JSON texts of all key groups, in any order."""
    plan, saved = query.plan_read(), query.tables()
    parts = [json.loads(json.dumps(reduce_group(plan, one, group, asked))) for group, one in enumerate(saved)]
    random.Random(1).shuffle(parts)
    return merge_parts(plan, parts, asked, LOOKED)


def key_of(place):
    return {"key": place[0]}


def label_of(place):
    return place[1] if len(place) == 4 else None


def random_query(rng):
    clock = rng.random() < 0.3
    if rng.random() < 0.3:
        pairs = [test_panes_random.random_assigner(rng, clock) for _ in range(2)]
        assigner, span = SeveralWindows.of({"a": pairs[0][0], "b": pairs[1][0]}), max(size for _, size in pairs)
    else:
        assigner, span = test_panes_random.random_assigner(rng, clock)
    windowing = WindowQuery(assigner, allowed_lateness=rng.choice([0, 0, 1, 15]))
    asked = harness.Query(windowing, AGGREGATES, rng.choice([0, 3, span]))
    plan = asked.row() if rng.random() < 0.3 and not isinstance(assigner, SeveralWindows) else asked.columnar()
    return asked, plan, cut(harness.random_stream(rng, span, clock=clock), rng), clock


def case(rng, seed):
    query, plan, batches, clock = random_query(rng)
    expected, reached = rows_of_windows(query, batches)
    running = Query(plan, rng.choice(GROUPS))
    for batch in batches:
        running.run(batch)
    most, windows, keys = rng.choice([1, 2, 5, 50]), [], []
    if expected and rng.random() < 0.4:
        place = rng.choice(sorted(expected, key=repr))
        if rng.random() < 0.7:
            keys = ["\\N" if place[0] is None else place[0]]
        if rng.random() < 0.7:
            windows.append(f"1970-01-01T00:00:00.{rng.randint(place[-2], place[-1] - 1):06d}" if place[-2] >= 0 else "1970-01-01")
        if label_of(place) and rng.random() < 0.5:
            windows.append(label_of(place))
    asked = parse_filter(running.plan, keys, windows, most)
    found = summary(running, asked)
    wanted = {place: rows for place, rows in expected.items() if is_wanted(place, asked, keys)}
    check(found, wanted, running, most, f"seed {seed}: {plan.operator.name}, {keys}, {windows}: {batches}")
    if not clock and any(batch.rows for batch in batches):
        assert found.watermark == reached, seed
        assert found.newest == max(row[1] for batch in batches for row in batch.rows), seed
    json.dumps(render_json(found), allow_nan=False)


def is_wanted(place, asked, keys):
    if keys and place[0] != (None if keys[0] == "\\N" else keys[0]):
        return False
    if asked.labels and label_of(place) not in asked.labels:
        return False
    return all(place[-2] <= instant < place[-1] for instant in asked.instants)


def check(found, wanted, running, most, what):
    # The row operator does not count the rows of its windows.
    known = running.plan.operator.name != "row operator" or not wanted
    rows = {place: len(held) if known else 0 for place, held in wanted.items()}
    assert (found.windows, found.keys) == (len(rows), len({place[0] for place in rows})), what
    assert found.rows == (sum(rows.values()) if known else None), what
    by_key, windows_of = Counter(), Counter()
    for place, count in rows.items():
        by_key[place[0]] += count
        windows_of[place[0]] += 1
    counts = sorted(by_key.values(), reverse=True)
    assert [one.rows for one in found.most_rows] == (counts[:most] if known else []), what
    assert len(found.most_bytes) == min(most, len(by_key)), what
    for one in (*found.most_rows, *found.most_bytes):
        assert (by_key[one.key["key"]], windows_of[one.key["key"]]) == (one.rows or 0, one.windows), what
    check_oldest(found, rows, running, most, what)
    check_bins(found, rows, what)
    groups = defaultdict(Counter)
    for place, count in rows.items():
        group = int(placement([harness.pa.array([place[0]], harness.KEYS.field(0).type)], running.groups)[0])
        groups[group].update(windows=1, rows=count)
    shown = {one.group: {"windows": one.windows, "rows": one.rows or 0} for one in found.groups if one.windows}
    assert shown == {group: dict(one) for group, one in groups.items()}, what
    if rows:
        expected = max(one["windows"] for one in groups.values()) * len(found.groups) / len(rows)
        assert found.skew("windows") == pytest.approx(expected), what


def check_oldest(found, rows, running, most, what):
    bounds = defaultdict(list)
    for place, count in rows.items():
        bounds[place[-2], place[-1], running.plan.labels.index(label_of(place)) if label_of(place) else -1].append(count)
    oldest = [(start, end, place, len(held), sum(held)) for (start, end, place), held in sorted(bounds.items())]
    labels = {label: place for place, label in enumerate(running.plan.labels)}
    shown = [(one.start, one.end, labels.get(one.label, -1), one.keys, one.rows or 0) for one in found.oldest]
    assert shown == oldest[:most], what
    due = [one.due for one in found.next]
    assert None not in due, what
    assert due == sorted(due), what
    if found.listed is not None:
        listed = [(row["window_start"], row["window_end"]) for row in found.listed["windows"]]
        assert len(listed) == min(most, len(rows)), what
        assert all(row["rows"] in (None, row["results"]["count"]) for row in found.listed["windows"]), what


def check_bins(found, rows, what):
    ends = {place[-1] for place in rows}
    apart = min((after - end for end, after in pairwise(sorted(ends))), default=None)
    assert found.ends.width in WIDTHS or (found.ends.width == apart and not any(end % apart for end in ends)), what
    bins = Counter()
    for place in rows:
        bins[place[-1] // found.ends.width] += 1
    assert {place: counts[0] for place, counts in found.ends.counts.items()} == dict(bins), what


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_state_summary_agrees_with_a_count_of_the_input(chunk):
    harness.run_cases(CASES, chunk, CHUNKS, case)


def test_comparison_of_summaries_detects_a_wrong_count():
    rng = random.Random(5)
    query, plan, batches, _ = random_query(rng)
    running = Query(plan, 3)
    for batch in batches:
        running.run(batch)
    found, (expected, _) = summary(running, StateFilter()), rows_of_windows(query, batches)
    check(found, expected, running, 10, "")
    for wrong in (replace(found, windows=found.windows + 1), replace(found, oldest=found.oldest[1:]), replace(found, groups=())):
        with pytest.raises((AssertionError, ZeroDivisionError)):
            check(wrong, expected, running, 10, "")
