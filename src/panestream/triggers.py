"""All triggers, the base class of user-defined triggers, and their context.

- Every 100 rows and at the end of the window: ``AfterWatermark().early(AfterCount.of(100))``.
- Every five minutes of event time: ``ContinuousEventTimeTrigger.of("5 minutes")``.
- Every 100 rows, each row in one result, without the remainder: ``PurgingTrigger.of(CountTrigger.of(100))``.
- By the clock: ``ContinuousProcessingTimeTrigger``, ``AfterProcessingTime``. Combined: ``AfterAny``, ``AfterAll``, ``AfterEach``.

>>> import panestream as pst
>>> pst.triggers.PurgingTrigger.of(pst.triggers.CountTrigger.of(100))
PurgingTrigger.of(CountTrigger.of(100))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from panestream.lazy_names import LazyNames

if TYPE_CHECKING:
    from panestream.windowing.triggers import *

_NAMES = LazyNames(__name__)
if not TYPE_CHECKING:  # a type checker must refuse unknown names
    __getattr__, __dir__ = _NAMES.get, _NAMES.names
