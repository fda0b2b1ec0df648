"""Large states: looked into, saved, started from."""
