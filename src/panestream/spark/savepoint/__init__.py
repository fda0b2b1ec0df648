"""State outside of a running query: read from checkpoints, kept in savepoints, put into new checkpoints."""
