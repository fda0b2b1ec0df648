"""What a checkpoint is tied to: texts that are the same in every process, and what to say where they differ."""

from __future__ import annotations

import re
from collections.abc import Mapping

from panestream.errors import PlanMismatchError

KEY_GROUPS = "key groups"
"""What the identity of a plan calls the number of them."""


def stable_repr(recipe: object) -> str:
    """A ``repr`` without addresses, which differ in every process.

    >>> stable_repr(len), stable_repr(lambda row: row.gap)
    ('<built-in function len>', '<function <lambda>>')
    """
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(recipe))


def check_identity(saved: Mapping[str, str], now: Mapping[str, str], where: str) -> None:
    """Refuses to go on with the state of another plan.

    Raises:
        PlanMismatchError: naming every difference, what may change, and what to do.
    """
    changed = {name: (saved.get(name), now.get(name)) for name in sorted({*saved, *now}) if saved.get(name) != now.get(name)}
    if not changed:
        return
    lines = [f"  {name}: {then or '(absent)'}  ->  {new or '(absent)'}" for name, (then, new) in changed.items()]
    ways = ["Start with the old plan, or on a new checkpoint. (The watermark strategy, output tags, top and sinks may change.)"]
    if KEY_GROUPS in changed and "none" not in (saved.get("key"), now.get("key")):
        ways.insert(0, f"The number of key groups is fixed when a checkpoint is born: .key_groups({saved.get(KEY_GROUPS)}).")
    text = f"{where} belongs to another plan. What changed (then -> now):\n" + "\n".join([*lines, *ways])
    raise PlanMismatchError(text, changed)


__all__ = ["KEY_GROUPS", "check_identity", "stable_repr"]
