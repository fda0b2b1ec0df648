"""The visits of shoppers without session windows: one global window for each shopper, and a user-defined trigger that splits it.

Before Flink had session windows, its users wrote sessions in this way. It still shows the abilities of a trigger: timers, state,
and FIRE_AND_PURGE. For these clicks the visits equal those of shopper_sessions.py.

Session windows can do more. This trigger only has the time of the last click. It takes two visits for one if their clicks arrive
before the watermark passes between them. In a batch, the watermark advances only at the end, so all visits of a shopper become
one.

    python examples/session_trigger.py
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any

from pyspark.sql import DataFrame

import panestream as pst
from panestream.testing import MicroBatches
from shopper_sessions import CLICKS, CLICKS_SCHEMA, VISITS_SCHEMA

LAST_CLICK = pst.state.ReducingStateDescriptor("last click", max)


@dataclass(frozen=True)
class SessionTrigger(pst.triggers.Trigger):
    """Fires, and empties the window, when the watermark is ``gap`` (in microseconds) past the last click."""

    gap: int

    def on_element(self, element: Any, timestamp: int, window: pst.windows.GlobalWindow, ctx: Any) -> pst.triggers.TriggerResult:
        last = ctx.get_partitioned_state(LAST_CLICK)
        if last.get() is not None:
            ctx.delete_event_time_timer(self._end(last.get()))
        last.add(timestamp)
        ctx.register_event_time_timer(self._end(last.get()))
        return pst.triggers.TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: pst.windows.GlobalWindow, ctx: Any) -> pst.triggers.TriggerResult:
        ctx.get_partitioned_state(LAST_CLICK).clear()
        return pst.triggers.TriggerResult.FIRE_AND_PURGE

    def on_processing_time(self, time: int, window: pst.windows.GlobalWindow, ctx: Any) -> pst.triggers.TriggerResult:
        return pst.triggers.TriggerResult.CONTINUE

    def clear(self, window: pst.windows.GlobalWindow, ctx: Any) -> None:
        ctx.get_partitioned_state(LAST_CLICK).clear()

    def _end(self, last_click: int) -> int:
        """Return the last instant of the window, at which it fires."""
        return last_click + self.gap - 1


class Visit(pst.ProcessWindowFunction):
    """Describes a visit by its clicks."""

    def process(self, key: str, context: Any, elements: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
        clicks = sorted(elements, key=lambda click: click.at)
        yield clicks[0].at, clicks[-1].at, len(clicks), " > ".join(click.item for click in clicks)


def visits(clicks: DataFrame) -> pst.datastream.WindowedResult:
    """Return a row for each visit. The bounds of a global window, window_start and window_end, are null."""
    return (
        pst.stream(clicks)
        .assign_timestamps("at", pst.WatermarkStrategy.for_bounded_out_of_orderness("5 minutes"))
        .key_by("shopper")
        .window(pst.GlobalWindows.create())
        .trigger(SessionTrigger(gap=30 * 60 * 1_000_000))
        .process(Visit(), schema=VISITS_SCHEMA)
    )


def main() -> None:
    """Stream the clicks, and print the results of each micro-batch."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    spark = pst.build_session("session trigger", master="local[2]")
    spark.sparkContext.setLogLevel("ERROR")
    with TemporaryDirectory() as folder:
        clicks = MicroBatches(spark, f"{folder}/clicks", CLICKS_SCHEMA)
        for batch in CLICKS:
            clicks.add(batch)
        query = visits(clicks.stream()).start(main=pst.ConsoleSink(), checkpoint=f"{folder}/checkpoint")
        query.await_termination()


if __name__ == "__main__":
    main()
