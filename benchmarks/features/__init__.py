"""Rolling values, as-of joins, process functions, filled windows and aggregates, each compared with the best peer."""
