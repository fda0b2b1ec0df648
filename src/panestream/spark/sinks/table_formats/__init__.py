"""What a table of the catalog is (Delta, Iceberg, another), and what follows for a micro-batch that is written again."""
