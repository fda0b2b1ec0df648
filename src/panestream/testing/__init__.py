"""Tools to test windows: a harness and a simulator that run without Spark, and input for Spark in chosen micro-batches."""

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
