"""How key groups run as a stateful operator of Spark: rows packed, placed, handed to the engine, and unpacked again."""
