"""Aligned windows over whole rows: each row is kept once, by pane."""
