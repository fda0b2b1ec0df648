"""Aligned windows over whole rows: each row is stored once, by pane."""
