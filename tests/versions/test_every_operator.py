"""On the installed Spark, each operator gives the same results as a restarted stream and as a batch."""

from __future__ import annotations

from datetime import timedelta

import pytest

import panestream as pst
from panestream.testing import MicroBatches
from tests.versions.carried import SCHEMA, START, USERS, count_visits, queries

# The ordinary run tests each operator separately. This test is for the matrix of versions. Late rows have no sink here.
pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:the output 'late' has no sink")]

SECONDS = ([0, 1, 2, 9, 12], [14, 16, 17, 21, 24])
CLOSING = ("zed", START + timedelta(seconds=1000), 1)


def every_operator():
    # Early firings of a stream are one firing in a batch, and a batch does not wait for processing time.
    chosen = {name: query for name, query in queries().items() if name not in ("row", "clock")}
    return {**chosen, "row": count_visits}


def shown(rows):
    return sorted(tuple(row) for row in rows if row["user"] != "zed")


def test_stream_restart_and_batch_agree_for_every_operator(spark, tmp_path):
    rows = MicroBatches(spark, tmp_path / "in", SCHEMA)
    found = {name: [] for name in every_operator()}
    for seconds in SECONDS:
        events = [(user, START + timedelta(seconds=one), 10 * one + USERS.index(user)) for one in seconds for user in USERS]
        rows.add(events if seconds is SECONDS[0] else [*events, CLOSING])
        for name, query in every_operator().items():
            sink = pst.MemorySink()
            query(rows.stream()).start(main=sink, checkpoint=str(tmp_path / name)).await_termination()
            found[name] += sink.rows
    in_batch = {name: shown(query(rows.batch()).main.collect()) for name, query in every_operator().items()}
    assert all(in_batch.values())
    assert {name: shown(each) for name, each in found.items()} == in_batch


def test_queries_cover_every_operator(spark, tmp_path):
    rows = MicroBatches(spark, tmp_path / "in", SCHEMA).add([CLOSING])
    names = {query(rows.stream()).plan.operator.name for query in queries().values()}
    assert len(names) == 5, names
