"""What a user said of the windows, before anything is chosen."""

from __future__ import annotations

from dataclasses import dataclass

from panestream.windowing.assigners import GlobalWindows, MergingWindowAssigner, WindowAssigner
from panestream.windowing.assigners.session import GapColumn
from panestream.windowing.evictors import CountEvictor, Evictor, TimeEvictor
from panestream.windowing.triggers import DeltaTrigger, Trigger
from panestream.windowing.triggers.composition import all_parts


@dataclass(frozen=True, slots=True)
class WindowSpec:
    """What the user said of the windows, before anything is chosen.

    Attributes:
        assigner: the windows.
        trigger: None: the assigner's default.
        evictor: None: everything stays in.
        allowed_lateness: in engine units.
        every_firing: whether every single firing is wanted, which only the row operator gives.
        pickled_state: whether values that have no columns may rest in state as pickles.
    """

    assigner: WindowAssigner
    trigger: Trigger | None = None
    evictor: Evictor | None = None
    allowed_lateness: int = 0
    every_firing: bool = False
    pickled_state: bool = False

    @property
    def firing_trigger(self) -> Trigger:
        """The trigger, or the assigner's default."""
        return self.assigner.get_default_trigger() if self.trigger is None else self.trigger

    @property
    def merges(self) -> bool:
        """Whether windows may grow together."""
        return isinstance(self.assigner, MergingWindowAssigner)

    @property
    def uses_processing_time(self) -> bool:
        """Whether processing time matters."""
        # The global window is of no time at all.
        by_processing_time = not self.assigner.is_event_time and not isinstance(self.assigner, GlobalWindows)
        return by_processing_time or self.firing_trigger.uses_processing_time

    @property
    def sees_elements(self) -> bool:
        """Whether anything but the function looks into elements: a gap or windows of the user's own, a trigger, an evictor."""
        triggers, gap = list(all_parts(self.firing_trigger)), getattr(self.assigner, "gap", None)
        ours = all(type(one).__module__.startswith("panestream.") for one in (self.assigner, *triggers))
        evicting = self.evictor is not None and type(self.evictor) not in (CountEvictor, TimeEvictor)
        looking = any(isinstance(one, DeltaTrigger) for one in triggers)
        return not ours or evicting or looking or (callable(gap) and not isinstance(gap, GapColumn))


__all__ = ["WindowSpec"]
