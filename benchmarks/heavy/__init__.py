"""Hot keys and heavy rows: speed, memory, and right answers."""
