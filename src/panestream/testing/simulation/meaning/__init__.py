"""What queries mean, by definition: everything is kept, everything is replayed. Nothing here knows the engine."""
