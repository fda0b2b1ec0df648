"""A running query, shown in a notebook while it runs."""
