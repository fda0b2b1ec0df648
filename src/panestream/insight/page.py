"""The frame of a page or of a notebook part: its colours, fonts, tables and surrounding HTML."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

from panestream.tracing.texts import printable


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


_COLOURS = "--ink: #1d2329; --faint: #5b6570; --line: #d9dee3; --bar: #2f7fb8; --mark: #b4471a; --back: #ffffff; --card: #f6f8fa"
_DARK = "--ink: #e4e8ec; --faint: #9aa5b1; --line: #343c45; --bar: #5aa9e0; --mark: #f0915a; --back: #14181d; --card: #1c2228"
# A notebook has its own colours and may be dark on any system, so these must suit both.
_EITHER = "--ink: currentColor; --faint: #7d8894; --line: #8886; --bar: #3b8bc4; --mark: #d0642c; --card: transparent"
_STYLE = """
.panestream { color: var(--ink); font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
.panestream h1 { font-size: 1.25rem; margin: 0 0 .75rem; overflow-wrap: anywhere; }
.panestream h2 { font-size: 1rem; margin: 1.75rem 0 .25rem; }
.panestream p { margin: 0 0 .5rem; color: var(--faint); font-size: .875rem; }
.panestream dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; margin: 0; }
.panestream dt { color: var(--faint); }
.panestream dd { margin: 0; overflow-wrap: anywhere; }
.panestream .scroll { overflow-x: auto; }
.panestream table { border-collapse: collapse; font-size: .875rem; font-variant-numeric: tabular-nums; margin: 0;
  color: inherit; }
.panestream th, .panestream td { background: none; border: 0; border-bottom: 1px solid var(--line); text-align: left;
  padding: .25rem 1rem .25rem 0; vertical-align: top; min-width: 5.5rem; max-width: 32rem; overflow-wrap: anywhere; }
.panestream th { color: var(--faint); font-weight: 500; white-space: nowrap; }
.panestream .n { text-align: right; white-space: nowrap; min-width: 0; }
.panestream .t { white-space: nowrap; min-width: 0; }
.panestream svg { display: block; width: 100%; height: auto; max-width: 58rem; font-family: inherit; }
.panestream svg.narrow { display: none; }
.panestream pre { font-size: .8125rem; overflow-x: auto; background: var(--card); color: inherit; padding: .75rem;
  border-radius: 6px; }
.panestream summary { cursor: pointer; margin-top: 1.75rem; font-weight: 600; }
@media (max-width: 40rem) {
  .panestream svg.wide { display: none; }
  .panestream svg.narrow { display: block; max-width: 27rem; }
  .panestream .w { display: none; }
  .panestream dl { grid-template-columns: 1fr; gap: 0; }
  .panestream dd { margin-bottom: .4rem; }
}
"""


def page(title: str, body: str) -> str:
    """Return a self-contained HTML page without scripts. ``title`` is plain text, and ``body`` is HTML."""
    style = (
        f":root {{ color-scheme: light dark; {_COLOURS} }}\n@media (prefers-color-scheme: dark) {{ :root {{ {_DARK} }} }}\n"
        f"body {{ background: var(--back); margin: 0 auto; padding: 1.5rem 1rem 3rem; max-width: 62rem; }}{_STYLE}"
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        f'<main class="panestream">\n{body}\n</main>\n</body>\n</html>\n'
    )


def picture_file(svg: str) -> str:
    """Return a drawn picture as a file of its own, which is light or dark as the reader's system."""
    style = (
        f"<style>:root {{ {_COLOURS}; background: var(--back); font-family: system-ui, sans-serif }}\n"
        f"@media (prefers-color-scheme: dark) {{ :root {{ {_DARK} }} }}</style>"
    )
    opened, inside = svg.split(">", 1)
    return f'{opened} xmlns="http://www.w3.org/2000/svg">{style}{inside}\n'


def part(body: str) -> str:
    """Return a part of a notebook, in the notebook's own colours."""
    return f'<style>{_STYLE}</style><div class="panestream" style="{_EITHER}">{body}</div>'


def facts(lines: Iterable[tuple[str, str]]) -> str:
    """Return a list of titles and texts."""
    shown = "\n".join(f"<dt>{escape(title)}</dt><dd>{escape(text)}</dd>" for title, text in lines)
    return f"<dl>\n{shown}\n</dl>"


def picture(title: str, drawn: tuple[str, str] | None, otherwise: str) -> Iterable[str]:
    """Yield a title and its picture, or a text if nothing is drawn."""
    yield f"<h2>{escape(title)}</h2>"
    yield "\n".join(drawn) if drawn is not None else f"<p>{escape(otherwise)}</p>"


def printable_lines(text: str) -> str:
    """Return text with several lines, made harmless for a page."""
    return "\n".join(printable(line, 1_000) for line in text.splitlines())
