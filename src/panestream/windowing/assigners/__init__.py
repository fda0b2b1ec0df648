"""Window assigners. ``panestream`` exports the names in ``__all__``."""

from panestream.windowing.assigners.aligned import (
    CumulatingEventTimeWindows,
    CumulatingProcessingTimeWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowStagger,
)
from panestream.windowing.assigners.base import MergingWindowAssigner, WindowAssigner, merge_touching
from panestream.windowing.assigners.business import BusinessDays, BusinessHours
from panestream.windowing.assigners.calendar import (
    CalendarDays,
    CalendarHours,
    CalendarMonths,
    CalendarQuarters,
    CalendarWeeks,
    CalendarWindows,
    CalendarYears,
)
from panestream.windowing.assigners.global_windows import CountWindows, GlobalWindows
from panestream.windowing.assigners.look_back import LookBackWindows
from panestream.windowing.assigners.predicates import PredicateWindows
from panestream.windowing.assigners.rolling import RollingWindows
from panestream.windowing.assigners.session import (
    EventTimeSessionWindows,
    GapExtractor,
    ProcessingTimeSessionWindows,
)
from panestream.windowing.assigners.short import count, cumulating, rolling, session, sliding, tumbling

__all__ = [
    "BusinessDays",
    "BusinessHours",
    "CalendarDays",
    "CalendarHours",
    "CalendarMonths",
    "CalendarQuarters",
    "CalendarWeeks",
    "CalendarWindows",
    "CalendarYears",
    "CountWindows",
    "CumulatingEventTimeWindows",
    "CumulatingProcessingTimeWindows",
    "EventTimeSessionWindows",
    "GapExtractor",
    "GlobalWindows",
    "LookBackWindows",
    "MergingWindowAssigner",
    "PredicateWindows",
    "ProcessingTimeSessionWindows",
    "RollingWindows",
    "SlidingEventTimeWindows",
    "SlidingProcessingTimeWindows",
    "TumblingEventTimeWindows",
    "TumblingProcessingTimeWindows",
    "WindowAssigner",
    "WindowStagger",
    "count",
    "cumulating",
    "merge_touching",
    "rolling",
    "session",
    "sliding",
    "tumbling",
]
