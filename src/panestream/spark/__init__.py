"""What talks to Spark: columns and types, the way of rows through its operators, the running query, checkpoints and sinks."""
