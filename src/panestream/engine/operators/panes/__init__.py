"""Aligned panes: tumbling, sliding, cumulating and calendar windows that aggregate each row once."""
