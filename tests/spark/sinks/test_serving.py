"""The changes by key, the fence and the refusals of sinks for serving stores, without a server and without Spark."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from decimal import Decimal

import pyarrow as pa
import pytest

import panestream as pst
from panestream.errors import FencedError, PanestreamWarning, SinkError
from panestream.spark.checkpoint.epoch import Epoch
from panestream.spark.sinks.base import QueryRunInfo
from panestream.spark.sinks.postgres import type_of
from panestream.spark.sinks.redis import RedisSink
from panestream.spark.sinks.serving import Fence, _map_key, as_record, check_age

DSN, URL = "host=db dbname=shop user=etl", "redis://cache:6379/0"
POSTGRES, REDIS = pst.sinks.PostgresSink(DSN, "shop.spending", keys=["card"]), RedisSink(URL, "spending", keys=["card"])


def run_of(number=1, query="q", **more):
    return QueryRunInfo(
        query, epoch=Epoch("/checkpoint", number, "ab"), queries=frozenset({query, *more.pop("others", ())}), **more
    )


def changes(rows, **run):
    sink = pst.sinks.PostgresSink(DSN, "spending", keys=["card"], run=QueryRunInfo("q", **run))
    found = sink.changes(pa.Table.from_pylist(rows))
    return found.upserts, found.deletes


def test_changelog_becomes_upserts_and_deletes_by_key():
    rows = [
        {"card": "ann", "spent": 1, "op": "update_before"},
        {"card": "ann", "spent": 2, "op": "update_after"},
        {"card": "bob", "spent": 3, "op": "insert"},
        {"card": "cid", "spent": 4, "op": "delete"},
    ]
    assert changes(rows) == ([("ann", 2), ("bob", 3)], [("cid",)])
    # A user's own column with that name is stored.
    assert changes([{"card": "ann", "op": "delete"}], added=frozenset()) == ([("ann", "delete")], [])


def test_latest_row_of_rolling_values_stays():
    rows = [{"card": "ann", "as_of": at, "spent": at} for at in (2, 3, 1)]
    assert changes(rows, holds_from="as_of") == ([("ann", 3, 3)], [])


def test_two_rows_of_a_key_without_order_are_refused():
    with pytest.raises(SinkError, match=r"PostgreSQL table spending: a micro-batch has two rows for one key \(card = ann\)"):
        changes([{"card": "ann", "n": 1}, {"card": "ann", "n": 2}])


def test_null_key_is_refused_with_its_column():
    with pytest.raises(SinkError, match="the key column 'card' is null in a row: replace it"):
        changes([{"card": "ann", "n": 1}, {"card": None, "n": 2}])


def test_windows_are_part_of_the_key_of_main_only():
    names = ["card", "window_start", "window_end", "n"]
    assert POSTGRES.identity(names) == ["card", "window_start", "window_end"]
    late = pst.sinks.PostgresSink(DSN, "late", keys=["card"], run=QueryRunInfo("q", "late"))
    assert late.identity(names) == ["card"]


def test_column_that_no_store_takes_is_refused_with_its_type():
    rows = pa.table({"card": ["ann"], "took": pa.array([1], pa.duration("us"))})
    with pytest.raises(SinkError, match=r"the column 'took' is of type duration\[us\]: cast it"):
        POSTGRES.changes(rows)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: pst.sinks.PostgresSink(DSN, "a;b", keys=["k"]), "'table' or 'schema.table' in plain names, got 'a;b'"),
        (lambda: pst.sinks.PostgresSink(DSN, "t" * 64, keys=["k"]), "is longer than PostgreSQL's 63 bytes"),
        (lambda: pst.sinks.PostgresSink(DSN, "t", keys="k"), r"write \['k'\]"),
        (lambda: pst.sinks.PostgresSink(DSN, "t", keys=[]), "needs at least one key column"),
        (lambda: pst.sinks.PostgresSink(f"{DSN} password=x", "t", keys=["k"]), "a DSN contains a password"),
        (lambda: pst.sinks.PostgresSink("postgresql://etl:x@db/shop", "t", keys=["k"]), "a DSN contains a password"),
        (lambda: pst.sinks.PostgresSink("postgresql://etl:x/y@db/shop", "t", keys=["k"]), "a DSN contains a password"),
        (lambda: RedisSink("redis://:x@cache:6379", "p", keys=["k"]), "a URL contains a password"),
        (lambda: RedisSink("redis://cache:6379?password=x", "p", keys=["k"]), "a URL contains a password"),
        (lambda: RedisSink("cache:6379", "p", keys=["k"]), "needs a URL such as redis://localhost:6379/0"),
        (lambda: RedisSink(URL, "", keys=["k"]), "needs a prefix"),
        (
            lambda: RedisSink(URL, "p", keys=["k"], expire_seconds=0),
            "expire_seconds must be a number of seconds from 1 on, got 0",
        ),
        (lambda: RedisSink(URL, "p", keys=["k"], password_variable="my secret!"), "is the name of an environment variable"),
    ],
)
def test_wrong_serving_sink_is_refused_without_its_password(make, said):
    with pytest.raises(SinkError, match=said) as error:
        make()
    assert "my secret" not in str(error.value)


def test_missing_password_variable_is_named(monkeypatch):
    monkeypatch.delenv("NO_SUCH", raising=False)
    with pytest.raises(SinkError, match="the environment variable NO_SUCH with the password is not set"):
        RedisSink(URL, "p", keys=["k"], password_variable="NO_SUCH").password()


def test_address_is_not_in_the_text_of_a_sink():
    assert "db" not in repr(POSTGRES)
    assert "cache" not in repr(REDIS)


def test_missing_key_column_and_long_column_are_refused_before_the_start():
    with pytest.raises(SinkError, match=r"the rows for PostgreSQL table shop\.spending have no key column 'card'"):
        POSTGRES.check_columns(["crad"])
    with pytest.raises(SinkError, match="longer than PostgreSQL's 63 bytes"):
        POSTGRES.check_columns(["card", "c" * 64])


def test_later_run_takes_the_fence_and_an_earlier_one_is_refused():
    held = Fence.of(run_of(1), batch=4)
    taken = held.taken_by(run_of(2), "p")
    assert (taken.run, taken.batch, taken.is_of(run_of(2)), taken.is_of(run_of(1))) == (2, 4, True, False)
    with pytest.raises(FencedError):
        taken.taken_by(run_of(1), "p")


def test_successor_takes_the_fence_and_its_predecessor_may_return_until_the_first_commit():
    taken = Fence.of(run_of(7, "old"), batch=4).taken_by(run_of(1, "new", others=["old"]), "p")
    assert (taken.query, taken.previous, taken.batch) == ("new", "old", 4)
    assert taken.taken_by(run_of(8, "old"), "p").query == "old"
    committed = Fence("new", "", 1, "ab", 5)
    with pytest.raises(SinkError, match=r"p belongs to another query \(new\)"):
        committed.taken_by(run_of(8, "old"), "p")


def test_store_that_lost_its_fence_is_refused_and_an_older_one_warned_of():
    check_age(None, run_of(), "p")
    check_age(Fence.of(run_of(), batch=3), run_of(written=True, began=3), "p")
    with pytest.raises(SinkError, match="p has no fence, and this query committed micro-batches to it"):
        check_age(None, run_of(written=True), "p")
    with pytest.warns(PanestreamWarning, match="p ends with micro-batch 2, and the checkpoint committed micro-batch 3"):
        check_age(Fence.of(run_of(), batch=2), run_of(written=True, began=3), "p")


def test_keys_in_redis_cannot_collide():
    at = datetime(2026, 3, 2, 9, tzinfo=timezone.utc)
    assert REDIS.key_of(["a:b", "c"]) != REDIS.key_of(["a", "b:c"])
    assert REDIS.key_of(["ann", at]) == "spending:ann:2026-03-02T09%3A00%3A00.000000Z"
    assert REDIS.key_of([7]) == "spending:7"
    assert REDIS.key_of(["#fence"]) != REDIS.fence_key


def test_row_becomes_json_with_nested_values():
    schema = pa.schema(
        {
            "price": pa.decimal128(10, 2),
            "at": pa.timestamp("us", "UTC"),
            "by_item": pa.map_(pa.int64(), pa.list_(pa.struct({"n": pa.int64()}))),
            "none": pa.string(),
        }
    )
    row = {"price": Decimal("1.50"), "at": datetime(2026, 3, 2, tzinfo=timezone.utc), "by_item": [(7, [{"n": 1}])], "none": None}
    assert json.loads(as_record(row, schema)) == {
        "price": "1.50",
        "at": "2026-03-02T00:00:00.000000Z",
        "by_item": {"7": [{"n": 1}]},
        "none": None,
    }
    with pytest.raises(ValueError, match="Out of range float"):
        as_record({"x": float("nan")}, pa.schema({"x": pa.float64()}))


@pytest.mark.parametrize(
    ("type_", "said"),
    [
        (pa.int64(), "bigint"),
        (pa.int8(), "smallint"),
        (pa.float32(), "real"),
        (pa.decimal128(38, 4), "numeric(38, 4)"),
        (pa.timestamp("us", "Asia/Tokyo"), "timestamptz"),
        (pa.timestamp("us"), "timestamp"),
        (pa.list_(pa.string()), "jsonb"),
        (pa.map_(pa.string(), pa.int64()), "jsonb"),
    ],
)
def test_column_has_a_type_in_postgresql(type_, said):
    assert type_of(pa.field("x", type_), "p") == said


def test_run_without_an_epoch_has_the_earliest_fence():
    alone = QueryRunInfo("q")
    assert Fence.of(alone) == Fence("q", "", 0, "", -1)
    assert Fence.of(alone).is_of(alone)


def test_keys_of_maps_are_texts():
    noon = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
    assert [_map_key(key) for key in ("a", 3, noon)] == ["a", "3", "2026-01-01T12:00:00.000000Z"]
