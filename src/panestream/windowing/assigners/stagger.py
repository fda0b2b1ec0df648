"""Window stagger, which spreads the firings of key groups over time."""

from __future__ import annotations

from enum import Enum

_MULTIPLIER, _MASK = 0x9E3779B97F4A7C15, 2**64 - 1


class WindowStagger(Enum):
    """How the windows of a key group are shifted against the clock. Flink: ``WindowStagger``.

    ``ALIGNED`` (the default) fires all groups together. ``RANDOM`` spreads them evenly over the size, by the number of the group,
    so that a rerun gives the same windows. ``NATURAL`` begins the first window with the group's first element, by the clock. The
    state keeps the shift from a group's first element on, so a restart does not change the windows. (Flink draws it again.)
    """

    ALIGNED = "aligned"
    RANDOM = "random"
    NATURAL = "natural"

    def get_stagger_offset(self, processing_time: int, size: int, key_group: int) -> int:
        """Return the shift in ``[0, size)``, from the processing time of the group's first element. Times are in microseconds.

        >>> WindowStagger.NATURAL.get_stagger_offset(processing_time=1234, size=100, key_group=0)
        34
        """
        if self is WindowStagger.NATURAL:
            return processing_time % size
        if self is WindowStagger.RANDOM:
            mixed = (key_group + 1) * _MULTIPLIER & _MASK
            mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & _MASK
            return (mixed ^ mixed >> 27) * size >> 64
        return 0

    def __repr__(self) -> str:
        return f"WindowStagger.{self.name}"
