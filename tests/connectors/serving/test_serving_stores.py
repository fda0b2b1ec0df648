"""Real PostgreSQL and Redis: repeated micro-batches, deletes, restarts, two copies, and what is refused. Rows come from Arrow."""

from __future__ import annotations

import threading
import uuid
from datetime import datetime, timezone
from decimal import Decimal

import pyarrow as pa
import pytest

import panestream as pst
from panestream.errors import FencedError, SinkError
from panestream.spark.sinks.base import QueryRunInfo
from tests.connectors.serving.writer import Rows, rows, run_of

pytestmark = pytest.mark.connectors

SECRET = "SERVING_PASSWORD"
AT = datetime(2026, 3, 2, 9, tzinfo=timezone.utc)


@pytest.fixture(params=["postgres", "redis_server"])
def make(request):
    """Return a function that makes sinks of one new place."""
    server, name = request.getfixturevalue(request.param), f"t_{uuid.uuid4().hex[:12]}"

    def sink(keys=("card",), **more):
        kind = pst.sinks.PostgresSink if request.param == "postgres" else pst.sinks.RedisSink
        return kind(server.address, name, keys=list(keys), password_variable=SECRET, **more)

    sink.server, sink.name = server, name
    return sink


def opened(sink, run, first=None, batch=0):
    found = sink.open(None, run)
    found.begin(first if first is not None else CHANGES, batch)
    return found


CHANGES = rows(card=["ann", "bob"], spent=[1, 2], op=["insert", "insert"])


def test_repeated_micro_batch_and_restart_leave_the_same_rows(make):
    sink = opened(make(), run_of(1))
    sink.write(CHANGES, 0)
    sink.write(CHANGES, 0)
    again = opened(make(), run_of(2, written=True, began=0), batch=0)
    again.write(CHANGES, 0)
    again.write(rows(card=["ann"], spent=[5], op=["update_after"]), 1)
    assert [make().lookup(card) for card in ("ann", "bob", "cid")] == [
        {"card": "ann", "spent": 5},
        {"card": "bob", "spent": 2},
        None,
    ]


def test_delete_removes_the_row_of_its_key_only(make):
    sink = opened(make(), run_of())
    sink.write(CHANGES, 0)
    for _ in range(2):
        sink.write(rows(card=["ann", "nobody", "cid"], spent=[1, 0, 3], op=["delete", "delete", "insert"]), 1)
    assert [make().lookup(card) for card in ("ann", "bob", "cid")] == [
        None,
        {"card": "bob", "spent": 2},
        {"card": "cid", "spent": 3},
    ]


def test_older_copy_is_fenced_by_the_store_itself(make):
    older = opened(make(), run_of(1))
    older.write(CHANGES, 0)
    newer = opened(make(), run_of(2), batch=1)
    newer.write(rows(card=["ann"], spent=[9], op=["update_after"]), 1)
    with pytest.raises(FencedError, match="another copy of this query was started later"):
        older.write(rows(card=["ann", "bob"], spent=[-1, -1], op=["update_after", "delete"]), 1)
    with pytest.raises(FencedError):
        older.begin(CHANGES, 1)
    assert [make().lookup(card)["spent"] for card in ("ann", "bob")] == [9, 2]


def test_two_copies_at_the_same_time_leave_the_values_of_the_later_one(make):
    """The older copy writes without pause while the later one takes over."""
    older, count, errors = opened(make(), run_of(1)), threading.Event(), []

    def write():
        try:
            for number in range(100_000):
                older.write(rows(card=["ann", "bob"], spent=[-number, -number], op=["insert", "insert"]), number)
                count.set()
        except FencedError as error:
            errors.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    assert count.wait(20)
    newer = opened(make(), run_of(2), batch=1)
    newer.write(rows(card=["ann", "bob"], spent=[7, 7], op=["insert", "insert"]), 1)
    thread.join(20)
    assert len(errors) == 1
    assert [make().lookup(card)["spent"] for card in ("ann", "bob")] == [7, 7]


def test_place_of_another_query_is_refused_at_the_start(make):
    opened(make(), run_of(1, "one"))
    with pytest.raises(SinkError, match=r"belongs to another query \(one\)"):
        make().open(None, run_of(1, "other"))
    # A query that continues from a savepoint takes over; its predecessor may return until the first commit.
    successor = opened(make(), run_of(1, "new", others=["one"]))
    make().open(None, run_of(2, "one"))
    successor.on_first_commit(CHANGES)
    with pytest.raises(SinkError, match=r"belongs to another query \(new\)"):
        make().open(None, run_of(2, "one"))


def test_store_without_the_fence_of_a_written_place_is_refused(make):
    with pytest.raises(SinkError, match="has no fence, and this query committed micro-batches to it"):
        make().open(None, run_of(written=True))


def test_rows_of_a_batch_are_written_and_written_again(make):
    for spent in (1, 2):
        sink = make().open(None, QueryRunInfo())
        sink.write(rows(card=["ann"], spent=[spent]), None)
    assert make().lookup("ann") == {"card": "ann", "spent": 2}


def test_values_of_all_types_come_back(make):
    columns = {
        "card": pa.array(["a:'ü\\\t%"]),
        "big": pa.array([2**62]),
        "yes": pa.array([True]),
        "price": pa.array([Decimal("12345678901234.5678")], pa.decimal128(38, 4)),
        "at": pa.array([AT], pa.timestamp("us", "Asia/Tokyo")),
        "none": pa.array([None], pa.string()),
        "tags": pa.array([["x", None]]),
        "top": pa.array([[{"item": 7, "at": AT}]]),
    }
    opened(make(), run_of(), Rows(pa.table(columns))).write(Rows(pa.table(columns)), 0)
    found = make().lookup("a:'ü\\\t%")
    is_redis = "Redis" in make().describe()
    assert found.pop("price") == ("12345678901234.5678" if is_redis else Decimal("12345678901234.5678"))
    assert found.pop("at") == ("2026-03-02T09:00:00.000000Z" if is_redis else AT)
    assert found == {
        "card": "a:'ü\\\t%",
        "big": 2**62,
        "yes": True,
        "none": None,
        "tags": ["x", None],
        "top": [{"item": 7, "at": "2026-03-02T09:00:00.000000Z"}],
    }


def test_many_rows_are_written_whole(make):
    many = rows(card=[f"c{number}" for number in range(2500)], spent=list(range(2500)))
    sink = opened(make(), run_of(), many)
    sink.write(many, 0)
    assert [make().lookup(f"c{number}")["spent"] for number in (0, 999, 1000, 2499)] == [0, 999, 1000, 2499]


def test_wrong_password_is_not_in_the_error(make, monkeypatch):
    monkeypatch.setenv(SECRET, "a-wrong-one")
    with pytest.raises(SinkError) as error:
        make().open(None, run_of())
    assert "a-wrong-one" not in str(error.value)
    assert make().describe() in str(error.value)


def test_postgres_table_without_unique_index_is_refused_with_the_way_out(postgres):
    name = f"plain_{uuid.uuid4().hex[:8]}"
    postgres.rows(f"CREATE TABLE {name} (card text, spent bigint)")
    sink = opened(pst.sinks.PostgresSink(postgres.address, name, keys=["card"], password_variable=SECRET), run_of())
    with pytest.raises(SinkError, match="has no primary key or unique index on exactly its key columns"):
        sink.write(CHANGES, 0)


def test_postgres_shows_a_micro_batch_whole_or_not_at_all(postgres):
    name = f"checked_{uuid.uuid4().hex[:8]}"
    postgres.rows(f"CREATE TABLE {name} (card text PRIMARY KEY, spent bigint CHECK (spent < 100))")
    sink = opened(pst.sinks.PostgresSink(postgres.address, name, keys=["card"], password_variable=SECRET), run_of())
    sink.write(CHANGES, 0)
    with pytest.raises(SinkError, match=f"PostgreSQL table {name}.*check constraint"):
        sink.write(rows(card=["ann", "bob"], spent=[50, 500]), 1)
    assert postgres.rows(f"SELECT card, spent FROM {name} ORDER BY card") == [("ann", 1), ("bob", 2)]
    assert postgres.rows(f"SELECT batch FROM panestream_fences WHERE target = '{name}'") == [(0,)]


def test_redis_key_expires_after_its_last_change(redis_server):
    sink = pst.sinks.RedisSink(redis_server.address, "short", keys=["card"], password_variable=SECRET, expire_seconds=100)
    opened(sink, run_of()).write(CHANGES, 0)
    with redis_server.client() as client:
        assert 0 < client.ttl("short:ann") <= 100
        assert client.ttl("short:#fence") == -1


def test_emptied_redis_is_noticed_by_the_next_micro_batch(redis_server):
    sink = opened(pst.sinks.RedisSink(redis_server.address, "emptied", keys=["card"], password_variable=SECRET), run_of())
    with redis_server.client() as client:
        client.delete("emptied:#fence")
    with pytest.raises(SinkError, match="lost its fence while the query ran"):
        sink.write(CHANGES, 0)
