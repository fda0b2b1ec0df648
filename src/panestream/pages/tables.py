"""Tables that text and pages share."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape


@dataclass(frozen=True, slots=True)
class Column:
    """A column, left out of narrow output if ``wide_only``. In a column of times, seconds appear if any time has them."""

    title: str
    numeric: bool = False
    wide_only: bool = False
    time: bool = False


@dataclass(frozen=True, slots=True)
class ShownTable:
    """A table for people, with a text for each column of each row and an optional note below the title."""

    title: str
    note: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]


def table(shown: ShownTable, *, titled: bool = True) -> str:
    """Return a table as HTML."""
    classes = [_class(column) for column in shown.columns]
    heads = "".join(f"<th{kind}>{escape(column.title)}</th>" for column, kind in zip(shown.columns, classes, strict=True))
    rows = "\n".join(
        f"<tr>{''.join(f'<td{kind}>{escape(text)}</td>' for text, kind in zip(row, classes, strict=True))}</tr>"
        for row in shown.rows
    )
    title = f"<h2>{escape(shown.title)}</h2>\n" if titled else ""
    note = f"<p>{escape(shown.note)}</p>\n" if shown.note else ""
    return f'{title}{note}<div class="scroll"><table>\n<thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table></div>'


def _class(column: Column) -> str:
    kinds = [kind for kind, is_so in (("n", column.numeric), ("t", column.time), ("w", column.wide_only)) if is_so]
    return f' class="{" ".join(kinds)}"' if kinds else ""


__all__ = ["Column", "ShownTable", "table"]
