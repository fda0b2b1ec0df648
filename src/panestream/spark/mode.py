"""The properties of a query that its checkpoint fixes: whether the clock wakes it, and whether it has signals.

Spark keeps a stateful operator's time mode and the number of sources in the checkpoint, and refuses any change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from panestream.engine.plan import WindowPlan
from panestream.errors import CheckpointError

_NEW = (
    "start on a new checkpoint, from a savepoint of this one: pst.savepoint(spark, checkpoint, folder), then "
    "start(savepoint=folder)"
)


@dataclass(frozen=True, slots=True)
class Mode:
    """How a query runs.

    Attributes:
        clock: whether Spark's clock wakes it without new rows. Such a query never ends by itself.
        signals: whether it reads a source of signals (:mod:`panestream.spark.signals`) in addition to its input.
        ends: whether it should end by itself.
        closes: whether it should close all windows at its end, which takes a signal.
    """

    clock: bool = False
    signals: bool = False
    ends: bool = False
    closes: bool = False

    @classmethod
    def wanted(cls, plan: WindowPlan, *, ends: bool, closes: bool) -> Mode:
        """Return the mode for a new checkpoint."""
        return cls(plan.wakes_up, closes or (plan.wakes_up and plan.watermark.closes_after is not None), ends, closes)

    def on(self, entry: Mapping[str, Any], plan: WindowPlan, checkpoint: str) -> Mode:
        """Return the mode on a checkpoint with micro-batches, given the last run's ``entry``, or raise CheckpointError."""
        # Earlier versions used the clock only for windows and triggers of processing time.
        clock = bool(entry.get("clock", plan.operator.capabilities.uses_processing_time and plan.processing_time is None))
        if self.clock and not clock:
            raise CheckpointError(
                f"the checkpoint {checkpoint} was begun by a query that no clock wakes, and Spark cannot change that: it can run "
                "on without closing_after, or until it has read all there is (trigger='availableNow', with fire_at_end=True "
                f"where it was begun so). For closing_after {_NEW}"
            )
        if clock and self.ends:
            raise CheckpointError(
                f"the checkpoint {checkpoint} was begun by a query that the clock wakes (closing_after, or windows or triggers "
                "of processing time), and Spark cannot change that: with 'availableNow' it would run empty micro-batches for "
                f"ever. Give trigger='10 seconds' and stop the query yourself; or {_NEW}"
            )
        signals = bool(entry.get("signals", False))
        if self.closes and not signals:
            raise CheckpointError(
                f"the checkpoint {checkpoint} was begun without fire_at_end=True, which has Spark read a source of signals "
                f"beside the input, and Spark cannot add a source: go on without it, or {_NEW}"
            )
        return Mode(clock, signals, self.ends, self.closes)

    def as_json(self) -> dict[str, bool]:
        """Return the values to store in the checkpoint."""
        return {"clock": self.clock, "signals": self.signals}


__all__ = ["Mode"]
