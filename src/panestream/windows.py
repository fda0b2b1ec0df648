"""All windows: assigners, the base class of user-defined ones, and the windows that functions receive.

>>> import panestream as pst
>>> pst.windows.TumblingEventTimeWindows.of("1 hour").assign_windows(None, 5_000_000, 0)
(TimeWindow(start=0, end=3600000000),)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from panestream.lazy_names import LazyNames

if TYPE_CHECKING:
    from panestream.windowing.assigners import *
    from panestream.windowing.time import MAX_TIMESTAMP as MAX_TIMESTAMP
    from panestream.windowing.time import MIN_TIMESTAMP as MIN_TIMESTAMP
    from panestream.windowing.windows import *

_NAMES = LazyNames(__name__)
if not TYPE_CHECKING:  # a type checker must refuse unknown names
    __getattr__, __dir__ = _NAMES.get, _NAMES.names
