"""Base classes of window functions, accumulators and watermark generators, and their contexts.

>>> import panestream as pst
>>> class Busiest(pst.functions.ProcessWindowFunction):
...     def process(self, key, context, elements):
...         yield len(elements), context.window().start
>>> issubclass(Busiest, pst.ProcessWindowFunction)
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from panestream.lazy_names import LazyNames

if TYPE_CHECKING:
    from panestream.windowing.functions import *
    from panestream.windowing.process_functions import *
    from panestream.windowing.watermarks import WatermarkGenerator as WatermarkGenerator
    from panestream.windowing.watermarks import WatermarkOutput as WatermarkOutput

_NAMES = LazyNames(__name__)
if not TYPE_CHECKING:  # a type checker must refuse unknown names
    __getattr__, __dir__ = _NAMES.get, _NAMES.names
