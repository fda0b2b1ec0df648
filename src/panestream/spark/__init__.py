"""The parts that use Spark: columns and types, the stateful operator, the running query, checkpoints and sinks."""
