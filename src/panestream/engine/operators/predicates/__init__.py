"""Windows that rows begin and end themselves, as columns."""
