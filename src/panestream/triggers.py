"""All triggers, the base class of user-defined triggers, and their context.

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
