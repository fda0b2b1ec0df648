"""Which windows are closed: those that time, less the allowed lateness, has passed; and they stay closed."""

from __future__ import annotations

from dataclasses import dataclass

from panestream.windowing.time import MAX_TIMESTAMP, MIN_TIMESTAMP


@dataclass(slots=True)
class Closing:
    """How far windows of event time are closed in one key group.

    What a closed window held is gone: if rows were taken for it again, a result of these few would stand beside the whole one, or
    in its place. So what was closed under one lateness stays closed under a larger one, and the operators keep :attr:`until` in
    their meta records.

    Attributes:
        lateness: how long after its end a window takes rows.
        until: windows whose last instant is this or before were closed in an earlier micro-batch. It never goes back.
    """

    lateness: int = 0
    until: int = MIN_TIMESTAMP

    def at(self, time: int) -> int:
        """Windows whose last instant is this or before are closed when time has come to ``time``."""
        if time in (MIN_TIMESTAMP, MAX_TIMESTAMP):
            return max(time, self.until)
        return max(time - self.lateness, self.until)

    def reach(self, time: int) -> int:
        """Time has come to ``time`` and a micro-batch is over: what is closed now is closed for good. Returns :meth:`at`."""
        self.until = self.at(time)
        return self.until


__all__ = ["Closing"]
