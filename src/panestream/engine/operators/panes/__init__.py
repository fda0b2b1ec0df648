"""Aligned panes: tumbling and sliding windows that aggregate each row once."""
