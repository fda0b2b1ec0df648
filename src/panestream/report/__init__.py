"""The report of a run: what its micro-batches did, kept small however long it runs, and told on one page."""
