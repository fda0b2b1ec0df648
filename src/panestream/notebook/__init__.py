"""A live view of a running query for notebooks."""
