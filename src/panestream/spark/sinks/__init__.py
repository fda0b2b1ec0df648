"""Write the rows of outputs idempotently: a micro-batch that is run again leaves the same rows as the first time.

Spark runs a micro-batch again if it did not see the commit. A sink gets the batch's id, and writing a batch twice must equal
writing it once. :mod:`base` defines a sink; each kind has its own module, and no module lists them.
"""
