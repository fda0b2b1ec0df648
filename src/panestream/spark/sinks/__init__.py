"""Where the rows of an output go, idempotently: a micro-batch that is run again leaves what it left the first time.

Spark re-runs a micro-batch whose commit it did not see. A sink is handed the batch's id; writing the same batch twice must
be the same as writing it once. :mod:`base` says what a sink is; each kind is a module of its own, and nothing lists them.
"""
