"""The only room that imports pyspark: exchange, processor, streaming, batch, sinks."""
