"""One key's windows on the harness, with a function that lists what a window holds: what tests of triggers and assigners drive."""

from __future__ import annotations

from panestream.testing import WindowTestHarness


def listed(key, window, elements):
    """The values of a window, in order."""
    return [list(elements)]


class Driven:
    """A harness that is told times and values, and answers with the lists that fired since."""

    def __init__(self, assigner, trigger=None, *, lateness=0):
        self.harness = WindowTestHarness(assigner, trigger=trigger, allowed_lateness=lateness, apply=listed)

    def element(self, ts, value, key="k"):
        """One row; what fires at once."""
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
        """Goes on from a snapshot with a new operator."""
        self.harness.restore(self.harness.snapshot())

    def fired(self):
        return [one.value for one in self.harness.extract_output()]

    def windows(self, *times):
        """The bounds of the windows that fire for rows at these times, once the input has ended or the clock is past all."""
        for time in times:
            self.harness.process_element(time, time, "k")
        self.harness.end_of_input()
        return {(one.window.start, one.window.end): one.value for one in self.harness.extract_output()}

    @property
    def left(self):
        """Timers, and what is kept of windows."""
        return self.harness.num_timers(), self.harness.num_state_entries()
