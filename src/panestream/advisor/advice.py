"""What the advisor found: numbers, a sentence, a table, a plot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from panestream.advisor.needed import Completeness
from panestream.advisor.plot import plot
from panestream.errors import InvalidPlanError
from panestream.pages.document import facts, part, picture
from panestream.pages.tables import Column, ShownTable, table
from panestream.pages.words import many, number, printable, span
from panestream.windowing.time import Duration, format_duration, to_micros

SHARES = (0.9, 0.99, 0.999, 0.9999, 1.0)
"""What is asked for: of so many rows none is late."""


@dataclass(frozen=True, slots=True)
class DelayCost:
    """One delay of the watermark: what it keeps, and what it costs.

    Attributes:
        delay: of the watermark.
        kept: rows that are not late with it.
        late: rows that are.
        share: of the rows, how many are kept: 1 is all.
        open_rows: how many rows wait at once at most until the watermark closes their windows; without windows, until it has
            passed them.
        open_panes: the same of panes with rows: of a key and a stretch of time between two starts of windows; None: no key, or no
            windows, were given.
        windows_per_key: how many windows of one key are open at once, at most; None: no windows were given.
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
    """How far behind rows came, and what each delay of a watermark would keep of them. Made by :func:`panestream.tools.lateness`.

    Shows itself: as text by ``print``, with a plot in a notebook.

    Attributes:
        rows: that have an event time.
        invalid: that have none; they count in nothing else.
        behind: rows that came after one with a larger event time (of several source partitions: after the furthest behind of
            these had come to a larger one).
        furthest: how far the furthest of them was behind.
        partitions: how many source partitions there are.
        costs: delays, ascending: those that keep 90 %, 99 %, 99.9 %, 99.99 % and all of the rows, and those that were asked for.
        told: what was looked at: titles and text.
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
        """The delay that keeps a share of the rows: at most 0.05 % longer than the shortest one.

        Args:
            share: of the rows, above 0; 1: all of them.

        Raises:
            InvalidPlanError: the share is none; there are no rows.
        """
        if not 0 < share <= 1:
            raise InvalidPlanError(f"the share of rows to keep is a number above 0 and up to 1, got {share!r}")
        if not self.rows:
            raise InvalidPlanError("no row has an event time: no delay can be told")
        return timedelta(microseconds=self.completeness.delay_for(share))

    def share(self, delay: Duration) -> float:
        """The share of the rows that a delay keeps: exact for a delay that :meth:`delay` gave; for another, at least so many."""
        kept = self.completeness.keeps(to_micros(delay, "the delay"))
        return kept / self.rows if self.rows else 1.0

    @property
    def sentence(self) -> str:
        """What to know, in a sentence."""
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
        """The delays and what they cost."""
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
        """The plot, for a page of one's own: rows kept against delay, and rows open. None: matplotlib is not here."""
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
        """What a page shows of it, as HTML."""
        told = [(title, printable(text, 400)) for title, text in self.told]
        parts = [f"<p>{self.sentence}</p>", facts(told)]
        if self.costs:
            parts += picture("What a delay keeps, and what waits for it", self._plot(), "pip install 'panestream[cli]' draws it")
            parts.append(table(self.table, titled=False))
        return "\n".join(parts)


def percent(some: int, all_of_them: int) -> str:
    """A share, never rounded to what it is not: neither up to all nor down to nothing.

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
    """A table in letters of one width."""
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


__all__ = ["SHARES", "DelayCost", "Lateness", "as_text", "percent"]
