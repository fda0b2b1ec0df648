"""Output of the row operator."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from panestream.windowing.windows import Window

FiredResult = tuple[Any, Window, Any, int]
"""Key, window, value, timestamp."""
Firing = tuple[str, int, bool]
"""The kind of firing (early, on time or late), its number for this key and window, from 0, and whether it is the last."""
Row = tuple[Any, int, Any]
"""Key, event time, element."""


@dataclass(slots=True)
class Output:
    """Output of one call to the operator.

    Attributes:
        fired: ``(key, window, value, timestamp)`` in the order of firing. The timestamp is the window's last instant.
        firings: the firing of each entry in ``fired``, or empty if the plan does not number firings.
        late: ``(key, timestamp, element)`` of elements that no window took, if the plan has a late output.
        side_outputs: results that the window function sent to side outputs, by tag, in the form of ``fired``.
        late_dropped: the number of late elements that were only counted.
    """

    fired: list[FiredResult] = field(default_factory=list)
    firings: list[Firing] = field(default_factory=list)
    late: list[Row] = field(default_factory=list)
    side_outputs: dict[str, list[FiredResult]] = field(default_factory=dict)
    late_dropped: int = 0


__all__ = ["FiredResult", "Firing", "Output", "Row"]
