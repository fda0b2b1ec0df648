"""Two joined streams of files continue from a savepoint, and each side skips its own read files."""

from __future__ import annotations

import itertools

import pytest

import panestream as pst
from panestream.errors import CheckpointError
from panestream.testing import MicroBatches
from tests.spark.savepoint import test_history_of_two as two
from tests.spark.savepoint.runs import ran

pytestmark = pytest.mark.spark

CUTS = {"views": [15, 30, 45], "clicks": [20, 40]}
"""The two sides have read different numbers of files."""


def test_each_side_of_a_join_skips_its_own_read_files(spark, tmp_path):
    sides = {}
    for name, schema, rows in zip(("views", "clicks"), (two.VIEWS, two.CLICKS), two.ROWS, strict=True):
        stream, cuts = MicroBatches(spark, tmp_path / name, schema), [0, *CUTS[name], len(rows)]
        for start, end in itertools.pairwise(cuts[:-1]):
            stream.add(rows[start:end])
        sides[name] = stream, rows[cuts[-2] :]
    streams = [stream for stream, _ in sides.values()]
    first, _ = ran(two.near_in_time(*(stream.stream() for stream in streams)), tmp_path / "old")
    saved = pst.savepoint(spark, str(tmp_path / "old"), str(tmp_path / "saved"))
    assert [(each.number, each.kind, each.files) for each in saved.positions] == [(0, "files", 3), (1, "files", 2)]
    for stream, rest in sides.values():
        stream.add(rest)

    joined = two.near_in_time(*(stream.stream() for stream in streams))
    with pytest.raises(
        CheckpointError, match=r"source=0.*in a join the left stream is 0 and the right stream is 1.*source_offsets='job'"
    ):
        joined.start(main=pst.MemorySink(), checkpoint=str(tmp_path / "refused"), savepoint=saved.path)

    read = pst.state.read_savepoint(spark, saved.path)
    without = [read.unread(stream.stream(), source=number) for number, stream in enumerate(streams)]
    rest, running = ran(two.near_in_time(*without), tmp_path / "new", savepoint=saved.path, source_offsets="job")
    whole, _ = ran(two.near_in_time(*(stream.stream() for stream in streams)), tmp_path / "whole")
    assert sorted(first + rest) == whole
    assert rest
    assert sum(one.rows for one in running.recent_progress) == sum(len(rows) for _, rows in sides.values())
