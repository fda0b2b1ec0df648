"""How the objects of a query show themselves: one line in a console, a small table in a notebook; and plans as text.

What is shown is at hand: nothing here asks Spark anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from panestream.windowing.foreign_names import WithForeignNames

_LONGEST = 160
_MOST = 8


class Explanation(str):
    r"""A plan in words: a string that shows itself as it is read, where others show quotes and ``\n``.

    >>> Explanation("windows   TumblingEventTimeWindows.of('1 hour')\noperator  aligned panes")
    windows   TumblingEventTimeWindows.of('1 hour')
    operator  aligned panes
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self)}</pre>"


class Shown(WithForeignNames):
    """Something with a short ``repr``, and a table of itself for notebooks.

    >>> class Page(Shown):
    ...     def _parts(self):
    ...         return {"rows": "3 & more", "late": ""}
    >>> Page()
    <Page: rows 3 & more>
    >>> "&amp; more" in Page()._repr_html_(), "late" in Page()._repr_html_()
    (True, False)
    """

    def _parts(self) -> Mapping[str, str]:
        """What there is to say, by title; in a ``repr`` without the titles. What is empty is left out."""
        raise NotImplementedError

    def _said(self) -> list[tuple[str, str]]:
        return [(title, part) for title, part in self._parts().items() if part]

    def __repr__(self) -> str:
        text = " | ".join(f"{title} {part}" for title, part in self._said())
        whole = f"{type(self).__name__}: {text}" if text else type(self).__name__
        return f"<{whole if len(whole) <= _LONGEST else whole[: _LONGEST - 1] + '…'}>"

    def _repr_html_(self) -> str:
        return small_table(type(self).__name__, self._said())


def small_table(caption: str, said: Iterable[tuple[str, str]]) -> str:
    """A small table for notebooks: titles and what is said, as text."""
    style = ' style="text-align: left"'
    rows = "".join(f"<tr><th{style}>{escape(title)}</th><td{style}>{escape(part)}</td></tr>" for title, part in said)
    return f"<table><caption>{escape(caption)}</caption>{rows}</table>"


def parts_of(shown: Shown) -> Mapping[str, str]:
    """What there is to say of something that is part of what is shown."""
    return shown._parts()  # noqa: SLF001 - its own class's


def listed(names: Sequence[str]) -> str:
    """Names with commas between, the first few of them.

    >>> listed(["user", "page"]), listed(list("abcdefghij"))
    ('user, page', 'a, b, c, d, e, f, g, h, … (10)')
    """
    shown = ", ".join(names[:_MOST])
    return shown if len(names) <= _MOST else f"{shown}, … ({len(names)})"


__all__ = ["Explanation", "Shown", "listed", "parts_of"]
