"""A trigger that passes every call to another one. It looks like a user trigger, so the operator cannot use its fast loops."""

from __future__ import annotations

from dataclasses import dataclass, replace

from panestream.engine.operators.row.contents import RowPlan
from panestream.windowing.triggers import Trigger


@dataclass(frozen=True)
class Delegating(Trigger):
    inner: Trigger

    @property
    def uses_processing_time(self):
        return self.inner.uses_processing_time

    def on_element(self, element, timestamp, window, ctx):
        return self.inner.on_element(element, timestamp, window, ctx)

    def on_event_time(self, time, window, ctx):
        return self.inner.on_event_time(time, window, ctx)

    def on_processing_time(self, time, window, ctx):
        return self.inner.on_processing_time(time, window, ctx)

    def can_merge(self):
        return self.inner.can_merge()

    def on_merge(self, window, ctx):
        self.inner.on_merge(window, ctx)

    def clear(self, window, ctx):
        self.inner.clear(window, ctx)

    @staticmethod
    def in_plan(plan: RowPlan) -> RowPlan:
        """Return the same plan with a trigger that makes the operator use the general protocol."""
        return replace(plan, window=replace(plan.window, trigger=Delegating(plan.window.firing_trigger)))
