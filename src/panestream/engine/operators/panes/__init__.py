"""Aligned panes: tumbling and sliding windows, each row aggregated once."""
