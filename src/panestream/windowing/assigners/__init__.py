"""Window assigners, one idea a file."""

from panestream.windowing.assigners.base import WindowAssigner
from panestream.windowing.assigners.sliding import SlidingEventTimeWindows
from panestream.windowing.assigners.tumbling import TumblingEventTimeWindows

__all__ = ["SlidingEventTimeWindows", "TumblingEventTimeWindows", "WindowAssigner"]
