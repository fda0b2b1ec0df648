"""What moves the watermark of a harness by a strategy, micro-batch by micro-batch, as the key groups of a query do it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from panestream.engine.runtime.group_io import GroupInput
from panestream.engine.runtime.watermarks import WatermarkTracker
from panestream.errors import InvalidPlanError
from panestream.windowing.watermarks import WatermarkStrategy


class Clockwork:
    """Of one harness.

    Args:
        strategy: for the watermark.

    Raises:
        InvalidPlanError: a strategy with a generator, which sees rows.
    """

    def __init__(self, strategy: WatermarkStrategy) -> None:
        if not isinstance(strategy, WatermarkStrategy) or strategy.generator is not None:
            raise InvalidPlanError(
                f"watermark_strategy wants a WatermarkStrategy without a generator of yours, got {strategy!r}: test a generator "
                "by itself, and say where the watermark is, .process_watermark(...)"
            )
        self._strategy = strategy
        self._tracker = WatermarkTracker(strategy)
        self._seen: dict[str, int] = {}

    def saw(self, element: Any, time: int) -> None:
        """An element came.

        Raises:
            InvalidPlanError: the strategy tells partitions apart by a column, and it has none.
        """
        column, name = self._strategy.partition_column, ""
        if column is not None:
            if not isinstance(element, Mapping) or column not in element:
                raise InvalidPlanError(f"the strategy has a watermark for each {column!r}: give rows as dicts that have it")
            name = str(element[column])
        self._seen[name] = max(time, self._seen.get(name, time))

    def end_micro_batch(self, clock: int, run: str) -> int:
        """The watermark after a micro-batch with what came since the last one."""
        seen, self._seen = self._seen, {}
        return self._tracker.take_in(GroupInput(seen=seen, batch_time=clock, run=run, planned_in=run))

    def saved(self) -> Mapping[str, Any]:
        """For a snapshot."""
        return self._tracker.to_json()

    def restore(self, saved: Mapping[str, Any] | None) -> None:
        """Goes back to what :meth:`saved` gave; None: to the beginning."""
        self._seen = {}
        self._tracker = WatermarkTracker(self._strategy) if saved is None else WatermarkTracker.from_json(self._strategy, saved)


__all__ = ["Clockwork"]
