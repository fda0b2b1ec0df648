"""The stateful operator on Spark: packs rows, places key groups, runs the engine, and unpacks its output."""
