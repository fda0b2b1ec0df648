"""Tools to test windows with: a harness that needs no Spark, and rows that arrive on Spark in the micro-batches one wants."""

from panestream.testing.harness import LateElement, Snapshot, WindowResult, WindowTestHarness
from panestream.testing.micro_batches import MicroBatches

__all__ = ["LateElement", "MicroBatches", "Snapshot", "WindowResult", "WindowTestHarness"]
