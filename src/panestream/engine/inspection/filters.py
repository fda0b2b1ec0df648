"""Parse what users ask of a state: which keys, and which windows."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from panestream.engine.inspection.reduce import StateFilter
from panestream.engine.plan import WindowPlan
from panestream.errors import CheckpointError, did_you_mean
from panestream.windowing.time import micros_of_text

NULL = r"\N"
"""Null in the text of a key."""
_TRUE_FALSE = {"true": True, "false": False}


def parse_filter(plan: WindowPlan, keys: Sequence[str], windows: Sequence[str], most: int) -> StateFilter:
    r"""Parse filters from the command line.

    Keys are ``column=value`` for different key columns, or just a value if there is only one column. ``\N`` is null. Windows are
    the label of a kind of windows, or a time in ISO 8601 (UTC unless it has a zone).

    Raises:
        CheckpointError: if a column, label or time is unknown, or a value does not have the type of its column.
    """
    names, found = plan.key_names, {}
    for text in keys:
        place, value = _column_of(names, text)
        if place in found:
            raise CheckpointError(f"the key column {names[place]!r} is given twice: {text!r} is the second value")
        found[place] = _typed(value, plan.key_schema.field(place))
    labels = tuple(text for text in windows if text in plan.labels)
    instants = tuple(_instant(text, plan.labels) for text in windows if text not in plan.labels)
    texts = {name: tuple(given) for name, given in (("key", keys), ("window", windows)) if given}
    return StateFilter(found, labels, instants, most, texts)


def key_arrays(plan: WindowPlan, key: object) -> dict[int, pa.Array]:
    """Return a key (a tuple if it has several columns) as :attr:`StateFilter.keys`.

    Raises CheckpointError if it does not fit.
    """
    values, columns = list(key) if isinstance(key, (tuple, list)) else [key], list(plan.key_schema)
    if len(values) != len(columns):
        names = ", ".join(plan.key_names) or "none, all rows are together"
        raise CheckpointError(f"the key {key!r} is not of the key columns ({names}): give a value, or a tuple of one for each")
    return {place: _key_array(value, column) for place, (value, column) in enumerate(zip(values, columns, strict=True))}


def _key_array(value: object, column: pa.Field) -> pa.Array:
    try:
        return pa.array([value]).cast(column.type)
    except (pa.ArrowException, ValueError, TypeError):
        raise CheckpointError(
            f"{value!r} is not a value of the key column {column.name!r}, which is of type {column.type}"
        ) from None


def _column_of(names: Sequence[str], text: str) -> tuple[int, str]:
    if not names:
        raise CheckpointError("the query does not have keys, so all its rows are in the same windows. Leave out the key")
    # Take the longest matching name, since one name plus an equals sign can be the beginning of another.
    fitting = [place for place, name in enumerate(names) if text.startswith(f"{name}=")]
    if fitting:
        place = max(fitting, key=lambda each: len(names[each]))
        return place, text[len(names[place]) + 1 :]
    if len(names) == 1:
        return 0, text
    meant = text.split("=", maxsplit=1)[0]
    hint = did_you_mean(meant, names) if "=" in text else f"the key columns are {', '.join(names)}"
    raise CheckpointError(f"the key {text!r} does not name a key column, as in '{names[0]}=VALUE': {hint}")


def _typed(text: str, column: pa.Field) -> pa.Array:
    if text == NULL:
        return pa.nulls(1, column.type)
    try:
        return _parsed(text, column.type)
    except (pa.ArrowException, ValueError, ArithmeticError):
        raise CheckpointError(
            f"{text!r} is not a value of the key column {column.name!r}, which is of type {column.type} (null is written {NULL})"
        ) from None


def _parsed(text: str, kind: pa.DataType) -> pa.Array:
    if pa.types.is_boolean(kind):
        if text.lower() not in _TRUE_FALSE:
            raise ValueError(text)
        return pa.array([_TRUE_FALSE[text.lower()]])
    if pa.types.is_timestamp(kind):
        return pa.array([micros_of_text(text)], pa.int64()).cast(kind)
    if pa.types.is_binary(kind):
        return pa.array([bytes.fromhex(text.removeprefix("0x"))], kind)
    if pa.types.is_nested(kind) or pa.types.is_duration(kind):
        raise ValueError(text)
    return pa.array([text]).cast(kind)


def _instant(text: str, labels: Sequence[str]) -> int:
    try:
        return micros_of_text(text)
    except ValueError:
        known = f"they are called {', '.join(labels)}" if labels else "there is one kind, without a name"
        raise CheckpointError(
            f"the window {text!r} is neither a time as 2026-01-31T10:00 (UTC, or with its zone) nor a kind of windows: {known}"
        ) from None
