"""Keyed process functions compared with the same logic written by hand for ``transformWithState``, as streams.

``timers``: the first row of a key registers a timer a minute later, rows are counted, and the timer emits the count and clears
it. Keys come for two micro-batches, so timers fire all the time. ``each row``: each row is emitted with the difference to the
row before. The contestants by hand read and write their one state once for each key and micro-batch: as rows (``rows by hand``)
and as pandas frames (``frames by hand``).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, StatefulProcessor, StatefulProcessorHandle, TimerValues

import panestream as pst
from benchmarks.features.contest import BEGIN, CORES, SECOND, Contest, Contestant, cut, start, stream_of, to_files, write_parts

MINUTE_MS = 60_000
BATCHES, BATCH_SECONDS = 6, 30


def write(folder: Path, scale: float, keys: int, rows: int) -> int:
    """Write some rows of each key in each micro-batch. Other keys come in every third one."""
    keys = max(100, int(keys * scale))
    count = rows * keys * BATCHES
    numbers = np.arange(count)
    batch = numbers // (rows * keys)
    times = BEGIN + numbers * (BATCH_SECONDS * SECOND) // (rows * keys)
    key = batch // 2 * keys + numbers * 7919 % keys
    write_parts(folder / "rows", cut({"key": key, "value": numbers * 31 % 1000, "at": times}, BATCHES))
    return count


class Counting(pst.functions.KeyedProcessFunction):
    """Counts the rows of a key from the first until its timer."""

    COUNT = pst.state.ValueStateDescriptor("count")

    def process_element(self, value: Any, ctx: Any) -> None:
        count = ctx.get_state(self.COUNT)
        known = count.value()
        if known is None:
            ctx.timer_service().register_event_time_timer(ctx.timestamp() + 1_000 * MINUTE_MS)
        count.update((known or 0) + 1)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[tuple[int]]:
        count = ctx.get_state(self.COUNT)
        yield (count.value(),)
        count.clear()


class Difference(pst.functions.KeyedProcessFunction):
    """Emits each row with the difference to the row before."""

    LAST = pst.state.ValueStateDescriptor("last")

    def process_element(self, value: Any, ctx: Any) -> Iterator[tuple[int, int | None]]:
        last = ctx.get_state(self.LAST)
        before = last.value()
        yield value.value, None if before is None else value.value - before
        last.update(value.value)


class ByHand(StatefulProcessor):
    """A processor with one value in its state."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.state = handle.getValueState("known", "known bigint")

    def known(self) -> int | None:
        """Return the value in the state."""
        state = self.state.get()
        return None if state is None else int(state[0])

    def close(self) -> None:
        pass


class CountingByHand(ByHand):
    """``Counting`` for rows."""

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:
        times = [ms for _, _, ms in rows]
        self._count(times[0], len(times))
        return iter(())

    def handleExpiredTimer(self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo) -> Iterator[Any]:
        count = self.known()
        self.state.clear()
        return iter([self._result(key[0], count)])

    def _count(self, first: int, count: int) -> None:
        known = self.known()
        if known is None:
            self.handle.registerTimer(first + MINUTE_MS)
        self.state.update(((known or 0) + count,))

    def _result(self, key: int, count: int | None) -> Any:
        return Row(key=key, n=count)


class CountingFrames(CountingByHand):
    """``Counting`` for frames."""

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: TimerValues) -> Iterator[Any]:
        frames = list(rows)
        self._count(int(frames[0]["ms"].iloc[0]), sum(map(len, frames)))
        return iter(())

    def _result(self, key: int, count: int | None) -> Any:
        return pd.DataFrame({"key": [key], "n": [count]})


_Different = Row("key", "value", "difference")


class DifferenceByHand(ByHand):
    """``Difference`` for rows."""

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:
        before, found = self.known(), []
        for name, value, _ in rows:
            found.append(_Different(name, value, None if before is None else value - before))
            before = value
        self.state.update((before,))
        return iter(found)


class DifferenceFrames(ByHand):
    """``Difference`` for frames."""

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: TimerValues) -> Iterator[Any]:
        values = pd.concat([frame["value"] for frame in rows], ignore_index=True)
        before = values.shift(fill_value=0)
        difference = (values - before).astype("Int64")
        known = self.known()
        difference[0] = pd.NA if known is None else values[0] - known
        self.state.update((int(values.iloc[-1]),))
        yield pd.DataFrame({"key": key[0], "value": values, "difference": difference})


def of_panestream(
    function: pst.functions.KeyedProcessFunction, schema: str, spark: SparkSession, source: Path, folder: Path
) -> None:
    """Run a function of panestream."""
    keyed = pst.stream(stream_of(spark, source / "rows"), time="at", out_of_orderness="1 second").key_by("key")
    start(keyed.process(function, schema, key_groups=CORES), folder)


def by_hand(processor: StatefulProcessor, schema: str, frames: bool, spark: SparkSession, source: Path, folder: Path) -> None:
    """Run a processor by hand."""
    # Integers are much cheaper to transfer to Python than timestamps.
    rows = (
        stream_of(spark, source / "rows").withWatermark("at", "1 second").select("key", "value", F.unix_millis("at").alias("ms"))
    )
    keyed = rows.groupBy("key")
    run = keyed.transformWithStateInPandas if frames else keyed.transformWithState
    to_files(run(processor, f"key bigint, {schema}", "append", "eventTime"), folder)


def _contest(
    name: str,
    title: str,
    function: pst.functions.KeyedProcessFunction,
    rows: ByHand,
    frames: ByHand,
    schema: str,
    *,
    keys: int = 5_000,
    each: int = 10,
) -> Contest:
    contestants: dict[str, Contestant] = {
        "panestream": partial(of_panestream, function, schema),
        "rows by hand": partial(by_hand, rows, schema, False),
        "frames by hand": partial(by_hand, frames, schema, True),
    }
    title = f"process function, {title}, {keys:,} keys in a micro-batch, rows of each: {each}, stream"
    return Contest(name, title, contestants, partial(write, keys=keys, rows=each), {"rows by hand": 5.0, "frames by hand": 5.0})


_COUNTING = "timers", Counting(), CountingByHand(), CountingFrames(), "n bigint"
_DIFFERENCE = "a result for each row", Difference(), DifferenceByHand(), DifferenceFrames(), "value bigint, difference bigint"
CONTESTS = [
    _contest("process-timers", *_COUNTING),
    _contest("process-rows", *_DIFFERENCE),
    _contest("process-timers-50000", *_COUNTING, keys=50_000, each=1),
    _contest("process-rows-50000", *_DIFFERENCE, keys=50_000, each=1),
]
