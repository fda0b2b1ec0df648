"""Made-up runs for pages."""

from __future__ import annotations

import random

from panestream.insight.report import DONE, FAILED, STOPPED
from panestream.insight.report_points import LEVELS, ObservedDelays
from panestream.insight.report_recording import RunReport
from panestream.spark.progress.micro_batch import BatchProgress, PartitionProgress

BEGAN = 1_767_225_600_000_000
"""2026-01-01, midnight UTC, in microseconds."""
SECOND = 1_000_000
DELAY = 60 * SECOND


def progress(number: int, draw: random.Random, groups: int = 4) -> BatchProgress:
    """Return a micro-batch of ten seconds of event time."""
    rows = draw.randrange(8_000, 12_000)
    newest = BEGAN + 10 * SECOND * (number + 1)
    late = draw.randrange(0, 40) if number % 7 == 3 else 0
    return BatchProgress(
        batch_id=number, rows=rows, duration_ms=draw.randrange(300, 900), rows_per_second=rows / 0.6,
        watermark=newest - DELAY - 1, max_event_time=newest, watermark_before=newest - 10 * SECOND - DELAY - 1 if number else None,
        late_rows=late, invalid_rows=0, windowed_rows=rows - late, dropped_rows=0, fired_rows=400 if number % 6 == 5 else 0,
        fired_windows=1 if number % 6 == 5 else 0, on_time_firings=400 if number % 6 == 5 else 0, late_firings=late,
        open_windows=2 + number % 3, state_bytes=200_000 + 500 * number, state_calls=12, groups=groups, groups_reporting=groups,
        most_rows=int(rows / groups * (1.2 + draw.random())), most_rows_group=draw.choice([0, 0, 0, 2]), most_bytes=90_000,
        most_bytes_group=0, operator_us=80_000, most_us=30_000, most_us_group=0, partition_count=2,
        partitions=(
            PartitionProgress("topic:0", newest - 5 * SECOND, newest - DELAY - 5 * SECOND, idle=False),
            PartitionProgress("<b>topic:1</b>", newest, newest - DELAY, idle=True),
        ),
    )  # fmt: skip


def times_of(one: BatchProgress, draw: random.Random) -> tuple[int, list[int]]:
    """Return the observations that Spark would make of a micro-batch."""
    newest = one.max_event_time or 0
    times = sorted(newest - int(draw.expovariate(1 / 20) * SECOND) for _ in range(2_000))
    return one.rows, [times[min(int(level * 2_000), 1_999)] for level in LEVELS]


def recorded(batches: int = 120, groups: int = 4) -> RunReport:
    """Return a report of some micro-batches, one second each."""
    draw, report = random.Random(7), RunReport()
    run = report.run
    run.name, run.started, run.ended, run.outcome = "clicks", BEGAN, BEGAN + batches * SECOND, DONE
    run.told = [("windows", "TumblingEventTimeWindows.of('1 minute')"), ("source", "data/clicks (csv)")]
    run.plan, run.delay, run.times, run.by_windows = "operator   aligned panes", DELAY, ObservedDelays(DELAY), True
    run.checkpoint, run.settings = "out/checkpoint", [("spark.master", "local[2]")]
    for number in range(batches):
        one = progress(number, draw, groups)
        report._take(one, BEGAN + number * SECOND)
        run.times.add(*times_of(one, draw), one.watermark_before)
    return report


def failed() -> RunReport:
    """Return a run that failed before its first micro-batch, with text that contains HTML and control characters."""
    report = RunReport("<script>alert(1)</script>")
    report.run.outcome, report.run.error, report.run.ended = FAILED, "SinkError: <img src=x onerror=alert(2)>\x1b[2J", BEGAN + 1
    report.run.started = BEGAN
    return report


def stopped() -> RunReport:
    """Return a stopped run of one micro-batch and one key group, without observed event times."""
    report = recorded(1, groups=1)
    report.run.outcome, report.run.times = STOPPED, None
    return report


EVERY = {"two minutes": recorded, "failed": failed, "stopped": stopped, "long": lambda: recorded(3_000)}
