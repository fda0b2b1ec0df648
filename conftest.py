"""Settings for all tests, those of docstrings in ``src`` included. `tests/conftest.py` has those of the folder ``tests``."""

pytest_plugins = ["tests.docstrings"]
