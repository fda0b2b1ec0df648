"""Tools to test windows with.

A harness that needs no Spark, and rows that arrive on Spark in the micro-batches one wants.
"""

from panestream.testing.harness import Fired, Late, Snapshot, WindowTestHarness
from panestream.testing.micro_batches import MicroBatches

__all__ = ["Fired", "Late", "MicroBatches", "Snapshot", "WindowTestHarness"]
