"""What the row operator emits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from panestream.windowing.windows import Window

FiredResult = tuple[Any, Window, Any, int]
"""Key, window, value, timestamp."""
Firing = tuple[str, int, bool]
"""Early, on time or late; its number for this key and window, from 0; whether no other can follow."""
Row = tuple[Any, int, Any]
"""Key, event time, element."""


@dataclass(slots=True)
class Output:
    """What one call made the operator emit.

    Attributes:
        fired: ``(key, window, value, timestamp)`` in the order of firing; the timestamp is the window's last instant.
        firings: of each in ``fired`` which firing it comes from; empty where the plan does not number them.
        late: ``(key, timestamp, element)`` of elements that no window took, where the plan has a late output.
        side_outputs: by tag, what the window function sent there; like ``fired``.
        late_dropped: how many late elements were only counted.
    """

    fired: list[FiredResult] = field(default_factory=list)
    firings: list[Firing] = field(default_factory=list)
    late: list[Row] = field(default_factory=list)
    side_outputs: dict[str, list[FiredResult]] = field(default_factory=dict)
    late_dropped: int = 0


__all__ = ["FiredResult", "Firing", "Output", "Row"]
