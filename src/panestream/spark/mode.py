"""How a query runs, as far as its checkpoint is tied to it: whether the clock wakes it, and whether it has signals of its own.

Spark keeps the time mode of a stateful operator and the number of its sources in the checkpoint, and refuses others.
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
        clock: whether Spark's clock wakes it up without new rows. Such a query never ends by itself.
        signals: whether it has a source of signals (:mod:`panestream.spark.signals`) beside its input.
        ends: whether it is to end by itself.
        closes: whether it is to close all windows at its end, which it does by a signal.
    """

    clock: bool = False
    signals: bool = False
    ends: bool = False
    closes: bool = False

    @classmethod
    def wanted(cls, plan: WindowPlan, *, ends: bool, closes: bool) -> Mode:
        """Of a new checkpoint."""
        return cls(plan.wakes_up, closes or (plan.wakes_up and plan.watermark.closes_after is not None), ends, closes)

    def on(self, entry: Mapping[str, Any], plan: WindowPlan, checkpoint: str) -> Mode:
        """What it comes to on a checkpoint that has micro-batches.

        Args:
            entry: what the last run left in the checkpoint.
            plan: the query.
            checkpoint: the folder.

        Raises:
            CheckpointError: the checkpoint was begun in another way.
        """
        # Those of earlier versions were woken for windows and triggers of the clock only.
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
        """For the checkpoint."""
        return {"clock": self.clock, "signals": self.signals}


__all__ = ["Mode"]
