"""The columns that identify a row of the results: the key columns and the window's."""

from __future__ import annotations

from collections.abc import Sequence

from panestream.engine.plan import WINDOW_COLUMNS
from panestream.errors import SinkError, did_you_mean


def check_keys(keys: object, sink: str) -> None:
    """Raise SinkError if ``keys`` is not a list of names; ``sink``, e.g. ``a MergeSink``, begins the message."""
    if isinstance(keys, str) or not isinstance(keys, Sequence) or not all(isinstance(key, str) for key in keys):
        instead = f": write [{keys!r}]" if isinstance(keys, str) else ""
        raise SinkError(f"{sink} needs the names of the key columns as a list, got {keys!r}{instead}")


def check_key_columns(keys: Sequence[str], columns: Sequence[str], rows: str) -> None:
    """Raise SinkError if a key is not a column, with a suggestion; ``rows`` begins the message."""
    for key in keys:
        if key not in columns:
            raise SinkError(f"{rows} have no key column {key!r}; {did_you_mean(key, columns)}")


def key_and_window(keys: Sequence[str], columns: Sequence[str]) -> list[str]:
    """Return the columns whose values identify a row among the last results of the windows.

    >>> key_and_window(["user"], ["user", "window_start", "window_end", "clicks"])
    ['user', 'window_start', 'window_end']
    """
    return [*keys, *(name for name in WINDOW_COLUMNS if name in columns and name not in keys)]
