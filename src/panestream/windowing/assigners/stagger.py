"""Window stagger: not every key group fires its windows at the same moment."""

from __future__ import annotations

from enum import Enum

_MULTIPLIER, _MASK = 0x9E3779B97F4A7C15, 2**64 - 1


class WindowStagger(Enum):
    """How the windows of a key group are shifted against the clock. Flink: ``WindowStagger``.

    ===========  ==========================================================================================
    ``ALIGNED``  not at all: all groups fire together (the default)
    ``RANDOM``   evenly spread over the size, drawn from the number of the key group
    ``NATURAL``  so that the first window begins with the group's first element, by the clock
    ===========  ==========================================================================================

    The shift is decided at a group's first element and kept in its state: a restart does not change the windows. (In Flink it
    does: the shift is drawn anew.) ``RANDOM`` is drawn from the group's number, so that a rerun gives the same windows.
    """

    ALIGNED = "aligned"
    RANDOM = "random"
    NATURAL = "natural"

    def get_stagger_offset(self, processing_time: int, size: int, key_group: int) -> int:
        """The shift, in ``[0, size)``.

        Args:
            processing_time: the clock at the group's first element, in engine units.
            size: of the windows, in engine units.
            key_group: the number of the group.

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
