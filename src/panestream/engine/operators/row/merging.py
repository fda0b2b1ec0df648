"""The windows of one key that may grow together, and whose contents a merged window takes over."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from panestream.engine.operators.row.window_states import Bounds, WindowState
from panestream.errors import InvalidWindowError
from panestream.windowing.assigners import MergingWindowAssigner
from panestream.windowing.windows import TimeWindow

Merge = Callable[[TimeWindow, list[WindowState]], WindowState]
"""Called with the result and the windows that go into it, ordered by start; returns the window that takes their place."""


class MergingWindowSet:
    """The live windows of one key, which are disjoint. Flink: ``MergingWindowSet``.

    Flink gives every window a *state window*, where the contents of the first of the merged ones stay while its bounds change.
    Here a window's contents are an object that is handed on: the state window is whoever holds it, and nothing is copied or read.

    An element whose own window equals a live one belongs to it. (Flink loses a session's contents there when it came out of a
    merge and the gap is dynamic.)
    """

    __slots__ = ("_assigner", "_window_states")

    def __init__(self, assigner: MergingWindowAssigner, window_states: dict[Bounds, WindowState]) -> None:
        self._assigner = assigner
        self._window_states = window_states

    def add_window(self, window: TimeWindow, merge: Merge) -> WindowState | TimeWindow:
        """Lets the assigner merge the live windows and one more.

        Args:
            window: an element's own window.
            merge: called for every result that is more than one live window as it was.

        Returns:
            The live window that now covers ``window``; or ``window`` itself where it stays alone (it is not added).
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
            target = self._window_states[bounds]  # one that was there, or that others merged into
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
