"""The user's description of a query's windows, before the planner chooses an operator."""

from __future__ import annotations

from dataclasses import dataclass

from panestream.windowing.assigners import GlobalWindows, MergingWindowAssigner, WindowAssigner
from panestream.windowing.assigners.session import GapColumn
from panestream.windowing.evictors import CountEvictor, Evictor, TimeEvictor
from panestream.windowing.fill import Fill, ListedKeys
from panestream.windowing.triggers import DeltaTrigger, Trigger
from panestream.windowing.triggers.composition import all_parts


@dataclass(frozen=True, slots=True)
class WindowQuery:
    """What the user wrote about the windows of a query. :class:`WindowPlan` is what the planner chose for it.

    Attributes:
        assigner: the windows.
        trigger: the trigger, or None for the assigner's default.
        evictor: the evictor, or None to keep all elements.
        allowed_lateness: how long after its end a window takes rows, in engine units.
        every_firing: whether every single firing is wanted, which only the row operator provides.
        pickled_state: whether state may store values without columns as pickles.
        fill: how windows without rows are filled, or None if they are not emitted.
        listed_keys: the keys that are filled without ever having rows, or None.
        per_key: whether each key has its own watermark, which only the row operator provides.
    """

    assigner: WindowAssigner
    trigger: Trigger | None = None
    evictor: Evictor | None = None
    allowed_lateness: int = 0
    every_firing: bool = False
    pickled_state: bool = False
    fill: Fill | None = None
    listed_keys: ListedKeys | None = None
    per_key: bool = False

    @property
    def firing_trigger(self) -> Trigger:
        """The trigger, or the assigner's default."""
        return self.assigner.get_default_trigger() if self.trigger is None else self.trigger

    @property
    def merges(self) -> bool:
        return isinstance(self.assigner, MergingWindowAssigner)

    @property
    def uses_processing_time(self) -> bool:
        # The global window is independent of time.
        by_processing_time = not self.assigner.is_event_time and not isinstance(self.assigner, GlobalWindows)
        return by_processing_time or self.firing_trigger.uses_processing_time

    @property
    def sees_elements(self) -> bool:
        """True if anything but the function reads elements: a gap, custom windows, a trigger or an evictor."""
        triggers, gap = list(all_parts(self.firing_trigger)), getattr(self.assigner, "gap", None)
        ours = all(type(one).__module__.startswith("panestream.") for one in (self.assigner, *triggers))
        evicting = self.evictor is not None and type(self.evictor) not in (CountEvictor, TimeEvictor)
        looking = any(isinstance(one, DeltaTrigger) for one in triggers)
        return not ours or evicting or looking or (callable(gap) and not isinstance(gap, GapColumn))
