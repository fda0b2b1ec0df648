"""A summary as one self-contained page without scripts, and as a part of a notebook."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from panestream.inspection.pictures import lateness, skew, windows_over_time
from panestream.inspection.summary import Summary
from panestream.inspection.tables import tables_of
from panestream.inspection.words import head
from panestream.pages.document import facts, page, part, picture, printable_lines
from panestream.pages.tables import table
from panestream.pages.words import moment, printable


def page_of(summary: Summary) -> str:
    """Return the page as HTML."""
    title = printable(summary.path) + ("" if summary.batch_id is None else f", micro-batch {summary.batch_id}")
    return page(title, _body(summary))


def notebook_of(summary: Summary) -> str:
    """Return HTML for a notebook, in the notebook's own colours."""
    return part(_body(summary))


def _body(summary: Summary) -> str:
    shown = {table.title: table for table in tables_of(summary)}
    parts = [f"<h1>{escape(printable(summary.path, 400))}</h1>", facts(head(summary))]
    parts += [table(shown.pop(title)) for title in ("Windows", "States", "Elements") if title in shown]
    parts += picture("Open windows by their end", windows_over_time(summary), "no window is open")
    if summary.sources:
        parts += picture("Source partitions, and how far behind they are", lateness(summary), "no source partition had rows yet")
        parts += [table(shown.pop(title), titled=False) for title in ("Source partitions",) if title in shown]
    parts += [table(shown.pop(title)) for title in list(shown) if title not in ("Key groups", "Users' states", "Timers")]
    parts += picture("Key groups", skew(summary), "nothing is kept in any key group")
    parts += [table(each, titled=title != "Key groups") for title, each in shown.items()]
    parts.append(f"<details><summary>The plan</summary><pre>{escape(printable_lines(summary.plan.words))}</pre></details>")
    parts.append(f"<p>Looked at {moment(summary.taken)} UTC. All times are in UTC.</p>")
    return "\n".join(parts)


@dataclass(frozen=True, slots=True, repr=False)
class ShownSummary(Summary):
    """A summary that a notebook shows as a page."""

    def _repr_html_(self) -> str:
        return notebook_of(self)


__all__ = ["ShownSummary", "notebook_of", "page_of"]
