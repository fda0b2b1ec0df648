"""Moves the watermark of a harness at each micro-batch by a strategy, as the key groups of a query do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from panestream.engine.runtime.group_io import GroupInput
from panestream.engine.runtime.watermarks import WatermarkTracker
from panestream.errors import InvalidPlanError
from panestream.windowing.watermarks import WatermarkStrategy


class Clockwork:
    """The watermark of one harness; raises ``InvalidPlanError`` for a strategy with a generator, which needs rows."""

    def __init__(self, strategy: WatermarkStrategy) -> None:
        if not isinstance(strategy, WatermarkStrategy) or strategy.generator is not None:
            raise InvalidPlanError(
                f"watermark_strategy needs a WatermarkStrategy without a user-defined generator, got {strategy!r}: test a "
                f"generator separately, and set the watermark with .process_watermark(...)"
            )
        self._strategy = strategy
        self._tracker = WatermarkTracker(strategy)
        self._seen: dict[str, int] = {}

    def saw(self, element: Any, time: int) -> None:
        """Note the time of an element; raise ``InvalidPlanError`` if it lacks the column of a watermark per partition."""
        column, name = self._strategy.partition_column, ""
        if column is not None:
            if not isinstance(element, Mapping) or column not in element:
                raise InvalidPlanError(f"the strategy has a watermark for each {column!r}: give rows as dicts that have it")
            name = str(element[column])
        self._seen[name] = max(time, self._seen.get(name, time))

    def end_micro_batch(self, clock: int, run: str) -> int:
        """Return the watermark after a micro-batch of the elements since the previous one."""
        seen, self._seen = self._seen, {}
        return self._tracker.take_in(GroupInput(seen=seen, batch_time=clock, run=run, planned_in=run))

    def saved(self) -> Mapping[str, Any]:

        return self._tracker.to_json()

    def restore(self, saved: Mapping[str, Any] | None) -> None:
        """Restore the result of :meth:`saved`, or the initial state for None."""
        self._seen = {}
        self._tracker = WatermarkTracker(self._strategy) if saved is None else WatermarkTracker.from_json(self._strategy, saved)


__all__ = ["Clockwork"]
