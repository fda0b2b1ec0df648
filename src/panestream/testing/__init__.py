"""Tools to test windows: a harness and a simulator that run without Spark, and input for Spark in chosen micro-batches.

>>> import panestream as pst
>>> harness = pst.testing.WindowTestHarness(pst.tumbling("1 minute"), reduce=max)
>>> harness.process_element(3, "5 seconds")
>>> harness.end_of_input()
>>> [result.value for result in harness.extract_output()]
[3]
"""

from panestream.testing.column_harness import ColumnTestHarness
from panestream.testing.harness import Snapshot, WindowTestHarness
from panestream.testing.micro_batches import MicroBatches
from panestream.testing.results import LateElement, WindowResult
from panestream.testing.simulation import Simulation, SimulationError, simulate

__all__ = [
    "ColumnTestHarness",
    "LateElement",
    "MicroBatches",
    "Simulation",
    "SimulationError",
    "Snapshot",
    "WindowResult",
    "WindowTestHarness",
    "simulate",
]


def __dir__() -> list[str]:
    return sorted(__all__)
