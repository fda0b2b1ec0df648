"""Declared aggregates on whole columns: rows to partials, partials to panes, panes to windows."""
