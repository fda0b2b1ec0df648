"""The operator's payloads become rows in Spark's workers. The test runs in this process."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa
import pytest

from panestream.engine.storage import payload
from panestream.spark.operator import task_functions
from panestream.spark.operator.task_functions import Unpack

SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string())])


def rows_of(*numbers):
    return pa.table({"n": list(numbers), "text": [str(number) for number in numbers]}, schema=SCHEMA)


def batch_of(*tables):
    return pa.record_batch({"body": pa.array([payload.encode(table) for table in tables], pa.binary())})


@pytest.fixture
def steps(monkeypatch):
    """Record the other steps of a worker, in order."""
    done = []
    monkeypatch.setattr(task_functions, "cache_zip_imports", lambda: done.append("archives"))
    monkeypatch.setattr(task_functions, "freeze_modules_once", lambda: done.append("freeze"))
    return done


def test_payloads_become_rows_in_their_order(steps):
    batches = [batch_of(rows_of(1, 2), rows_of(3)), batch_of(), batch_of(rows_of(4))]
    found = list(Unpack(SCHEMA)(batches))
    assert pa.Table.from_batches(found, SCHEMA).equals(rows_of(1, 2, 3, 4))
    assert all(isinstance(one, pa.RecordBatch) for one in found)
    assert steps == ["archives", "freeze"]


def test_unpacking_no_batches_gives_no_rows(steps):
    assert list(Unpack(SCHEMA)([])) == []
    assert steps == ["archives", "freeze"]


def test_unpacking_expands_pairs_of_a_join(steps):
    pairs = SimpleNamespace(opened=lambda table: [table.slice(0, 1), table.slice(0, 0), table])
    found = list(Unpack(SCHEMA, pairs)([batch_of(rows_of(1, 2), rows_of(3))]))
    assert pa.Table.from_batches(found, SCHEMA).column("n").to_pylist() == [1, 1, 2, 3, 3]
