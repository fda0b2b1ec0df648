"""A run, as far as a report tells of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from panestream.report.points import Points
from panestream.report.times import Times
from panestream.spark.progress.micro_batch import PartitionProgress

RUNNING = "running"
DONE = "done"
STOPPED = "stopped"
FAILED = "failed"


@dataclass(slots=True)
class Run:
    """What is known of a run; nothing of it grows with the time that it runs.

    Attributes:
        name: of the query.
        told: what ran: titles and text.
        plan: as ``explain`` tells it; empty: unknown.
        settings: of Spark, by name.
        outcome: :data:`RUNNING`, :data:`DONE`, :data:`STOPPED` or :data:`FAILED`.
        error: what it failed with.
        started, ended: by the clock, microseconds since the epoch.
        points: what the micro-batches did.
        times: how late rows were; None: that was not looked at.
        by_windows: whether rows are late by the end of their windows; else by the watermark.
        delay: of the watermark, in engine units; None: it has none.
        delay_told: the watermark strategy.
        partitions: the source partitions after the last micro-batch, at most a thousand.
        checkpoint: where it is; empty: there is none.
        faults: what could not be taken in: the report says so.
    """

    name: str = "a query"
    told: list[tuple[str, str]] = field(default_factory=list)
    plan: str = ""
    settings: Sequence[tuple[str, str]] = ()
    outcome: str = RUNNING
    error: str = ""
    started: int = 0
    ended: int = 0
    points: Points = field(default_factory=Points)
    times: Times | None = None
    by_windows: bool = False
    delay: int | None = None
    partitions: Sequence[PartitionProgress] = ()
    checkpoint: str = ""
    faults: int = 0


__all__ = ["DONE", "FAILED", "RUNNING", "STOPPED", "Run"]
