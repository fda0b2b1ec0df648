"""All windows: assigners, the base class of user-defined ones, and the windows that functions receive."""

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
