"""Declared aggregates on whole columns: rows to partials, partials to panes, panes to windows."""

from panestream.engine.aggregates.aggregation import Aggregation

__all__ = ["Aggregation"]
