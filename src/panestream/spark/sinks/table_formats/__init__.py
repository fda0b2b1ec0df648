"""The format of a catalog's table (Delta, Iceberg, another), and its effect on a micro-batch that is written again."""
