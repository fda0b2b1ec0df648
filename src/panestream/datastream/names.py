"""Names that users choose, and those that are taken."""

from __future__ import annotations

from panestream.engine.plan import MAIN, RESERVED
from panestream.errors import InvalidPlanError

__all__ = ["RESERVED", "checked_tag"]

_ARGUMENTS = ("self", "checkpoint", "trigger", "name", "on_progress")
"""What ``start`` takes besides the sinks, which are called by their tags."""


def checked_tag(tag: str) -> str:
    """A tag that the user chose.

    Raises:
        InvalidPlanError: it is no plain name, or taken.
    """
    if not isinstance(tag, str) or not tag.isidentifier() or tag.startswith("_") or tag == MAIN:
        raise InvalidPlanError(f"an output tag is a plain name other than 'main' (it becomes an argument of start), got {tag!r}")
    if tag in _ARGUMENTS:
        raise InvalidPlanError(f"an output cannot be called {tag!r}, which is another argument of start: choose another tag")
    return tag
