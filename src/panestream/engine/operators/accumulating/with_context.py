"""Columnar execution of process functions that are declared stateless."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import pyarrow as pa

from panestream.engine.operators.accumulating.windowed_rows import Now, OverRows, Results, WindowedRows, called
from panestream.windowing.functions import ProcessWindowFunction, no_state
from panestream.windowing.windows import TimeWindow


class StatelessContext:
    """Context of a stateless process function for all firing windows; ``sent`` has side outputs by tag, with window places."""

    __slots__ = ("_now", "_place", "current", "sent")

    current: TimeWindow

    def __init__(self, now: Now) -> None:
        self._now = now
        self._place = -1
        self.sent: dict[str, list[tuple[int, Any]]] = {}

    def next(self, window: TimeWindow) -> StatelessContext:
        """Move to the next window."""
        self.current = window
        self._place += 1
        return self

    def window(self) -> TimeWindow:
        return self.current

    def current_watermark(self) -> int:
        return self._now.watermark

    def current_processing_time(self) -> int:
        return self._now.processing_time

    def window_state(self) -> NoReturn:
        raise no_state("window_state()")

    def global_state(self) -> NoReturn:
        raise no_state("global_state()")

    def output(self, tag: str, value: Any) -> None:
        self.sent.setdefault(tag, []).append((self._place, value))


@dataclass(frozen=True, slots=True)
class PerWindowWithContext(OverRows):
    """A stateless process function that gets rows as Python objects."""

    function: ProcessWindowFunction

    @property
    def described(self) -> str:
        return "a call for each key and window, with a context and a list of rows; it keeps no state (stateless=True)"

    @property
    def sees_time(self) -> bool:
        return True

    def results(self, windows: WindowedRows, schema: pa.Schema, now: Now) -> Results:
        context, process = StatelessContext(now), self.function.process

        def call(key: Any, window: TimeWindow, rows: Sequence[Any]) -> Any:
            return process(key, context.next(window), rows)

        results = called(windows, schema, self.function, call)
        results.sent = context.sent
        return results


__all__ = ["PerWindowWithContext", "StatelessContext"]
