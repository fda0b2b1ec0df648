"""Silence and signals through the processor that Spark runs, on stores in memory, with timers like Spark's."""

import json
from dataclasses import replace

import pyarrow as pa
import pytest
from pyspark.sql.streaming.stateful_processor import TimerValues
from pyspark.sql.types import Row

from panestream.engine.exchange.group_run import METRICS
from panestream.engine.exchange.packing import PackColumns
from panestream.engine.plan import MAIN
from panestream.spark.checkpoint.control_messages import END_WORD, PackSignals
from panestream.spark.compat import group_values
from panestream.spark.operator.processor import RestartInfo, SparkState, WindowProcessor
from panestream.spark.operator.task_functions import Pack
from panestream.windowing.watermarks import WatermarkStrategy
from tests.conformance.executors.processor import MemoryHandle
from tests.engine.exchange.test_exchange import plan

GROUPS, SECOND = 3, 1_000_000
CLOSING = WatermarkStrategy.for_monotonous_timestamps().closing_after("30 seconds")


def closing_windows(watermark=CLOSING, **more):
    """Windows of a second."""
    return replace(plan(GROUPS), watermark=watermark, **more)


class Query:
    """The key groups of a query, and micro-batches as Spark runs them: rows first, then expired timers."""

    def __init__(self, query_plan, monkeypatch):
        self.plan, self.handles, self.number = query_plan, [MemoryHandle() for _ in range(GROUPS)], -1
        monkeypatch.setattr(SparkState, "micro_batch", property(lambda _: self.number))
        self.run()

    def run(self, name="1", planned=-1, earlier=""):
        """Start a run."""
        self.processor = WindowProcessor(self.plan, RestartInfo(name, planned, earlier))

    def micro_batch(self, clock, parts=()):
        """Run a micro-batch. Return how many results came, and the watermark of each key group."""
        self.number += 1
        fired, watermarks, now = 0, [], TimerValues(clock, -1)
        for value, handle in zip(group_values(GROUPS), self.handles, strict=True):
            self.processor.init(handle)
            mine, emitted = [row for row in parts if row.group == value], []
            if mine:
                emitted += self.processor.handleInputRows((value,), iter(mine), now)
            for expiry in [timer for timer in handle.listTimers() if timer <= clock]:
                emitted += self.processor.handleExpiredTimer((value,), now, None)
                handle.deleteTimer(expiry)
            told = [json.loads(row.body) for row in emitted if row.tag == METRICS]
            watermarks += [one["watermark"] for one in told]
            fired += sum(one["outputs"].get(MAIN, 0) for one in told)
        return fired, watermarks

    def rows(self, *times):
        """Make rows of keys 0, 1, …, each in the key group of its number, like the exchange."""
        keys = pa.array(range(len(times)), pa.int64())
        row = pa.StructArray.from_arrays([keys, keys], ["key", "value"])
        groups = pa.array([key % GROUPS for key in range(len(times))], pa.int32())
        table = pa.table({"time": pa.array(times), "key": keys, "group": groups, "row": row})
        return self._sent(Pack(self.plan, PackColumns((pa.int64(),), (), group=2, row=3))(table.to_batches()))

    def word(self, word):
        """Make a signal like the exchange."""
        return self._sent(PackSignals(self.plan)([pa.record_batch({"value": [word]})]))

    @staticmethod
    def _sent(batches):
        return [Row(**row) for batch in batches for row in pa.Table.from_batches([batch]).to_pylist()]


def test_silence_wakes_all_key_groups_and_closes_their_windows(monkeypatch):
    query = Query(closing_windows(), monkeypatch)
    # One key group has a row, and the others get its time.
    assert query.micro_batch(100_000, query.rows(100 * SECOND)) == (0, [100 * SECOND - 1] * GROUPS)
    # They check every three seconds until the silence is long enough.
    assert query.micro_batch(102_999) == (0, [])
    assert query.micro_batch(103_000) == (0, [100 * SECOND - 1] * GROUPS)
    assert query.micro_batch(105_999) == (0, [])
    assert query.micro_batch(129_999) == (0, [100 * SECOND - 1] * GROUPS)
    assert query.micro_batch(130_000) == (1, [130 * SECOND - 1] * GROUPS)
    assert query.micro_batch(133_000) == (0, [133 * SECOND - 1] * GROUPS)
    assert query.micro_batch(135_999) == (0, [])
    assert query.micro_batch(136_400) == (0, [136_400_000 - 1] * GROUPS)
    # Older rows that come now are late, and the silence has ended.
    assert query.micro_batch(136_500, query.rows(100 * SECOND, 137 * SECOND))[0] == 0
    assert query.micro_batch(166_000) == (0, [137 * SECOND - 1] * GROUPS)
    assert query.micro_batch(166_500) == (1, [167 * SECOND - 1] * GROUPS)


def test_down_time_does_not_count_as_silence_and_repeated_micro_batch_agrees(monkeypatch):
    query = Query(closing_windows(), monkeypatch)
    query.micro_batch(100_000, query.rows(100 * SECOND))
    saved = [(dict(handle.values), set(handle.timers)) for handle in query.handles]
    assert query.micro_batch(130_000) == (1, [130 * SECOND - 1] * GROUPS)
    # The micro-batch was interrupted. It runs again an hour later with its old processing time.
    for handle, (values, timers) in zip(query.handles, saved, strict=True):
        handle.values, handle.timers = dict(values), set(timers)
    query.number -= 1
    query.run("2", planned=1, earlier="1")
    assert query.micro_batch(130_000) == (1, [130 * SECOND - 1] * GROUPS)
    assert query.micro_batch(3_730_000) == (0, [130 * SECOND - 1] * GROUPS)
    assert query.micro_batch(3_733_000) == (0, [133 * SECOND - 1] * GROUPS)


def test_query_that_ends_sets_no_timer(monkeypatch):
    query = Query(closing_windows(ends=True), monkeypatch)
    query.micro_batch(100_000, query.rows(100 * SECOND))
    assert not any(handle.timers for handle in query.handles)


@pytest.mark.parametrize("watermark", [CLOSING, WatermarkStrategy.for_monotonous_timestamps()], ids=["closing", "plain"])
def test_end_signal_closes_windows_in_a_micro_batch_without_rows(monkeypatch, watermark):
    query = Query(closing_windows(watermark, ends=True), monkeypatch)
    query.micro_batch(1, query.rows(10 * SECOND + 5))
    assert query.micro_batch(2, query.word("begin")) == (0, [])
    # With rows in the same micro-batch, the signal is ignored.
    assert query.micro_batch(3, [*query.rows(11 * SECOND + 3), *query.word(END_WORD)]) == (1, [11 * SECOND + 2] * GROUPS)
    assert query.micro_batch(4, query.word(END_WORD)) == (1, [12 * SECOND - 1] * GROUPS)
    assert query.micro_batch(5, query.word(END_WORD)) == (0, [12 * SECOND - 1] * GROUPS)
    # The next run continues. One row is late, the other is not.
    query.run("2", planned=4, earlier="1")
    assert query.micro_batch(6, query.rows(11 * SECOND + 9, 12 * SECOND)) == (0, [12 * SECOND - 1] * GROUPS)
    assert query.micro_batch(7, query.word(END_WORD)) == (1, [13 * SECOND - 1] * GROUPS)


def test_end_signal_before_any_row_closes_nothing(monkeypatch):
    query = Query(closing_windows(ends=True), monkeypatch)
    assert query.micro_batch(1, query.word(END_WORD)) == (0, [None] * GROUPS)
