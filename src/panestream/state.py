"""State of functions and triggers, and the state of whole queries in checkpoints and savepoints.

>>> import panestream as pst
>>> pst.state.ValueStateDescriptor("seen", pst.state.StateTtlConfig.of("1 hour")).ttl.ttl
3600000000
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from panestream.lazy_names import LazyNames

if TYPE_CHECKING:
    from panestream.spark.savepoint.inspectable_state import CheckpointState as CheckpointState
    from panestream.spark.savepoint.read import read_checkpoint as read_checkpoint
    from panestream.spark.savepoint.saved import Savepoint as Savepoint
    from panestream.spark.savepoint.saved import read_savepoint as read_savepoint
    from panestream.spark.savepoint.saved import savepoint as savepoint
    from panestream.windowing.state import *

_NAMES = LazyNames(__name__)
if not TYPE_CHECKING:  # a type checker must refuse unknown names
    __getattr__, __dir__ = _NAMES.get, _NAMES.names
