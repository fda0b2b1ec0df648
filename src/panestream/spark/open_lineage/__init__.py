"""OpenLineage events of a running query: its inputs, its outputs, and the counts of both and of late rows."""
