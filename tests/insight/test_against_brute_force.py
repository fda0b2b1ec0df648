"""The advisor's completeness and open rows, chunk by chunk, compared with the definition, without Spark."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panestream.engine.kernels.panes import SlidingWindows
from panestream.insight.delays import (
    BEHIND,
    NEEDED,
    Came,
    Closes,
    Completeness,
    CountRows,
    Maxima,
    PanesWait,
    WaitingCounts,
    Waits,
    bins_of,
    counted,
    starts,
    windows_of_a_key,
)
from tests.insight.brute_force import Row, frontiers, late, most_open

WINDOWS = [[], [(10, 10)], [(12, 4)], [(5, 9)], [(10, 10), (4, 2)]]


@st.composite
def chunks_of_rows(draw):
    """Draw rows in the order of arrival, in chunks of batches. Rows that arrive together share a chunk."""
    partitions = draw(st.sampled_from([[""], ["a", "b"], ["a", "b", "c"]]))
    times = st.integers(-30, 60)
    row = st.builds(Row, times, st.sampled_from(partitions), key=st.integers(0, 2))
    at_once = draw(st.booleans())
    groups = draw(st.lists(st.lists(row, min_size=1, max_size=5), min_size=1, max_size=12))
    numbered = [
        [Row(each.time, each.partition, place if at_once else None, each.key) for each in group]
        for place, group in enumerate(groups)
    ]
    cuts = draw(st.lists(st.booleans(), min_size=len(groups), max_size=len(groups)))
    chunks = [[]]
    for group, cut in zip(numbered, cuts, strict=True):
        if cut and chunks[-1]:
            chunks.append([])
        chunks[-1].append(group)
    return [chunk for chunk in chunks if chunk], draw(st.integers(1, 4))


def batches_of(number, chunk, size):
    """Split a chunk into batches at arbitrary places, as Spark does."""
    rows = [row for group in chunk for row in group]
    several, at_once = any(row.partition for row in rows), rows[0].at is not None
    columns = {"chunk": pa.array([number] * len(rows), pa.int32()), "time": pa.array([row.time for row in rows], pa.int64())}
    columns |= {"partition": pa.array([row.partition for row in rows], pa.string())} if several else {}
    columns |= {"together": pa.array([row.at for row in rows], pa.int64())} if at_once else {}
    columns |= {"key": pa.array([row.key for row in rows], pa.int64())}
    return pa.table(columns).to_batches(max_chunksize=size)


def found(passing, every):
    return [row for chunk in every for batch in passing(iter(chunk)) for row in batch.to_pylist()]


def judged(chunks, size, closes):
    every = [batches_of(number, chunk, size) for number, chunk in enumerate(chunks)]
    maxima = found(Maxima(), every)
    of_chunks = [{row["name"]: row["largest"] for row in maxima if row["chunk"] == n and row["name"]} for n in range(len(chunks))]
    if not any(row["name"] for row in maxima):
        of_chunks = [
            {row["name"]: row["largest"] for row in maxima if row["chunk"] == n and row["name"] == ""} for n in range(len(chunks))
        ]
    before = starts(of_chunks)
    return every, (dict(enumerate(before)), closes), before[-1]


@given(chunks_of_rows(), st.sampled_from(WINDOWS), st.sampled_from([0, 7]))
def test_late_rows_match_definition_for_random_chunks(given_chunks, windows, lateness):
    chunks, size = given_chunks
    rows = [row for chunk in chunks for group in chunk for row in group]
    closes = Closes(tuple(SlidingWindows(size, slide) for size, slide in windows), lateness)
    every, judge, _ = judged(chunks, size, closes)
    counts = found(CountRows(*judge), every)
    wanted, behind = (
        Completeness.of((row["largest"], row["rows"]) for row in counts if row["what"] == what) for what in (NEEDED, BEHIND)
    )
    assert wanted.rows == behind.rows == len(rows)
    for delay in range(0, 100, 3):
        assert wanted.rows - wanted.keeps(delay) == late(rows, delay, windows, lateness)
        assert behind.rows - behind.keeps(delay) == late(rows, delay, [], 0)
    for share in (0.5, 0.9, 0.99, 1.0):
        delay = wanted.delay_for(share)
        assert wanted.keeps(delay) >= share * len(rows)
        assert delay == 0 or wanted.keeps(delay - 1) < share * len(rows)


@given(chunks_of_rows(), st.sampled_from(WINDOWS), st.sampled_from([0, 7]))
def test_open_rows_match_definition_for_random_chunks(given_chunks, windows, lateness):
    chunks, size = given_chunks
    rows = [row for chunk in chunks for group in chunk for row in group]
    every, judge, reached = judged(chunks, size, Closes(tuple(SlidingWindows(*window) for window in windows), lateness))
    end = min(reached.values())
    first = min([each for each in frontiers(rows) if each is not None] + [end])
    delays = (0, 3, 11, 40)
    waiting = WaitingCounts(delays, first, end)
    assert waiting.step == 1

    def most(changes):
        total = np.zeros((len(delays), waiting.steps + 1), np.int64)
        for row in changes:
            total[row["delay"], row["step"]] += row["more"]
        return waiting.most(total)

    assert most(found(Waits(*judge, waiting), every)) == [most_open(rows, delay, windows, lateness) for delay in delays]
    panes = {}
    for row in found(Came(*judge), every):
        name = row["key"], row["closes"]
        panes[name] = min(panes.get(name, row["frontier"]), row["frontier"])
    columns = [pa.array(panes.values(), pa.int64()), pa.array([closes for _, closes in panes], pa.int64())]
    came = [[pa.RecordBatch.from_arrays(columns, ["frontier", "closes"])]]
    assert most(found(PanesWait(waiting), came)) == [most_open(rows, delay, windows, lateness, panes=True) for delay in delays]


@given(st.lists(st.one_of(st.integers(0, 5000), st.integers(0, 2**61)), min_size=1, max_size=200))
def test_bins_are_ordered_and_at_most_one_in_2048_wide(delays):
    values = np.array(sorted(delays), np.int64)
    bins = bins_of(values)
    assert (np.diff(bins) >= 0).all()
    for number in np.unique(bins):
        inside = values[bins == number]
        assert inside[-1] - inside[0] <= inside[0] / 2048
    _, counts, largest = counted(values)
    completeness = Completeness.of(zip(largest.tolist(), counts.tolist(), strict=True))
    for delay in largest.tolist():
        assert completeness.keeps(delay) == sum(each <= delay for each in delays)


@pytest.mark.parametrize("power", [11, 12, 31, 52, 53, 54, 60])
def test_bin_starts_at_each_power_of_two(power):
    below, at, above = bins_of(np.array([2**power - 1, 2**power, 2**power + 1], np.int64)).tolist()
    assert at == below + 1
    assert above in (at, at + 1)


def test_chunk_without_event_times_counts_rows_as_invalid_only():
    batch = pa.RecordBatch.from_pydict(
        {"chunk": pa.array([0, 0], pa.int32()), "time": pa.array([None, None], pa.int64())},
    )
    assert [row for each in Maxima()([batch]) for row in each.to_pylist()] == [
        {"chunk": 0, "name": None, "largest": None, "rows": 2, "invalid": 2}
    ]
    assert not [row for each in CountRows({0: {}}, Closes())([batch]) for row in each.to_pylist()]


def test_windows_of_a_key_equals_the_maximum_over_all_frontiers():
    """Compare with a count by brute force. At the watermark F - delay - 1, count the open windows [start, start + size) of rows up
    to F.
    """
    for size, slide, lateness, delay in [(10, 10, 0, 0), (10, 10, 0, 1), (12, 4, 0, 7), (5, 9, 3, 2), (10, 10, 25, 4)]:
        counts = [
            sum(start % slide == 0 and start + size - 1 + lateness > frontier - delay - 1 for start in range(-200, frontier + 1))
            for frontier in range(100, 100 + 3 * slide)
        ]
        assert max(counts) == windows_of_a_key([(size, slide)], lateness, delay)
