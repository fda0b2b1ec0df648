"""State outside of a running query: read from checkpoints, stored in savepoints, loaded into new checkpoints."""
