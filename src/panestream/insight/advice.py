"""The advisor's findings: numbers, a sentence, a table and a plot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any

import numpy as np

from panestream.errors import InvalidPlanError
from panestream.insight.delays import Completeness
from panestream.insight.drawing import BAR, LINE, MARK, both, duration_ticks, ticks_up
from panestream.insight.page import Column, ShownTable, facts, part, picture, table
from panestream.tracing.texts import many, number, printable, span
from panestream.windowing.time import Duration, format_duration, to_micros

_MOST = 400


def plot(found: Completeness, waiting: Sequence[tuple[int, int]]) -> tuple[str, str] | None:
    """Draw a wide and a narrow plot, or return None if matplotlib or a second delay is missing; ``waiting`` may be empty."""
    if len(found.delays) < 2:
        return None
    return both(partial(_draw, found=found, costs=waiting), 3.2, "completeness")


def _draw(axes: Any, wide: bool, *, found: Completeness, costs: Sequence[tuple[int, int]]) -> None:
    delays = np.array(found.delays, np.float64) / 1e6
    shares = 100 * np.array(found.kept, np.float64) / found.rows
    keep = np.unique(np.linspace(0, len(delays) - 1, _MOST).astype(int))
    longest = delays[-1]
    axes.step([0, *delays[keep], longest * 1.04], [0, *shares[keep], 100], where="post", color=BAR, linewidth=1.8)
    for share in (0.99, 0.999):
        delay = found.delay_for(share) / 1e6
        axes.axvline(delay, color=LINE, linewidth=1, zorder=0)
        if wide or share == 0.99:
            axes.text(delay, 101, f"{100 * share:g} %", fontsize=9, ha="center", va="bottom", color=BAR)
    if costs:
        waiting = axes.twinx()
        waiting.plot([delay / 1e6 for delay, _ in costs], [rows for _, rows in costs], color=MARK, lw=1.4, marker="o", ms=3.5)
        ticks_up(waiting, max(rows for _, rows in costs) or 1, number, grid=False)
        waiting.set_ylabel("rows open", color=MARK)
        waiting.spines["right"].set_visible(False)
    axes.set_ylim(min(float(shares[0]) * 0.9, 90), 101)
    axes.set_xlim(0, longest * 1.04)
    ticks = duration_ticks(longest, 8 if wide else 4)
    axes.set_xticks(ticks, [span(round(tick * 1e6)) for tick in ticks])
    axes.set_ylabel("% of rows kept", color=BAR)
    axes.set_xlabel("delay of the watermark")
    axes.grid(axis="y", color=LINE, linewidth=0.6)
    axes.set_axisbelow(True)


SHARES = (0.9, 0.99, 0.999, 0.9999, 1.0)
"""The shares of rows for which delays are reported."""


@dataclass(frozen=True, slots=True)
class DelayCost:
    """A delay of the watermark, the rows it keeps, and its cost.

    Attributes:
        delay: the delay of the watermark.
        kept, late, share: number of rows that are not late, number of late rows, and share of kept rows (up to 1).
        open_rows: maximum number of rows that wait for the watermark to close their windows or, without windows, to pass them.
        open_panes: maximum number of waiting panes with rows (of a key, between two window starts). None without key or windows.
        windows_per_key: maximum number of open windows of a key, or None without windows.

    >>> cost = DelayCost(timedelta(seconds=5), kept=99, late=1, share=0.99, open_rows=12, open_panes=None, windows_per_key=None)
    >>> f"{cost.delay}: {cost.share:.0%} kept"
    '0:00:05: 99% kept'
    """

    delay: timedelta
    kept: int
    late: int
    share: float
    open_rows: int
    open_panes: int | None
    windows_per_key: int | None


@dataclass(frozen=True, repr=False)
class Lateness:
    """The result of :func:`panestream.tools.lateness`, shown as text by ``print`` and with a plot in a notebook.

    Attributes:
        rows, invalid: number of rows with and without an event time. The latter do not count in any other number.
        behind: number of rows that came after a row with a larger event time. With several source partitions, all partitions must
            have reached a larger event time before the row.
        furthest: the lag of the row that was furthest behind.
        partitions: number of source partitions.
        costs: delays in ascending order, which keep 90 %, 99 %, 99.9 %, 99.99 % and all rows, and the requested ones.
        told: titles and texts about the input.

    Examples:
        >>> rows = df.withColumn("received", F.expr("if(user = 'bob', ts, ts + INTERVAL 30 MINUTES)"))
        >>> found = pst.tools.lateness(rows, "ts", "received")
        >>> str(found.furthest), [str(cost.delay) for cost in found.costs]
        ('0:15:00', ['0:00:00', '0:15:00'])
    """

    rows: int
    invalid: int
    behind: int
    furthest: timedelta
    partitions: int
    costs: Sequence[DelayCost]
    told: Sequence[tuple[str, str]] = ()
    completeness: Completeness = field(default_factory=lambda: Completeness((), ()), repr=False)

    def delay(self, share: float = 0.99) -> timedelta:
        """Return the delay that keeps a share of the rows, at most 0.05 % longer than the shortest such delay.

        Args:
            share: the share of the rows, above 0 and at most 1.

        Raises:
            InvalidPlanError: if the share is out of range, or all rows lack an event time.
        """
        if not 0 < share <= 1:
            raise InvalidPlanError(f"the share of rows to keep is a number above 0 and up to 1, got {share!r}")
        if not self.rows:
            raise InvalidPlanError("rows without event times do not have a delay")
        return timedelta(microseconds=self.completeness.delay_for(share))

    def share(self, delay: Duration) -> float:
        """Return the share of the rows that a delay keeps. It is exact for a delay from :meth:`delay`, or else a lower bound."""
        kept = self.completeness.keeps(to_micros(delay, "the delay"))
        return kept / self.rows if self.rows else 1.0

    @property
    def sentence(self) -> str:
        """The main result in a sentence."""
        if not self.rows:
            return "No row has an event time."
        if not self.behind:
            return f"No row of {number(self.rows)} came behind another: for_monotonous_timestamps() keeps all of them."
        every = self.completeness.delay_for(1.0)
        if not every:
            came = f"{number(self.behind)} of {many(self.rows, 'row')} came behind others"
            return f"{came}, none after its windows had ended: for_monotonous_timestamps() keeps all of them."
        parts = [
            f"{length} keeps {percent(self.completeness.keeps(delay), self.rows)}"
            for delay in dict.fromkeys(self.completeness.delay_for(share) for share in (0.99, 0.999, 1.0))
            for length in [format_duration(delay)]
        ]
        said = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
        behind = f"{percent(self.behind, self.rows)} came behind others, by up to {span(_micros(self.furthest))}"
        return f"Of {many(self.rows, 'row')} {behind}: a delay of {said} of them."

    @property
    def table(self) -> ShownTable:
        """The delays and their costs."""
        panes = any(cost.open_panes is not None for cost in self.costs)
        windows = any(cost.windows_per_key is not None for cost in self.costs)
        columns = [Column("delay"), Column("keeps", numeric=True), Column("late rows", numeric=True)]
        columns += [Column("rows open", numeric=True)]
        columns += [Column("panes open", numeric=True)] if panes else []
        columns += [Column("windows open of a key", numeric=True, wide_only=True)] if windows else []
        rows = []
        for cost in self.costs:
            told = [
                format_duration(_micros(cost.delay)),
                percent(cost.kept, self.rows),
                number(cost.late),
                number(cost.open_rows),
            ]
            told += [number(cost.open_panes)] if panes else []
            told += [number(cost.windows_per_key)] if windows else []
            rows.append(tuple(told))
        return ShownTable("Delays", "open: the most at once", tuple(columns), tuple(rows))

    def svg(self) -> str | None:
        """Return the plot of kept and open rows by delay, for use in a page, or None without matplotlib."""
        drawn = self._plot()
        return None if drawn is None else drawn[0]

    def _plot(self) -> tuple[str, str] | None:
        return plot(self.completeness, [(_micros(cost.delay), cost.open_rows) for cost in self.costs])

    def __str__(self) -> str:
        shown = self.table
        head = "\n".join(f"{title:<12} {text}" for title, text in self.told)
        return "\n".join(filter(None, [self.sentence, head, as_text(shown) if shown.rows else ""]))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return part(self.body())

    def body(self) -> str:
        """Return the HTML for a page."""
        told = [(title, printable(text, 400)) for title, text in self.told]
        parts = [f"<p>{self.sentence}</p>", facts(told)]
        if self.costs:
            parts += picture(
                "Rows that a delay keeps, and open windows", self._plot(), "pip install 'panestream[insight]' draws it"
            )
            parts.append(table(self.table, titled=False))
        return "\n".join(parts)


def percent(some: int, all_of_them: int) -> str:
    """Return a percentage that is never rounded to 100 % or 0 %.

    >>> percent(1, 3), percent(99_999, 100_000), percent(9_999_999, 10_000_000), percent(3, 3), percent(0, 3)
    ('33.33 %', '99.999 %', '99.99999 %', '100 %', '0 %')
    """
    if some in (0, all_of_them):
        return "100 %" if some else "0 %"
    for digits in range(2, 12):
        text = f"{100 * some / all_of_them:.{digits}f}"
        if float(text) not in (0.0, 100.0):
            break
    return f"{text} %"


def as_text(shown: ShownTable) -> str:
    """Return a table in monospaced text."""
    rows = [[column.title for column in shown.columns], *shown.rows]
    widths = [max(len(row[place]) for row in rows) for place in range(len(shown.columns))]
    return "\n".join(
        "  ".join(
            text.rjust(width) if column.numeric else text.ljust(width)
            for text, width, column in zip(row, widths, shown.columns, strict=True)
        ).rstrip()
        for row in rows
    )


def _micros(given: timedelta) -> int:
    return given // timedelta(microseconds=1)
