"""One key's windows on the harness, with a function that lists the elements of a window, for tests of triggers and assigners."""

from __future__ import annotations

from panestream.testing import WindowTestHarness


def listed(key, window, elements):
    """Return the values of a window, in order."""
    return [list(elements)]


class Driven:
    """A harness that takes times and values, and returns the lists that fired."""

    def __init__(self, assigner, trigger=None, *, lateness=0):
        self.harness = WindowTestHarness(assigner, trigger=trigger, allowed_lateness=lateness, apply=listed)

    def element(self, ts, value, key="k"):
        """Process one row, and return the firings that follow at once."""
        self.harness.process_element(value, ts, key)
        return self.fired()

    def watermark(self, time):
        self.harness.process_watermark(time)
        return self.fired()

    def clock(self, time):
        self.harness.set_processing_time(time)
        return self.fired()

    def end(self):
        self.harness.end_of_input()
        return self.fired()

    def restart(self):
        """Continue from a snapshot with a new operator."""
        self.harness.restore(self.harness.snapshot())

    def fired(self):
        return [each.value for each in self.harness.extract_output()]

    def windows(self, *times):
        """Return the bounds of the windows that fire for rows at these times, after the end of the input."""
        for time in times:
            self.harness.process_element(time, time, "k")
        self.harness.end_of_input()
        return {(each.window.start, each.window.end): each.value for each in self.harness.extract_output()}

    @property
    def left(self):
        """Return the numbers of stored entries and timers."""
        return self.harness.num_timers(), self.harness.num_state_entries()
