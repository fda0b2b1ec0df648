"""Declared aggregates on whole columns: rows to partials, partials to panes, panes to windows."""

from panestream.engine.aggregation.combine import Aggregation

__all__ = ["Aggregation"]
