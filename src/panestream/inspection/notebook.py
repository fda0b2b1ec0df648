"""A summary that shows itself in a notebook."""

from __future__ import annotations

from dataclasses import dataclass

from panestream.inspection.page import notebook_of
from panestream.inspection.summary import Summary


@dataclass(frozen=True, slots=True, repr=False)
class ShownSummary(Summary):
    """The data, and in a notebook the page."""

    def _repr_html_(self) -> str:
        return notebook_of(self)


__all__ = ["ShownSummary"]
