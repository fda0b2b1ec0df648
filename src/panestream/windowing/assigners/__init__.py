"""Window assigners, one idea a file."""

from panestream.windowing.assigners.base import MergingWindowAssigner, WindowAssigner, merge_touching
from panestream.windowing.assigners.cumulating import CumulatingEventTimeWindows, CumulatingProcessingTimeWindows
from panestream.windowing.assigners.global_windows import GlobalWindows, count_window
from panestream.windowing.assigners.session import (
    EventTimeSessionWindows,
    GapColumn,
    GapExtractor,
    LimitedEventTimeSessionWindows,
    ProcessingTimeSessionWindows,
)
from panestream.windowing.assigners.several import SeveralWindows
from panestream.windowing.assigners.sliding import SlidingEventTimeWindows, SlidingProcessingTimeWindows
from panestream.windowing.assigners.stagger import WindowStagger
from panestream.windowing.assigners.tumbling import TumblingEventTimeWindows, TumblingProcessingTimeWindows

__all__ = [
    "CumulatingEventTimeWindows",
    "CumulatingProcessingTimeWindows",
    "EventTimeSessionWindows",
    "GapColumn",
    "GapExtractor",
    "GlobalWindows",
    "LimitedEventTimeSessionWindows",
    "MergingWindowAssigner",
    "ProcessingTimeSessionWindows",
    "SeveralWindows",
    "SlidingEventTimeWindows",
    "SlidingProcessingTimeWindows",
    "TumblingEventTimeWindows",
    "TumblingProcessingTimeWindows",
    "WindowAssigner",
    "WindowStagger",
    "count_window",
    "merge_touching",
]
