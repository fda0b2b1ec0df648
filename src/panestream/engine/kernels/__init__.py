"""Work on whole columns that knows nothing of windows' plans: sorting, grouping, ranges, hashes, slices of time."""
