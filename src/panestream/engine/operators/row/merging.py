"""The live windows of one key under an assigner that merges them, and the transfer of their contents."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from panestream.engine.operators.row.window_states import Bounds, WindowState
from panestream.errors import InvalidWindowError
from panestream.windowing.assigners import MergingWindowAssigner
from panestream.windowing.windows import TimeWindow

Merge = Callable[[TimeWindow, list[WindowState]], WindowState]
"""Called with the result and the windows merged into it, ordered by start; returns the window that replaces them."""


class MergingWindowSet:
    """The live windows of one key, which are disjoint. Flink: ``MergingWindowSet``.

    Flink gives every window a *state window*, which keeps the contents of the first merged window while the bounds change. Here
    the contents are an object that is passed from window to window, so that nothing is copied or read.

    An element whose own window equals a live window belongs to it. (In Flink, a session with a dynamic gap loses its contents in
    this case if it came out of a merge.)
    """

    __slots__ = ("_assigner", "_window_states")

    def __init__(self, assigner: MergingWindowAssigner, window_states: dict[Bounds, WindowState]) -> None:
        self._assigner = assigner
        self._window_states = window_states

    def add_window(self, window: TimeWindow, merge: Merge) -> WindowState | TimeWindow:
        """Let the assigner merge the live windows and an element's own, and return the live window that now covers ``window``.

        An unmerged window is returned as it is and not added. ``merge`` is called for every result that is not just one unchanged
        live window.
        """
        bounds = (window.start, window.end)
        if not self._window_states:
            return window
        live = {TimeWindow(*bounds): window_state for bounds, window_state in self._window_states.items() if bounds is not None}
        target: WindowState | TimeWindow = window
        for result, members in self._merges(sorted({*live, window})):
            old = [live[member] for member in sorted(members) if member in live]
            if not old:
                if result != window:
                    raise InvalidWindowError(f"{self._assigner!r} made {result} of {window} alone: assign it in the first place")
                continue
            unchanged = len(old) == 1 and old[0].bounds == (result.start, result.end)
            merged = old[0] if unchanged else self._replace(result, old, merge)
            if window in members:
                target = merged
        if isinstance(target, TimeWindow) and bounds in self._window_states:
            target = self._window_states[bounds]  # it existed before, or others were merged into it
        return target

    def _replace(self, result: TimeWindow, old: list[WindowState], merge: Merge) -> WindowState:
        for window_state in old:
            del self._window_states[window_state.bounds]
        if (result.start, result.end) in self._window_states:
            raise InvalidWindowError(f"{self._assigner!r} merged windows into {result}, which is another live window")
        merged = merge(result, old)
        self._window_states[merged.bounds] = merged
        return merged

    def _merges(self, windows: list[TimeWindow]) -> Iterable[tuple[TimeWindow, set[TimeWindow]]]:
        seen: set[TimeWindow] = set()
        known = set(windows)
        for result, listed in self._assigner.merge_windows(windows):
            members = set(listed)
            if not members <= known:
                raise InvalidWindowError(f"{self._assigner!r} merged {sorted(members - known)}, which it was not given")
            if seen & members:
                raise InvalidWindowError(f"{self._assigner!r} merged {sorted(seen & members)} twice")
            seen |= members
            yield result, members
