"""The workloads of the slide sweep (:mod:`benchmarks.flink.slides`): one hour, ever more often."""

from __future__ import annotations

from benchmarks.flink.workloads import FLINK_BACKENDS, Workload, sliding

SIZE_MS = 3_600_000
SLIDES_MS = (3_600_000, 600_000, 60_000, 10_000, 1_000)
KEYS, RATE = 100, 1_000
"""At the shortest slide, every key has a result every second. Ten events for each make sure that events are measured."""
LEAST_ROWS, MOST_ROWS = 20_000, 7_200_000
"""Fast contestants get two hours of events. Others get less than an hour, so that all their windows end with the input."""
COPIES_PER_SECOND = {"native": 1_500_000, "flink heap": 2_000_000, "flink rocksdb": 400_000}
"""The approximate number of window sums that each updates in a second, to choose the number of events."""
CONTESTANTS = ("panestream", "native", *FLINK_BACKENDS)


def slide_workload(slide_ms: int) -> Workload:
    """Return one point of the sweep. Its name is the slide in ms."""
    most = dict.fromkeys(CONTESTANTS, MOST_ROWS)
    return sliding(str(slide_ms), f"1 h / {slide_ms // 1000} s", SIZE_MS, slide_ms, most, keys=KEYS, rate=RATE)


def rows_for(contestant: str, slide_ms: int, seconds: float) -> int:
    """Return the number of events that keep a contestant busy for about this many seconds, within limits."""
    copies = COPIES_PER_SECOND.get(contestant)
    if copies is None:
        return MOST_ROWS
    return int(max(LEAST_ROWS, min(MOST_ROWS, seconds * copies / (SIZE_MS // slide_ms))))
