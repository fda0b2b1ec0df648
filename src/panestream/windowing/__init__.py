"""The vocabulary of windows: immutable recipes, and base classes for user code."""
