"""By what a sink tells one row of the results from another: the key columns, and the window's."""

from __future__ import annotations

from collections.abc import Sequence

from panestream.engine.plan import WINDOW_COLUMNS
from panestream.errors import SinkError, did_you_mean


def check_keys(keys: object, sink: str) -> None:
    """Refuses what is no list of names.

    Raises:
        SinkError: says what ``sink``, e.g. ``a MergeSink``, wants.
    """
    if isinstance(keys, str) or not isinstance(keys, Sequence) or not all(isinstance(key, str) for key in keys):
        instead = f": write [{keys!r}]" if isinstance(keys, str) else ""
        raise SinkError(f"{sink} wants the names of the key columns as a list, got {keys!r}{instead}")


def check_key_columns(keys: Sequence[str], columns: Sequence[str], rows: str) -> None:
    """Refuses keys that are no columns.

    Raises:
        SinkError: names the first, and what may have been meant; ``rows`` says which rows lack it.
    """
    for key in keys:
        if key not in columns:
            raise SinkError(f"{rows} have no key column {key!r}; {did_you_mean(key, columns)}")


def key_and_window(keys: Sequence[str], columns: Sequence[str]) -> list[str]:
    """The columns of which no two rows of a window's last results have the same values.

    >>> key_and_window(["user"], ["user", "window_start", "window_end", "clicks"])
    ['user', 'window_start', 'window_end']
    """
    return [*keys, *(name for name in WINDOW_COLUMNS if name in columns and name not in keys)]
