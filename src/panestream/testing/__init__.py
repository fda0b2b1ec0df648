"""Tools to test windows with: a harness that needs no Spark, and scenario files that state what must come out."""

from panestream.testing.harness import Fired, Late, Snapshot, WindowTestHarness

__all__ = ["Fired", "Late", "Snapshot", "WindowTestHarness"]
