"""Look-back windows as columns: for each row the aggregates of the rows of its key before it."""
