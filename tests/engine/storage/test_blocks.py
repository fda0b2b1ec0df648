"""Blocks of panes compared with a list of rows: reading, merging and deleting."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from panestream.engine.storage import blocks
from panestream.engine.storage.blocks import PaneBlocks
from panestream.engine.storage.state import MemoryState
from panestream.errors import StateDamagedError

SCHEMA = pa.schema([pa.field("pane", pa.int64(), nullable=False), pa.field("row", pa.int64(), nullable=False)])


def sorted_by_pane(rows):
    panes, numbers = (np.asarray([row[place] for row in rows], np.int64) for place in (0, 1))
    order = np.argsort(panes, kind="stable")
    return pa.Table.from_arrays([pa.array(panes[order]), pa.array(numbers[order])], schema=SCHEMA)


def as_rows(tables):
    return [tuple(row.values()) for table in tables for row in table.to_pylist()]


def store(**more):
    return PaneBlocks(MemoryState(), "panes", SCHEMA, lambda tables: sorted_by_pane(as_rows(tables)), **more)


def by_pane(rows):
    rows_by_pane = {}
    for pane, number in rows:
        rows_by_pane.setdefault(pane, []).append(number)
    return rows_by_pane


@pytest.mark.parametrize("most_rows", [None, 12])
@pytest.mark.parametrize("hole", [1 << 40, 5])
def test_blocks_return_the_rows_that_were_appended(monkeypatch, most_rows, hole):
    monkeypatch.setattr(blocks, "_BLOCK_ROWS", 4)
    for seed in range(6):
        rng = random.Random(seed)
        blocks_, model, number, live = store(most_rows=most_rows, hole=hole), [], 0, 0
        for _ in range(40):
            rows = [(live + rng.choice([0, 1, 2, 9, 30]), number + place) for place in range(rng.choice([0, 1, 3, 11]))]
            number += len(rows)
            model += rows
            blocks_.append(sorted_by_pane(rows))
            if rng.random() < 0.3:
                live += rng.randint(0, 3)
                blocks_.drop_before(live)
            blocks_.compact(live)
            model = [row for row in model if row[0] >= live]
            begin = live + rng.randint(0, 10)
            end = begin + rng.randint(0, 12)
            expected = [row for row in model if begin <= row[0] < end]
            assert by_pane(as_rows(blocks_.read(begin, end))) == by_pane(expected), "in the order of arrival"
            low = np.asarray([begin, begin + 20], np.int64)
            expected = [row for row in model if begin <= row[0] < begin + 3 or begin + 20 <= row[0] < begin + 21]
            assert by_pane(as_rows(blocks_.read_spans(low, low + np.asarray([3, 1])))) == by_pane(expected)
            assert all(block.high >= live for block in blocks_.index)
            assert set(blocks_._loaded) <= {block.key for block in blocks_.index}, "what is gone is not in memory either"
        assert {block.key for block in blocks_.index} == {key for _, key in block_keys(blocks_)}


def test_scanned_blocks_are_not_cached():
    blocks_ = store()
    for number in range(3):
        blocks_.append(sorted_by_pane([(number, number), (5, 10 + number)]))
    blocks_._loaded.clear()  # as after a restart
    blocks_.read(1, 2)
    cached = set(blocks_._loaded)
    assert [block.key for block in blocks_.index if block.key in cached] == [0, 1]
    low = np.asarray([1, 5], np.int64)
    assert as_rows(blocks_.scan(1, 6)) == [(5, 10), (1, 1), (5, 11), (2, 2), (5, 12)]
    assert as_rows(blocks_.scan_spans(low, low + 1)) == [(5, 10), (1, 1), (5, 11), (5, 12)]
    assert set(blocks_._loaded) == cached
    blocks_.replace(sorted_by_pane([(7, 1)]))
    assert set(blocks_._loaded) == {3}
    assert as_rows(blocks_.read(0, 9)) == [(7, 1)]


def block_keys(blocks_):
    return [(space, key) for space, key in blocks_.state.values if space == "panes"]


def levels(blocks_):
    return [block.level for block in blocks_.index]


def test_eight_runs_of_a_level_are_merged_into_one_of_the_next():
    blocks_, history = store(), []
    for number in range(73):
        blocks_.append(sorted_by_pane([(number % 3, number)]))
        blocks_.compact(0)
        history.append(levels(blocks_))
    assert [len(each) for each in history[:9]] == [1, 2, 3, 4, 5, 6, 7, 1, 2]
    assert history[7] == [1]
    assert history[62] == [1] * 7 + [0] * 7
    assert history[63] == [2]
    assert history[72] == [2, 1, 0]
    assert [block.rows for block in blocks_.index] == [64, 8, 1]


def test_runs_with_too_many_rows_are_not_merged():
    blocks_ = store(most_rows=15)
    for number in range(16):
        blocks_.append(sorted_by_pane([(0, 2 * number), (1, 2 * number + 1)]))
        blocks_.compact(0)
    assert levels(blocks_) == [blocks._NO_LEVEL] * 16
    assert as_rows(blocks_.read(0, 1)) == [(0, 2 * number) for number in range(16)]


def test_expired_panes_are_deleted_when_their_run_is_merged():
    blocks_ = store()
    for number in range(8):
        blocks_.append(sorted_by_pane([(number // 4, number), (9, number)]))
    blocks_.compact(1)
    assert [(block.low, block.high, block.rows) for block in blocks_.index] == [(1, 9, 12)]
    for number in range(7):
        blocks_.append(sorted_by_pane([(9, number)]))
    blocks_.compact(10)
    assert levels(blocks_) == [1] + [0] * 7, "only eight are merged"


def test_blocks_are_cut_at_gaps_and_by_number_of_rows(monkeypatch):
    monkeypatch.setattr(blocks, "_BLOCK_ROWS", 4)
    panes = np.asarray([0, 0, 1, 1, 2, 8, 14, 14, 14, 14, 14, 15], np.int64)
    assert [panes[start:end].tolist() for start, end in blocks._cuts(panes, 6)] == [[0, 0, 1, 1], [2, 8], [14] * 5, [15]]
    assert [panes[start:end].tolist() for start, end in blocks._cuts(panes, 5)] == [[0, 0, 1, 1], [2], [8], [14] * 5, [15]]


def test_error_names_a_block_missing_from_state():
    blocks_ = store()
    blocks_.append(sorted_by_pane([(1, 1), (2, 2)]))
    (block,) = blocks_.index
    blocks_.state.remove("panes", block.key)
    blocks_._loaded.clear()  # as after a restart
    with pytest.raises(StateDamagedError, match=f"block {block.key} of the index is missing from the state"):
        blocks_.read(0, 5)
