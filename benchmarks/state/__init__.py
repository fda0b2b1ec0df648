"""Large states: reading them, savepoints, and starts from savepoints."""
