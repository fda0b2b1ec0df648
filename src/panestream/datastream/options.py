"""Options of a query: distribution of work, memory, and contents of the state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from panestream.errors import InvalidPlanError, did_you_mean


class Options(TypedDict, total=False):
    """The options of ``.options(...)``.

    Attributes:
        key_groups: the number of key groups, 1 to 32768, which is the parallelism of the state and fixed when a checkpoint is
            created. A stream on an existing checkpoint takes the checkpoint's number. Otherwise a stream has as many as
            ``spark.sql.shuffle.partitions`` was set to, or 4, and a batch as many as tasks run at a time.
        tasks: the number of tasks of a stream, 1 to 32768, among which each micro-batch distributes the key groups. It may change
            from run to run. By default it is the number of tasks that the session runs at a time, if that number is known and
            fixed.
        memory_limit: the most bytes of rows that a worker reads into memory at once, at least 1,000,000. The default is 1 GiB.
            More rows are an error that names the key and window, or the key group. Bytes are counted in the format of exchange
            and state. In memory they take three times as much, as Python objects (``apply``, ``process``) ten to thirty times.
        split_distinct: the number of parts (2 to 32768) into which ``agg.count_distinct`` splits the distinct values. Each part
            is in its own key group, so that a key with very many values does not fill one. Works for windows that fire once, with
            ``count_distinct`` of one expression, ``count``, ``sum``, ``min`` and ``max``. Flink SQL:
            ``table.optimizer.distinct-agg.split.enabled``.
        every_firing: whether the row operator emits every single firing, as Flink does. Columnar operators emit at most one for
            each key, window and micro-batch, which is the last.
        allow_pickled_state: whether accumulators and states of user classes are stored as pickles. Numbers, strings, times,
            tuples, lists, sets, dicts and rows are always stored as columns. Reading a pickle runs code, so allow it only if
            nobody else can write to the checkpoint.
    """

    key_groups: int
    tasks: int
    memory_limit: int
    split_distinct: int
    every_firing: bool
    allow_pickled_state: bool


_RANGES = {
    "key_groups": (1, 32768),
    "tasks": (1, 32768),
    "memory_limit": (1_000_000, 1 << 62),
    "split_distinct": (2, 32768),
}
"""The smallest and the largest value of each numeric option."""


def check_options(options: Mapping[str, Any], known: Mapping[str, object] = Options.__annotations__) -> None:
    """Refuse unknown options and wrong values with an InvalidPlanError; ``known`` are the accepted names."""
    if not options:
        raise InvalidPlanError(f"options needs at least one option: {', '.join(known)}; write e.g. .options(key_groups=8)")
    for name, value in options.items():
        if name not in known:
            raise InvalidPlanError(f"there is no option {name!r}; {did_you_mean(name, known)}")
        low, high = _RANGES.get(name, (False, True))
        is_kind = isinstance(value, bool) if isinstance(low, bool) else isinstance(value, int) and not isinstance(value, bool)
        if not is_kind or not low <= value <= high:
            wanted = "True or False" if isinstance(low, bool) else _range(low, high)
            raise InvalidPlanError(f"the option {name} must be {wanted}, got {value!r}")


def _range(low: int, high: int) -> str:
    return f"a whole number from {low:,} on" if high > 1 << 60 else f"a whole number from {low} to {high}"


__all__ = ["Options", "check_options"]
