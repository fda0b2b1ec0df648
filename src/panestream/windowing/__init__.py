"""The vocabulary of windows: immutable recipes, and the callbacks that users may write themselves."""
