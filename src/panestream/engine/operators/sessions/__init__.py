"""Sessions as columns: built in ``pack``, merged per key group with those that are open."""
