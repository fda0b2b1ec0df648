"""Windows that rows start and end. The rows of a key are read in the order of their times."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from panestream.testing.simulation.schedule import Row
from tests.testing.simulation.campaign.reference_model.model import NearRowModel, OutputRow, summed


class PredicateModel(NearRowModel):
    """Emits a window when time has passed its end."""

    def come(self, fresh: Sequence[Row], watermark: int) -> Iterable[tuple[Any, OutputRow]]:
        for key in {row.key for row in self.taken}:
            for start, end, rows in self._gone_through(key, watermark)[0]:
                if self.first_time((key, start)):
                    yield key, (start, end, *summed(rows))

    def _gone_through(self, key: Any, reached: int) -> tuple[list[tuple[int, int, list[Row]]], bool]:
        """Return the windows of a key that ended by a time, with their rows, and whether a window is open then."""
        begins, ends, gap = (self.query.assigner[name] for name in ("start", "end", "gap"))
        found: list[tuple[int, int, list[Row]]] = []
        window: list[Row] = []
        rows = sorted((row for row in self.taken if row.key == key and row.at <= reached), key=lambda row: row.at)
        for time, instant in groupby(rows, key=lambda row: row.at):
            step = list(instant)
            if window and gap is not None and time > window[-1].at + gap:
                found.append((window[0].at, window[-1].at + gap, window))
                window = []
            if begins is not None and any(row.value in begins for row in step):
                if window:
                    found.append((window[0].at, time, window))
                window = step
            elif window or begins is None:
                window = [*window, *step]
            if window and ends is not None and any(row.value in ends for row in step):
                found.append((window[0].at, time + 1, window))
                window = []
        if window and gap is not None and window[-1].at + gap <= reached:
            found.append((window[0].at, window[-1].at + gap, window))
            window = []
        return found, bool(window)

    def open_keys(self) -> set[Any]:
        reached = self.times.watermark
        waiting = {row.key for row in self.taken if row.at > reached}
        return waiting | {key for key in {row.key for row in self.taken} if self._gone_through(key, reached)[1]}


class LookBackModel(NearRowModel):
    """Emits a row when time has passed it and its following time. Its results are of its key's rows near it, both ends included."""

    def come(self, fresh: Sequence[Row], watermark: int) -> Iterable[tuple[Any, OutputRow]]:
        for row in self.taken:
            if self._is_over(row, watermark) and self.first_time(row.number):
                results: OutputRow = ()
                for size, following in self.query.assigner["of"]:
                    near = [each for each in self.taken if each.key == row.key and -size <= each.at - row.at <= following]
                    results += summed(near)
                yield row.key, (row.at, row.value, row.number, *results)

    def _is_over(self, row: Row, watermark: int) -> bool:
        return bool(row.at + max(following for _, following in self.query.assigner["of"]) <= watermark)

    def open_keys(self) -> set[Any]:
        return {row.key for row in self.taken if not self._is_over(row, self.times.watermark)}
