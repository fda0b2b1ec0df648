"""The report of a run: the history of its micro-batches, in bounded memory and on one page."""
